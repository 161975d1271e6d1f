"""Tool ranking for some words: BM25F over the five fields in a definition."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from heapq import nlargest, nsmallest
from math import inf, log, sqrt
from typing import NamedTuple

from handrail._search.fields import FIELDS
from handrail._search.plain import first_sentence
from handrail._search.query import Query
from handrail._search.vocabulary import Vocabulary
from handrail._search.words import JOINED, cached_stem, drop_stop_words, split
from handrail._values.spec import Spec

WEIGHTS = (5.0, 2.0, 1.0, 1.0, 0.5)
"""How much a word is worth in each field."""
LENGTHS = (0.6, 0.6, 0.8, 0.7, 0.9)  # at 0.2, stuffed definitions win: decision 057
"""How much each field's length takes away. The third one limits stuffed descriptions."""
SATURATION = 0.9
RARITY = 0.8
FREQUENT = 2_000
"""Tools above which a word is scored from its best."""
BEST = 1_000
"""The best tools for a frequent word."""
LEADERS = 128
"""Tools for which frequent words are looked up."""
COMPARED = 50
"""Tools whose titles are compared with the query."""
MAX_CACHED = 4_096
"""Stems whose scores are kept."""
_NO_DOCS: array[int] = array("I")
_NO_SCORES: array[float] = array("d")
NAME_SHARE, SENTENCE_SHARE = 0.24, 0.12
"""How much a score gains from words common to the query and the title.

A title with exactly its words gains half.
"""
WHOLE_NAME = 0.05
"""How much a score gains if the query has all words in the name."""
MAX_TITLES = 4_096
"""Maximum cached titles."""


class Term(NamedTuple):
    """A stem with its tools' scores: all, or the best ones if the stem is frequent."""

    stems: tuple[str, ...]
    rarity: float
    scores: Mapping[int, float]
    docs: array[int]
    """All tools with a frequent stem, in number order."""
    all_scores: array[float]
    known: dict[int, float] | None = None
    """Cached scores, if most tools have the stem."""


class Ranking:
    """Tool scores for stems. A stem's scores are computed on first use."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._lengths = LENGTHS
        self._size = vocabulary.size
        self._terms: dict[str, Term] = {}
        self._weights = self._weigh_lengths()
        self._titles = Titles(vocabulary)

    def _weigh_lengths(self) -> list[list[float]]:
        """Return, for each field, one word's weight at each length of the field."""
        tables: list[list[float]] = []
        for field, share in enumerate(self._lengths):
            average = self._vocabulary.average(field)
            longest = self._vocabulary.longest(field)
            scale = share / average if average else 0.0
            tables.append(
                [WEIGHTS[field] / (1 - share + scale * length) for length in range(longest + 1)]
            )
        return tables

    def term(self, stem: str) -> Term:
        """Return a stem's scores."""
        known = self._terms.get(stem)
        if known is None:
            if len(self._terms) >= MAX_CACHED:
                self._terms.clear()
            known = self._terms[stem] = self._make_term(stem)
        return known

    def _make_term(self, stem: str) -> Term:
        stems = (stem, JOINED + stem, *self._vocabulary.compounds(stem))
        if self._vocabulary.most(stems) > max(FREQUENT, self._size / 2):
            tools = self._vocabulary.tools(*stems)
            if len(tools) > max(FREQUENT, self._size / 2):
                return self._make_common_term(stems, tools)
        scores, rarity = self._scores(stems)
        if len(scores) <= FREQUENT:
            return Term(stems, rarity, scores, _NO_DOCS, _NO_SCORES)
        docs = array("I", sorted(scores))
        all_scores = array("d", (scores[doc] for doc in docs))
        return Term(stems, rarity, self._lead(scores, BEST), docs, all_scores)

    def _make_common_term(self, stems: tuple[str, ...], docs: set[int]) -> Term:
        """Return a common stem: it tells little, so only a few tools are scored.

        They are the first ones by name, among those with the stem in their name and among all.
        """
        name = self._vocabulary.names.__getitem__
        named = nsmallest(LEADERS, self._vocabulary.named(stems[0]), key=name)
        some = {*named, *nsmallest(LEADERS, docs, key=name)}
        term = Term(stems, self._rarity(len(docs)), {}, _NO_DOCS, _NO_SCORES, {})
        return term._replace(scores={doc: self._score(term, doc) for doc in some})

    def _rarity(self, count: int) -> float:
        return math.pow(log(1 + (self._size - count + 0.5) / (count + 0.5)), RARITY)

    def _scores(self, stems: tuple[str, ...]) -> tuple[dict[int, float], float]:
        """Return what each tool scores for a stem and its compounds, and how rare they are."""
        sums: dict[int, float] = {}
        lengths, weights = self._vocabulary.lengths, self._weights
        for stem in stems:
            for doc, field, count in self._vocabulary.entries(stem):
                worth = count * weights[field][lengths[field][doc]]
                sums[doc] = sums.get(doc, 0.0) + worth
        rarity = self._rarity(len(sums))
        return {doc: rarity * worth / (SATURATION + worth) for doc, worth in sums.items()}, rarity

    def _lead(self, scores: Mapping[int, float], most: int) -> dict[int, float]:
        """Return the highest scores, best first, with ties broken by name."""
        chosen: Iterable[tuple[int, float]] = scores.items()
        if len(scores) > most:
            [*_, least] = nlargest(most, scores.values()) or [inf]
            chosen = [pair for pair in chosen if pair[1] >= least]
        names = self._vocabulary.names
        return dict(sorted(chosen, key=lambda pair: (-pair[1], names[pair[0]]))[:most])

    def _by_field(self, term: Term, doc: int) -> list[float]:
        """Return the weights of a term's words in each field of a tool."""
        worth = [0.0] * len(FIELDS)
        for stem in term.stems:
            for field, count in self._vocabulary.of_tool(stem, doc):
                worth[field] += count * self._weights[field][self._vocabulary.lengths[field][doc]]
        return worth

    def _score(self, term: Term, doc: int) -> float:
        worth = sum(self._by_field(term, doc))
        return term.rarity * worth / (SATURATION + worth)

    def explain(self, stem: str, doc: int) -> list[float]:
        """Return what a tool scores for a stem, by field."""
        term = self.term(stem)
        worth = self._by_field(term, doc)
        factor = term.rarity / (SATURATION + sum(worth))
        return [factor * share for share in worth]

    def best(self, query: Query, limit: int) -> list[tuple[str, float]]:
        """Return the best tools for a query, and their scores.

        Tools with the query as their title come first. Equal ones are in name order.
        """
        terms = [(self.term(stem), sqrt(count)) for stem, count in query.counts.items()]
        leaders = self._sum(terms)
        if any(term.docs or term.known is not None for term, _ in terms):
            leaders = self._lead(leaders, max(LEADERS, limit))
            leaders = {doc: self._whole(terms, doc) for doc in leaders}
        leaders = self._lead(leaders, max(COMPARED, limit))
        names = self._vocabulary.names
        ranked = list(leaders.items())
        ranked[:COMPARED] = self._titles.sort(query, ranked[:COMPARED])
        return [(names[doc], score) for doc, score in ranked[:limit]]

    def _sum(self, terms: list[tuple[Term, float]]) -> dict[int, float]:
        held = [(term.scores, factor) for term, factor in terms]
        held.sort(key=lambda pair: -len(pair[0]))
        sums: dict[int, float] = {}
        for scores, factor in held:
            if not sums and factor == 1:
                sums = dict(scores)
                continue
            get = sums.get
            for doc, score in scores.items():
                sums[doc] = get(doc, 0.0) + factor * score
        return sums

    def _whole(self, terms: list[tuple[Term, float]], doc: int) -> float:
        return sum(factor * self._look_up(term, doc) for term, factor in terms)

    def _look_up(self, term: Term, doc: int) -> float:
        if term.known is not None:
            return term.known.get(doc) or term.known.setdefault(doc, self._score(term, doc))
        if not term.docs:
            return term.scores.get(doc, 0.0)
        place = bisect_left(term.docs, doc)
        found = place < len(term.docs) and term.docs[place] == doc
        return term.all_scores[place] if found else 0.0


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
