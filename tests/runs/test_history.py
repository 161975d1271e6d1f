"""What a journal says about each call: when it waited, and on what."""

from __future__ import annotations

from typing import Any

from handrail.runs import PhaseSpan, read_history


def event(at: float, name: str, call: str, **more: Any) -> dict[str, Any]:
    return {"at": at, "event": name, "call_id": call, **more}


def waits_of(lines: list[dict[str, Any]], call: str) -> list[PhaseSpan]:
    [turn] = read_history(lines)
    [found] = [one for one in turn.calls if one.id == call]
    return found.spans


def test_a_wait_for_two_calls_ends_with_the_last_of_them() -> None:
    lines = [
        *(event(1, "requested", call, tool="save") for call in "abc"),
        event(2, "waiting", "c", on=["a", "b"], reason="resource", what="file:x"),
        event(3, "finished", "a", kind="", text="done"),
        event(4, "finished", "b", kind="", text="done"),
        event(9, "started", "c"),
    ]

    waits = waits_of(lines, "c")

    assert [(one.phase, one.start, one.end, one.why) for one in waits] == [
        ("waiting", 2, 4, ("a", "b")),
        ("running", 9, 9, ()),
    ]
