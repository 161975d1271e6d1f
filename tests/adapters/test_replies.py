"""What messages in the form of LangChain say about a call, without LangChain."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from handrail import Call, Executor, Toolset, tool
from handrail.adapters._replies import (
    STOP,
    find_reply,
    find_stop,
    read_call,
    read_calls,
    read_messages,
    was_cut_off,
)
from handrail.messages import TruncatedCall

WHOLE = '{"path": "report.md", "amount": 1000}'
CUT: dict[str, Any] = {"finish_reason": "length"}


@tool
async def save(path: str = "", amount: int = 0) -> str:
    """Save."""
    return "saved"


def reply(*calls: Any, facts: Any = None, **more: Any) -> Any:
    """A message that lists calls, as (id, arguments)."""
    listed = [{"name": "save", "id": name, "args": args} for name, args in calls]
    right = [one for one in listed if not isinstance(one["args"], str)]
    wrong = [one for one in listed if isinstance(one["args"], str)]
    return SimpleNamespace(
        type="ai", tool_calls=right, invalid_tool_calls=wrong, response_metadata=facts or {}, **more
    )


def streamed(args: Any, *sent: str | None, position: str | None = None, facts: Any = None) -> Any:
    """A message from a stream: what the framework made of it, and what it was sent."""
    chunks = [{"id": "c1", "args": text} for text in sent]
    return reply(("c1", args), facts=facts, tool_call_chunks=chunks, chunk_position=position)


def read(message: Any) -> list[Call | TruncatedCall]:
    return read_calls(message, Executor(Toolset(save)))


def call(args: Any, name: str = "c1") -> Call:
    return Call("save", args, name)


def cut(args: str = "", name: str = "c1") -> TruncatedCall:
    return TruncatedCall("save", name, args)


@pytest.mark.parametrize("end", range(len(WHOLE) + 1))
@pytest.mark.parametrize("facts", [{}, CUT])
def test_each_prefix_of_a_stream_is_whole_or_cut_off(end: int, facts: Any) -> None:
    """The arguments that the framework has guessed are never taken for those that were sent."""
    guessed = json.loads(WHOLE) if end == len(WHOLE) else {"path": "rep", "amount": 1}
    found = read(streamed(guessed, WHOLE[:end], facts=facts))

    assert found == [call(WHOLE) if end == len(WHOLE) else cut(WHOLE[:end])]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (streamed({}, "", position="last"), call("{}")),
        (streamed({}, None, position="last"), call("{}")),
        (streamed({}, "", position="last", facts=CUT), cut()),
        (streamed({}, ""), cut()),
        (streamed({"path": "b"}, WHOLE), call({"path": "b"})),  # other code has edited it
        (streamed({"amount": 2}, '{"amount": 1}', '{"amount": 2}'), call('{"amount": 2}')),
        (streamed({"amount": 2}, '{"amount": 1}', '{"amount": 2'), cut('{"amount": 2')),
        (reply(("c1", '{"pa')), call('{"pa')),
        (reply(("c1", '{"pa'), facts=CUT), cut('{"pa')),
        (reply(("c1", {})), call("{}")),
        (reply(("c1", {"path": "a"}), facts=CUT), cut()),
    ],
)
def test_a_call_is_what_was_sent(message: Any, expected: Call | TruncatedCall) -> None:
    assert read(message) == [expected]


def kept(args: Any, *blocks: Any, facts: Any = None) -> Any:
    """A whole message, whose content has what was sent."""
    return reply(("c1", args), facts=facts, content=["text", *blocks])


def anthropic(text: Any, name: str = "c1") -> Any:
    return {"type": "tool_use", "id": name, "input": {}, "partial_json": text}


def responses(text: str) -> Any:
    return {"type": "function_call", "id": "fc1", "call_id": "c1", "arguments": text}


TWICE = '{"path": "a", "path": "b"}'


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (kept({"path": "b"}, anthropic(TWICE)), call(TWICE)),
        (kept({"path": "b"}, responses(TWICE)), call(TWICE)),
        (kept({"path": "a"}, anthropic('{"path": "a')), call('{"path": "a')),
        (kept({"path": "a"}, anthropic('{"path": "a'), facts=CUT), cut('{"path": "a')),
        (kept({"path": "a"}, anthropic(None)), call({"path": "a"})),
        (kept({"path": "a"}, anthropic(TWICE, "c2")), call({"path": "a"})),
        (kept({"path": "edited"}, anthropic(WHOLE)), call({"path": "edited"})),
    ],
)
def test_the_content_of_a_whole_message_can_have_what_was_sent(
    message: Any, expected: Call | TruncatedCall
) -> None:
    assert read(message) == [expected]


def test_without_what_was_sent_the_last_call_of_an_incomplete_reply_is_cut_off() -> None:
    message = reply(("c1", {"path": "a"}), ("c2", {"path": "b"}), facts=CUT)

    assert read(message) == [call({"path": "a"}), cut("", "c2")]


def test_ids_are_unique() -> None:
    assert read(reply(("c1", {}), ("c1", {}), (None, {}))) == [
        call("{}"),
        call("{}", "c1+"),
        call("{}", ""),
    ]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"finish_reason": "length"}, True),
        ({"finish_reason": "MAX_TOKENS"}, True),
        ({"finish_reason": "model_length"}, True),
        ({"finish_reason": "content_filter"}, True),
        ({"stop_reason": "max_tokens"}, True),
        ({"stop_reason": "model_context_window_exceeded"}, True),
        ({"stopReason": "max_tokens"}, True),
        ({"done_reason": "length"}, True),
        ({"status": "incomplete"}, True),
        ({"finish_reason": "lengthlength"}, True),  # of two chunks that were joined
        ({"finish_reason": "stop"}, False),
        ({"finish_reason": "tool_calls", "model_name": "long-length-1"}, False),
        ({"stop_reason": "tool_use"}, False),
        ({"status": "completed"}, False),
        ({}, False),
    ],
)
def test_a_provider_says_that_a_reply_is_not_complete(facts: Any, *, expected: bool) -> None:
    assert was_cut_off(facts) is expected


def test_a_call_is_found_in_the_message_that_has_it() -> None:
    first, second = reply(("c1", {"path": "a"})), reply(("c1", {"path": "b"}), ("c2", {}))
    messages = [first, second, SimpleNamespace(type="tool")]

    assert find_reply(messages, call({"path": "a"})) == (first, first.tool_calls[0])
    assert find_reply(messages, call({}, "c2")) == (second, second.tool_calls[1])
    assert find_reply(messages, call({"path": "edited"})) is None
    assert read_call(first, first.tool_calls[0], "x", "y") == Call("x", {"path": "a"}, "y")


def test_a_stop_lasts_until_a_person_says_something() -> None:
    human, ai = SimpleNamespace(type="human"), reply(("c1", {}))
    stop = SimpleNamespace(type="tool", artifact={STOP: "Enough."})
    others = [SimpleNamespace(type="tool", artifact=one) for one in (None, {"own": 1}, "text")]

    assert find_stop([human, ai, stop, *others, ai]) == "Enough."
    assert find_stop([human, ai, stop, human, ai, *others]) is None
    assert find_stop([ai, *others]) is None
    assert find_stop([]) is None


def test_messages_are_read_from_every_form_of_a_state() -> None:
    state = SimpleNamespace(messages=[1])

    assert [read_messages(one) for one in ([1], {"messages": [1]}, state, {}, None)] == [
        [1],
        [1],
        [1],
        (),
        (),
    ]
