"""Read a query: the stems to search for, and words read as other ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from handrail._search.vocabulary import Vocabulary
from handrail._search.words import JOINED, STOP_WORDS, cached_stem, drop_stop_words, split

MIN_SWAPPED, MIN_MISSING, MIN_EXTRA, MIN_WRONG = 4, 5, 7, 8
"""Minimum letters in a word with this slip."""
MAX_QUERY_CHARS = 1_000
"""Characters read from a query."""
MAX_WORDS = 64
"""Words read from a query."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Query(NamedTuple):
    """Stems with how often each is wanted, and corrections for unknown words."""

    words: list[str]
    """The words as they are written, without stop words."""
    counts: Counter[str]
    corrected: Mapping[str, str]


def read_query(text: str, vocabulary: Vocabulary) -> Query:
    """Return a query's stems. A word unknown to all tools may be a slip for another."""
    words = drop_stop_words(split(text[:MAX_QUERY_CHARS])[:MAX_WORDS])
    counts: Counter[str] = Counter()
    corrected: dict[str, str] = {}
    for word in words:
        stem = cached_stem(word)
        if stem in vocabulary or JOINED + stem in vocabulary:
            counts[stem] += 1
        elif halves := vocabulary.halves(stem):
            counts.update(halves)
        elif near := _only_neighbour(word, vocabulary):
            corrected[word], stem = near
            counts[stem] += 1
    return Query(words, counts, corrected)


def _only_neighbour(word: str, vocabulary: Vocabulary) -> tuple[str, str] | None:
    """Return the one likely word, with its stem, if the catalogue has no other candidate."""
    if not (word.isascii() and word.isalpha()):
        return None
    near: dict[str, str] = {}
    for other in sorted(vocabulary.written(list(_slips(word))) - STOP_WORDS):
        near.setdefault(cached_stem(other), other)
    [*found] = near.items()
    return (found[0][1], found[0][0]) if len(found) == 1 else None


def _slips(word: str) -> Iterator[str]:
    """Return likely words: two letters swapped, one missing, too many or wrong.

    The first letter is right. A shorter word is likely to be another word, not a slip.
    """
    size = len(word)
    for place in range(1, size + 1):
        before, after = word[:place], word[place:]
        if len(after) > 1 and size >= MIN_SWAPPED:
            yield before + after[1] + after[0] + after[2:]
        if size >= MIN_MISSING:
            yield from (before + letter + after for letter in _LETTERS)
        if after and size >= MIN_EXTRA:
            yield before + after[1:]
        if after and size >= MIN_WRONG:
            yield from (before + letter + after[1:] for letter in _LETTERS)
