"""Events and replies as lines: each says its turn."""

from __future__ import annotations

from typing import Any

import pytest

from handrail import Call, Executor, Toolset
from handrail.events import Lost, Requested
from handrail.messages import Reply
from handrail.permissions import FileChange
from handrail.runs.lines import event_lines, make_diff, reply_line

EXECUTOR = Executor(Toolset())


def key(run: str, turn: str, call: str = "") -> str:
    """Return the key of a turn, or of a call in it."""
    made = EXECUTOR.turn(turn, run=run)
    return made.key_of(call) if call else made.key


INNER = key("r", "3", "c1")
TWICE_INNER = key(INNER, "2", "c/9")


@pytest.mark.parametrize(
    ("turn", "run", "fields"),
    [
        (key("r", "3"), "r", {"turn": 3}),
        (key("r", "3"), "", {"turn": 3}),
        (key("a/b %", "12"), "a/b %", {"turn": 12}),
        (key("tenant/1/x", "4"), "tenant/1/x", {"turn": 4}),
        (key("tenant/1/x", "4"), "", {"turn": 1, "inner": "x/4"}),  # as a sub-agent's
        (key(INNER, "1"), "r", {"turn": 3, "inner": "c1/1"}),
        (key(TWICE_INNER, "5"), "r", {"turn": 3, "inner": "c1/2/c%2F9/5"}),
        (key(key("tenant/1/x", "4", "c1"), "2"), "tenant/1/x", {"turn": 4, "inner": "c1/2"}),
        (key("r", "~1"), "r", {}),
        (key("r", "order-7"), "r", {}),
        (key("r", "1" * 5_000), "r", {}),
        ("", "r", {}),
    ],
)
def test_a_line_has_the_number_of_its_turn(turn: str, run: str, fields: dict[str, Any]) -> None:
    [line] = event_lines(Requested(1.0, Call("look", {}, "c"), turn=turn), run)

    about = {"at": 1.0, "event": "requested", "call_id": "c", "tool": "look", "args": {}}
    assert line == {**about, **fields}


def test_lost_events_belong_to_no_turn() -> None:
    assert event_lines(Lost(3)) == [{"event": "lost", "count": 3}]


def test_a_reply_has_its_turn_and_its_seconds() -> None:
    line = reply_line(2.0, Reply((Call("look", {}, "c"),), model="m", seconds=0.5), 7)

    assert line == {
        "at": 2.0,
        "event": "reply",
        "turn": 7,
        "seconds": 0.5,
        "model": "m",
        "stop": "end",
        "usage": {"input_tokens": 0, "output_tokens": 0, "cached_tokens": 0},
        "calls": ["c"],
        "text": "",
    }


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("a\n", "b\n", ["@@ -1 +1 @@", "-a", "+b"]),
        ("a\r\n", "a\n", ["@@ -1 +1 @@", "-a\r", "+a"]),
        ("a\u2028b\n", "a\nb\n", ["@@ -1 +1,2 @@", "-a\u2028b", "+a", "+b"]),
        ("a\n", "a", ["@@ -1,2 +1 @@", " a", "-"]),
    ],
)
def test_a_diff_has_every_changed_character(before: str, after: str, lines: list[str]) -> None:
    made = make_diff((FileChange("f", before, after),))

    assert made.split("\n") == ["--- a/f", "+++ b/f", *lines, ""]


def test_a_diff_that_is_cut_says_how_much_is_missing() -> None:
    whole = make_diff((FileChange("f", None, "x" * 19_968),))
    cut = make_diff((FileChange("f", None, "x" * 19_969 + "evil"),))

    assert (len(whole), whole[-2:]) == (20_000, "x\n")
    assert cut.endswith("xxx\n… 5 more characters\n")
