"""The arguments of a call are shown while they arrive, under the id that the call will have."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from handrail import Call
from handrail.messages import ArgsDelta, Reply, StreamItem
from providers.apis import APIS

Event = dict[str, Any]


def anthropic_events(pieces: list[str]) -> list[Event]:
    block = {"type": "tool_use", "id": "c1", "name": "put", "input": {}}
    deltas = [
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": piece},
        }
        for piece in pieces
    ]
    return [
        {"type": "content_block_start", "index": 0, "content_block": block},
        *deltas,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    ]


def chat_event(finish: str | None = None, **call: Any) -> Event:
    delta = {"tool_calls": [{"index": 0, **call}]} if call else {}
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def chat_events(pieces: list[str]) -> list[Event]:
    return [
        chat_event(id="c1", type="function", function={"name": "put", "arguments": ""}),
        *[chat_event(function={"arguments": piece}) for piece in pieces],
        chat_event("tool_calls"),
    ]


def responses_events(pieces: list[str]) -> list[Event]:
    item = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "put", "arguments": ""}
    whole = {**item, "arguments": "".join(pieces), "status": "completed"}
    delta = {"type": "response.function_call_arguments.delta", "output_index": 0}
    return [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        *[{**delta, "item_id": "fc_1", "delta": piece} for piece in pieces],
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
        {"type": "response.completed", "response": {"status": "completed", "output": [whole]}},
    ]


def gemini_event(finish: str | None = None, **call: Any) -> Event:
    parts = [{"functionCall": call}] if call else []
    return {"candidates": [{"content": {"parts": parts}, "finishReason": finish}]}


def gemini_events(pieces: list[str]) -> list[Event]:
    """The same arguments as values: the pieces of one text."""
    texts = [*pieces[1:-1]]
    return [
        gemini_event(name="put", id="c1", willContinue=True),
        *[
            gemini_event(
                partialArgs=[{"jsonPath": "$.a", "stringValue": text, "willContinue": True}],
                willContinue=True,
            )
            for text in texts
        ],
        gemini_event(partialArgs=[{"jsonPath": "$.a", "stringValue": ""}]),
        gemini_event("STOP"),
    ]


EVENTS: dict[str, Callable[[list[str]], list[Event]]] = {
    "anthropic": anthropic_events,
    "gemini": gemini_events,
    "openai_chat": chat_events,
    "openai_responses": responses_events,
}


def items(api: str, events: list[Event], names: dict[str, str] | None = None) -> list[StreamItem]:
    stream = APIS[api].Stream(names=names or {})
    return [*(piece for event in events for piece in stream.feed(event)), stream.end()]


@pytest.mark.parametrize("api", APIS)
def test_each_piece_is_shown_when_it_arrives(api: str) -> None:
    *shown, call, reply = items(api, EVENTS[api](['{"a":"', "x", "y", '"}']), {"put": "fs.put"})
    texts = {"gemini": ['{"a":"x', "y", '"}']}.get(api, ['{"a":"', "x", "y", '"}'])

    assert shown == [ArgsDelta("c1", "fs.put", text) for text in texts]
    assert call == Call("fs.put", '{"a":"xy"}', "c1")
    assert reply == Reply((call,), "calls")


def test_a_call_without_an_id_is_shown_under_the_id_that_it_gets() -> None:
    head = chat_event(type="function", function={"name": "put", "arguments": ""}) | {"id": "r1"}
    events = [head, chat_event(function={"arguments": "{}"}), chat_event("tool_calls")]
    shown, call, _ = items("openai_chat", events)

    assert isinstance(call, Call)
    assert shown == ArgsDelta(call.id, "put", "{}")


def test_without_the_id_of_the_reply_nothing_is_shown_before_the_call() -> None:
    """Its id depends on its arguments then: other calls of other replies get other ids."""
    start = chat_event(type="function", function={"name": "put", "arguments": ""})
    events = [start, chat_event(function={"arguments": "{}"}), chat_event("tool_calls")]
    other = [start, chat_event(function={"arguments": '{"a":1}'}), chat_event("tool_calls")]
    [call, _], [other_call, _] = items("openai_chat", events), items("openai_chat", other)

    assert isinstance(call, Call)
    assert isinstance(other_call, Call)
    assert call.id != other_call.id


def test_pieces_before_the_id_are_shown_with_it() -> None:
    events = [
        chat_event(function={"name": "put", "arguments": '{"a":'}),
        chat_event(id="c1", function={"arguments": "1}"}),
        chat_event("tool_calls"),
    ]

    assert items("openai_chat", events)[0] == ArgsDelta("c1", "put", '{"a":1}')


def test_values_of_gemini_are_shown_as_json_as_long_as_they_arrive_in_order() -> None:
    def part(path: str, more: bool = True, **value: Any) -> Event:  # noqa: FBT001, FBT002
        return gemini_event(partialArgs=[{"jsonPath": path, **value}], willContinue=more)

    start = gemini_event(name="put", id="c1", willContinue=True)
    in_order = [
        part("$.a.b", stringValue="x"),
        part("$.a.c[0]", numberValue=1),
        part("$.a.c[1].d", boolValue=True),
        part("$.e", more=False, nullValue="NULL_VALUE"),
    ]
    expected = ['{"a":{"b":"x"', ',"c":[1', ',{"d":true', '}]},"e":null}']
    again = [
        part("$.a.b", stringValue="x"),
        part("$.e", numberValue=1),
        part("$.a.c", more=False, numberValue=2),
    ]
    invalid = [part("$.a[1]", numberValue=1), part("$.b", numberValue=1), part("e", numberValue=1)]

    def shown(events: list[Event]) -> list[str]:
        made = items("gemini", [start, *events, gemini_event("STOP")])
        return [piece.text for piece in made if isinstance(piece, ArgsDelta)]

    assert shown(in_order) == expected
    assert shown(again) == ['{"a":{"b":"x"', '},"e":1']
    assert shown(invalid) == []


def test_a_call_that_arrives_whole_is_not_shown_in_pieces() -> None:
    events = [gemini_event(name="put", id="c1", args={"a": 1}), gemini_event("STOP")]

    assert items("gemini", events)[0] == Call("put", '{"a":1}', "c1")


class Work:
    """Counts calls of functions, and the characters that they return."""

    def __init__(self) -> None:
        self.calls = 0
        self.characters = 0

    def __call__(self, _: FrameType, event: str, value: object) -> None:
        self.calls += event in {"call", "c_call"}
        if event == "return" and isinstance(value, str):
            self.characters += len(value)

    def of(self, work: Callable[[], object]) -> tuple[int, int]:
        sys.setprofile(self)
        try:
            work()
        finally:
            sys.setprofile(None)
        return self.calls, self.characters


def pieces_of(count: int) -> list[str]:
    return ['{"a":"', *["abcdefghij"] * count, '"}']


def is_linear(work: Callable[[int], object]) -> bool:
    """Whether four times the pieces cost at most five times the work."""
    small = Work().of(lambda: work(100))
    large = Work().of(lambda: work(400))
    return all(much <= 5 * little for little, much in zip(small, large, strict=True))


@pytest.mark.parametrize("api", APIS)
def test_the_work_for_arguments_grows_with_their_length(api: str) -> None:
    def decode(count: int) -> None:
        made = items(api, EVENTS[api](pieces_of(count)))
        assert isinstance(made[-1], Reply)
        assert len(str(made[-1].calls[0].args)) == 10 * count + 8

    assert is_linear(decode)
    decode(20_000)


def test_work_that_grows_faster_is_found() -> None:
    """The control: one writes everything again for each piece, one reads all pieces again."""
    received: list[str] = []

    def write_again(piece: str) -> str:
        received.append(piece)
        return "".join(received)

    def read_again(piece: str) -> list[int]:
        received.append(piece)
        return [len(one) for one in received]

    def feed(read: Callable[[str], object], count: int) -> None:
        received.clear()
        for piece in pieces_of(count):
            read(piece)

    assert not is_linear(lambda count: feed(write_again, count))
    assert not is_linear(lambda count: feed(read_again, count))
