"""Times and counts in the words of the pages."""

from __future__ import annotations

from math import inf

import pytest

from handrail.console.figures import ago, count, duration, left, moment, spaced, status


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"),
        (9.96, "10.0 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (3_600, "1 h"),
        (2e5, "2 d"),
    ],
)
def test_a_duration_has_one_unit(seconds: float, words: str) -> None:
    assert spaced(duration(seconds)) == words


def test_times_and_counts_are_said_in_few_words() -> None:
    assert [spaced(one) for one in (left(inf), left(-1), left(61), ago(-5))] == [
        "no limit",
        "expired",
        "1 min left",
        "0.0 s ago",
    ]
    assert (moment(0), moment(1e12), moment(86_400)) == (
        "unknown time",
        "unknown time",
        "1970-01-02 00:00:00 UTC",
    )
    assert [spaced(one) for one in (count(1, "call"), count(2_000, "call"))] == [
        "1 call",
        "2,000 calls",
    ]
    assert [status(word) for word in ("answer", "odd", "")] == [
        ("ok", "✓ done"),
        ("bad", ""),
        ("muted", ""),
    ]
