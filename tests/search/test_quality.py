"""How well the index finds tools that people and models asked for, and how hard it is to cheat."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from handrail._search import ranking
from handrail._search.index import ToolIndex

BENCH = Path(__file__).parents[2] / "bench" / "toolsearch"


@pytest.fixture(scope="module", autouse=True)
def bench() -> Iterator[None]:
    """The bench reads the data and scores answers. The tests use the same code."""
    sys.path.insert(0, str(BENCH))
    yield
    sys.path.remove(str(BENCH))


@cache
def tools() -> dict[str, list[dict[str, Any]]]:
    from catalogues import catalogues

    return catalogues()


@cache
def questions() -> dict[str, list[Any]]:
    from catalogues import question_sets

    return question_sets()


def index(catalogue: str, *more: dict[str, Any]) -> ToolIndex:
    import ours

    return ours.index([*tools()[catalogue], *more])


SMALL = ("metatool", "restbench-tmdb", "apibank", "livemcp", "azure-mcp")
"""Catalogues that are indexed quickly. The bench has all of them."""
FLOORS = {
    "model": (0.65, 0.86, 0.76),
    "judged": (0.94, 0.98, 0.95),
    "multi": (0.34, 0.78, 0.81),
    "keywords": (0.44, 0.67, 0.61),
}
"""Recall at 1 and at 5, and the mean reciprocal rank, over the small catalogues."""


@cache
def searches() -> dict[str, Any]:
    """Return the search of each small catalogue."""
    from searchers import SEARCHERS

    return {catalogue: SEARCHERS["handrail"](tools()[catalogue]) for catalogue in SMALL}


@pytest.mark.parametrize("name", sorted(FLOORS))
def test_the_tools_that_should_be_found_are_found(name: str) -> None:
    from measures import mean, score
    from worker import in_turn

    scores = [
        score(question, in_turn(searches()[question.catalogue], question.queries, 50))
        for question in questions()[name]
        if question.catalogue in SMALL
    ]
    reached = mean(scores)

    assert {"reached": reached, "floor": FLOORS[name]} == {
        "reached": tuple(map(max, reached, FLOORS[name])),
        "floor": FLOORS[name],
    }


def share_of_hostile_hits(kind: str) -> float:
    """Return in how many model-written queries a stuffed definition is among the first five."""
    from hostile import hostile_tool

    asked = [question for question in questions()["model"] if question.catalogue in SMALL]
    stuffed = {name: hostile_tool(tools()[name], kind) for name in SMALL}
    indexes = {name: index(name, stuffed[name]) for name in SMALL}
    hits = [
        stuffed[question.catalogue]["name"]
        in indexes[question.catalogue].search(question.queries[0]).names
        for question in asked
    ]
    return sum(hits) / len(hits)


@pytest.mark.parametrize(("kind", "most"), [("words", 0.06), ("vocabulary", 0.09), ("name", 0.02)])
def test_a_stuffed_definition_rarely_comes_up(kind: str, most: float) -> None:
    assert share_of_hostile_hits(kind) <= most


def test_a_control_without_the_penalty_for_length_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ranking, "LENGTHS", (0.6, 0.6, 0.2, 0.7, 0.9))
    assert share_of_hostile_hits("words") > 0.2
