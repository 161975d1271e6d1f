"""Times and counts in the words of the pages."""

from __future__ import annotations

from math import inf

import pytest

from handrail.console._figures import (
    ago,
    count,
    duration,
    moment,
    spaced,
    time_left,
)
from handrail.runs.statuses import REASONS, STATUSES
from handrail.runs.wording import describe_call_status, describe_status


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "40 ms"),
        (9.96, "10.0 s"),
        (59.4, "59.4 s"),
        (60, "1m"),
        (3_600, "1h"),
        (2e5, "2d 07h"),
    ],
)
def test_a_duration_is_written_as_in_the_terminal(seconds: float, words: str) -> None:
    assert spaced(duration(seconds)) == words


def test_times_and_counts_are_said_in_few_words() -> None:
    moments = (time_left(one, 10) for one in (inf, 9, 71, 8_000))
    assert [(spaced(text), urgent) for text, urgent in moments] == [
        ("no limit", False),
        ("expired", True),
        ("1m 01s left", True),
        ("2h 13m left", False),
    ]
    assert spaced(ago(-5)) == "0 ms ago"
    assert (moment(0), moment(1e12), moment(86_400)) == (
        "unknown time",
        "unknown time",
        "1970-01-02 00:00:00 UTC",
    )
    assert [spaced(one) for one in (count(1, "call"), count(2_000, "call"))] == [
        "1 call",
        "2,000 calls",
    ]
    assert [describe_status(word) for word in (*STATUSES, "odd", "")] == [
        ("muted", "· queued"),
        ("accent", "▸ running"),
        ("ask", "? waits for approval"),
        ("ok", "✓ done"),
        ("bad", "✗ failed"),
        ("warn", "! cancelled"),
        ("bad", ""),
        ("muted", ""),
    ]
    assert {describe_status("done", reason)[1] for reason in REASONS} == {
        "✓ done",
        "! done: limit reached",
        "! done: interrupted",
        "! done: stopped",
        "! done: answer cut off",
        "! done: refused",
        "! done: no answer",
        "! done: invalid answer",
    }
    assert describe_status("failed", "error") == describe_status("failed")
    assert [describe_call_status(word) for word in ("waiting", "odd", "")] == [
        ("ask", "? waiting"),
        ("bad", ""),
        ("muted", ""),
    ]
