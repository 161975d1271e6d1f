"""Recall, reciprocal rank, and the paired bootstrap between two of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from catalogues import Question

ROUNDS = 10_000


class Score(NamedTuple):
    """How well one question was answered."""

    recall_1: float
    recall_5: float
    rank: float
    """One over the place of the first tool that fits."""


def score(question: Question, names: Sequence[str]) -> Score:
    fits = [name in question.gold for name in names]
    whole = 1 if question.any_fits else len(question.gold)
    rank = 1 / (1 + fits.index(True)) if True in fits else 0.0
    return Score(min(whole, sum(fits[:1])) / whole, min(whole, sum(fits[:5])) / whole, rank)


def mean(scores: Sequence[Score]) -> Score:
    return Score(*(sum(column) / len(scores) for column in zip(*scores, strict=True)))


def interval(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean difference and its 95 % interval by a paired bootstrap, always the same."""
    differences = [one - other for one, other in zip(ours, theirs, strict=True)]
    size = len(differences)
    choose = random.Random(0).choices
    means = sorted(sum(choose(differences, k=size)) / size for _ in range(ROUNDS))
    return sum(differences) / size, means[ROUNDS // 40], means[-ROUNDS // 40]
