"""Titles: a tool's name and its description's first sentence, compared with a query."""

from __future__ import annotations

from typing import NamedTuple

from handrail._search.plain import first_sentence
from handrail._search.query import Query
from handrail._search.vocabulary import Vocabulary
from handrail._search.words import cached_stem, drop_stop_words, split
from handrail._values.spec import Spec

NAME_SHARE, SENTENCE_SHARE = 0.24, 0.12
"""How much a score gains from words common to the query and the title.

A title with exactly its words gains half.
"""
WHOLE_NAME = 0.05
"""How much a score gains if the query has all words in the name."""
MAX_TITLES = 4_096
"""Maximum cached titles."""


class Title(NamedTuple):
    """The words in a tool's name and first sentence, without stop words."""

    texts: tuple[list[str], list[str]]
    """Each one's words, in order."""
    stems: tuple[list[str], list[str]]
    """Each one's stems, sorted."""
    name: frozenset[str]
    sentence: frozenset[str]


class Titles:
    """The titles of a catalogue's tools. Each is read when first compared."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._read: dict[int, Title] = {}

    def sort(self, query: Query, scored: list[tuple[int, float]]) -> list[tuple[int, float]]:
        """Return tools with their scores, best first.

        One whose name or first sentence is the query, but for stop words, comes first. Then come
        those where only the order or endings differ, then others by score and likeness.
        """
        wanted, stems = frozenset(query.counts), sorted(query.counts.elements())
        ranks: dict[int, tuple[bool, bool, float]] = {}
        for doc, score in scored:
            title = self._read.get(doc) or self._read_title(doc)
            name, sentence = title.name, title.sentence
            likeness = NAME_SHARE * len(wanted & name) / (len(wanted) + len(name))
            likeness += SENTENCE_SHARE * len(wanted & sentence) / (len(wanted) + len(sentence))
            likeness += WHOLE_NAME * (name <= wanted)
            is_same, has_same = query.words in title.texts, stems in title.stems
            ranks[doc] = is_same, has_same, score * (1 + likeness)
        return sorted(scored, key=lambda pair: ranks[pair[0]], reverse=True)

    def _read_title(self, doc: int) -> Title:
        if len(self._read) >= MAX_TITLES:
            self._read.clear()
        spec = self._vocabulary.specs[self._vocabulary.names[doc]]
        title = self._read[doc] = read_title(spec)
        return title


def read_title(spec: Spec) -> Title:
    """Return a definition's title."""
    name = drop_stop_words(split(spec.name))
    sentence = drop_stop_words(split(first_sentence(spec.description)))
    stems = sorted(map(cached_stem, name)), sorted(map(cached_stem, sentence))
    return Title((name, sentence), stems, frozenset(stems[0]), frozenset(stems[1]))
