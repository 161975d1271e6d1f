"""Durations in both forms."""

from __future__ import annotations

import math

from handrail._support import format_duration


def test_a_duration_has_at_most_two_units() -> None:
    amounts = (0, 0.004, 1, 1.5, 12.34, 59.96, 60, 61, 90, 3599.7, 3661, 604_799.9999, 86_400 * 999)

    assert {one: (format_duration(one), format_duration(one, words=True)) for one in amounts} == {
        0: ("0 ms", "0 seconds"),
        0.004: ("4 ms", "0 seconds"),
        1: ("1.0 s", "1 second"),
        1.5: ("1.5 s", "1.5 seconds"),
        12.34: ("12.3 s", "12.3 seconds"),
        59.96: ("1m", "1 minute"),
        60: ("1m", "1 minute"),
        61: ("1m 01s", "1 minute 1 second"),
        90: ("1m 30s", "1 minute 30 seconds"),
        3599.7: ("1h", "1 hour"),
        3661: ("1h 01m", "1 hour 1 minute"),
        604_799.9999: ("7d", "7 days"),
        86_400 * 999: ("999d", "999 days"),
    }


def test_a_duration_beyond_all_use_is_short() -> None:
    amounts = (86_400 * 999 + 86_399, 1e11, math.inf, math.nan)

    assert [*map(format_duration, amounts)] == ["999d 23h", "years", "years", "years"]
