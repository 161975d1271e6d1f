"""Edits that miss their text by a little: how many are applied, and that none is misplaced."""

from __future__ import annotations

from collections import Counter

from handrail.tools._match import Edit, Replaced, replaced
from tools.edit_corpus import attempts, careless, verdict, wrong_places


def test_of_640_near_misses_none_is_misplaced_and_637_are_applied_or_answered_rightly() -> None:
    known = [*attempts()]
    verdicts = {attempt.id: verdict(attempt) for attempt in known}

    assert Counter(verdicts.values()) == {"applied": 372, "answered": 265, "missed": 3}
    assert sum(attempt.after is not None for attempt in known) == 372
    assert {name for name, one in verdicts.items() if one == "missed"} == {
        "build.yml-56",  # a list in brackets, written with dashes
        "cache.rs-71",  # dots for twelve lines between
        "shelf.go-66",  # one line, written as two
    }


def test_the_corpus_is_varied() -> None:
    kinds = Counter(attempt.kind for attempt in attempts())

    assert len(kinds) > 80
    assert len({attempt.id for attempt in attempts()}) == kinds.total() == 640


def test_a_careless_tolerance_misplaces_edits_of_the_corpus() -> None:
    def ours(data: bytes, edit: Edit) -> bytes | None:
        outcome = replaced(data, [edit])
        return outcome.data if isinstance(outcome, Replaced) else None

    assert len(wrong_places(careless)) == 48
    assert wrong_places(ours) == []
