"""What a journal says about each call: when it waited, and on what."""

from __future__ import annotations

from typing import Any

import pytest

from handrail.runs import read_history
from handrail.runs.history import CallHistory, PhaseSpan, RunTurn
from replying import WAYS, Way, stream_lines

in_each_way = pytest.mark.parametrize("way", WAYS)


def event(at: float, name: str, call: str, **more: Any) -> dict[str, Any]:
    return {"at": at, "event": name, "turn": 1, "call_id": call, **more}


def waits_of(lines: list[dict[str, Any]], call: str) -> list[PhaseSpan]:
    [turn] = read_history(lines)
    [found] = [one for one in turn.calls if one.id == call]
    return found.spans


@in_each_way
def test_a_wait_for_two_calls_ends_with_the_last_of_them(way: Way) -> None:
    lines = [
        {"event": "reply", "turn": 1, "at": 1},
        *(event(1, "requested", call, tool="save") for call in "abc"),
        event(2, "waiting", "c", on=["a", "b"], reason="resource", what="file:x"),
        event(3, "finished", "a", kind="", text="done"),
        event(4, "finished", "b", kind="", text="done"),
        event(9, "started", "c"),
    ]

    waits = waits_of(stream_lines(way, lines), "c")

    assert [(one.phase, one.start, one.end, one.why) for one in waits] == [
        ("waiting", 2, 4, ("a", "b")),
        ("running", 9, 9, ()),
    ]


STREAMED: list[dict[str, Any]] = [
    {"event": "prompt", "at": 0, "text": "Go."},
    {"event": "reply", "turn": 4, "at": 2, "seconds": 1.5, "model": "m", "text": "I look."},
    {"event": "requested", "turn": 4, "at": 1, "call_id": "c", "tool": "look"},
    {"event": "finished", "turn": 4, "at": 3, "call_id": "c", "kind": ""},
    {"event": "reply", "turn": 5, "at": 5, "seconds": 0.5, "model": "m", "text": "Again."},
    {"event": "requested", "turn": 5, "at": 4, "call_id": "c", "tool": "save"},
    {"event": "asked", "turn": 5, "at": 4, "call_id": "c", "question": "Save?"},
    {"event": "finished", "turn": 5, "at": 6, "call_id": "c", "kind": "pending"},
    {"event": "prompt", "at": 7, "text": "Go on."},
    {"event": "answered", "turn": 5, "at": 8, "call_id": "c", "answer": "allow"},
    {"event": "finished", "turn": 5, "at": 9, "call_id": "c", "kind": ""},
]


def told(turns: list[RunTurn]) -> list[tuple[Any, ...]]:
    return [
        (turn.speaker, turn.number, turn.at, turn.seconds, turn.text, list(map(tell, turn.calls)))
        for turn in turns
    ]


def tell(call: CallHistory) -> tuple[Any, ...]:
    return (call.tool, call.turn, call.began, call.ended)


@in_each_way
def test_a_call_is_in_the_turn_that_made_it(way: Way) -> None:
    """The run is a fork: its first turn is turn 4."""
    assert told(read_history(stream_lines(way, STREAMED))) == [
        ("person", 0, 0.0, 0.0, "Go.", []),
        ("model", 4, 2.0, 1.5, "I look.", [("look", 4, 1.0, 3.0)]),
        ("model", 5, 5.0, 0.5, "Again.", [("save", 5, 4.0, 9.0)]),
        ("person", 0, 7.0, 0.0, "Go on.", []),
    ]


def test_without_turns_in_the_lines_a_call_would_be_in_the_turn_before() -> None:
    lines = [{**line, "turn": 0} for line in stream_lines("early", STREAMED)]

    assert [[call.tool for call in turn.calls] for turn in read_history(lines)] == [
        [],
        ["look", "save"],
        [],
        [],
    ]


def test_a_turn_without_a_reply_ends_with_the_next_prompt() -> None:
    """The stream broke. After the next prompt, the turn has the same number."""
    prompt, reply, *calls = STREAMED[:4]

    assert told(read_history([prompt, *calls, prompt, *calls, reply])) == [
        ("person", 0, 0.0, 0.0, "Go.", []),
        ("unknown", 4, 1.0, 0.0, "", [("look", 4, 1.0, 3.0)]),
        ("person", 0, 0.0, 0.0, "Go.", []),
        ("model", 4, 2.0, 1.5, "I look.", [("look", 4, 1.0, 3.0)]),
    ]


def test_calls_of_a_sub_agent_are_in_the_turn_that_it_works_for() -> None:
    inner = {"turn": 4, "inner": "c/1", "call_id": "c"}
    prompt, reply, requested, finished = STREAMED[:4]
    within: list[dict[str, Any]] = [
        {**inner, "event": "requested", "at": 1.5, "tool": "inside"},
        {**inner, "event": "finished", "at": 2.5, "kind": ""},
    ]

    [_, turn] = read_history([prompt, reply, requested, *within, finished])

    assert list(map(tell, turn.calls)) == [("look", 4, 1.0, 3.0), ("inside", 4, 1.5, 2.5)]


def test_calls_of_no_agent_are_in_one_turn_without_a_number() -> None:
    lines = [{**event(at, "requested", f"c{at}", tool="look"), "turn": None} for at in (1, 2)]

    assert told(read_history(lines)) == [
        ("unknown", 0, 1.0, 0.0, "", [("look", 0, 1.0, 1.0), ("look", 0, 2.0, 2.0)])
    ]
