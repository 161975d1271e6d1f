"""Streams as providers and compatible servers really send them: each quirk with its exact reply."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from dataclasses import fields
from typing import Any

import pytest

from handrail import Call, Image, Text
from handrail.messages import (
    ArgsDelta,
    Delta,
    Opaque,
    Reasoning,
    Reply,
    ReplyPart,
    StreamItem,
    TruncatedCall,
    Usage,
)
from handrail.providers import openai_responses
from providers.apis import APIS, corpus

CASES = [
    pytest.param(api, case, id=f"{api}: {case['quirk']}") for api in APIS for case in corpus(api)
]


def reply_of(api: str, expected: dict[str, Any]) -> Reply:
    parts: list[ReplyPart] = []
    for part in expected["parts"]:
        match part:
            case {"opaque": data, "kind": kind}:
                text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
                parts.append(Opaque(text, api, kind))
            case {"image": data, "type": kind}:
                parts.append(Image(b64decode(data), kind))
            case {"text": text}:
                parts.append(Text(text))
            case {"thought": text, "sealed": sealed}:
                parts.append(Reasoning(text, sealed, api))
            case {"call": name, "args": args, "id": call_id}:
                parts.append(Call(name, args, call_id, part.get("via", "")))
            case {"cut": name, "args": args, "id": call_id}:
                parts.append(TruncatedCall(name, call_id, args))
    names = [field.name for field in fields(Usage)]
    usage = Usage(**dict(zip(names, expected["usage"], strict=False)))
    detail = expected.get("stop_detail", "")
    return Reply(tuple(parts), expected["stop"], usage, expected["model"], detail)


def decoded(api: str, case: dict[str, Any]) -> tuple[Reply, list[Any]]:
    """The reply of a stream, and when each of its calls was returned."""
    stream = APIS[api].Stream(names=case["names"])
    when: dict[str, Any] = {}
    for at, event in enumerate(case["events"]):
        for piece in stream.feed(event):
            if isinstance(piece, Call):
                assert piece.id not in when
                when[piece.id] = at
    reply = stream.end()
    return reply, [when.get(call.id, "end") for call in reply.calls]


@pytest.mark.parametrize(("api", "case"), CASES)
def test_a_quirk_gives_the_expected_reply_and_no_early_call(api: str, case: dict[str, Any]) -> None:
    assert decoded(api, case) == (reply_of(api, case["expected"]), case["called_at"])


@pytest.mark.parametrize(("api", "case"), CASES)
async def test_an_async_stream_yields_every_call_and_then_the_reply(
    api: str, case: dict[str, Any]
) -> None:
    async def events() -> AsyncIterator[Any]:
        for event in case["events"]:
            yield event

    stream = APIS[api].decode_stream(events(), names=case["names"])
    pieces: list[StreamItem] = [piece async for piece in stream]
    expected = reply_of(api, case["expected"])

    assert [piece for piece in pieces if isinstance(piece, Reply)] == [expected]
    assert pieces[-1] == expected
    assert tuple(piece for piece in pieces if isinstance(piece, Call)) == expected.calls
    check_shown_arguments(pieces)
    streamed = "".join(
        piece.text for piece in pieces if isinstance(piece, Delta) and not piece.thought
    )
    assert streamed == expected.text


def check_shown_arguments(pieces: list[StreamItem]) -> None:
    """Arguments come before their call, under its id and its name, and none come after it."""
    shown: dict[str, set[str]] = {}
    for piece in pieces:
        if isinstance(piece, ArgsDelta):
            assert piece.text
            shown.setdefault(piece.call_id, set()).add(piece.name)
    assert isinstance(pieces[-1], Reply)
    parts = [part for part in pieces[-1].parts if isinstance(part, Call | TruncatedCall)]
    assert shown.items() <= {part.id: {part.name} for part in parts}.items()


@pytest.mark.parametrize(("api", "case"), CASES)
def test_events_are_not_modified(api: str, case: dict[str, Any]) -> None:
    before = json.dumps(case["events"])
    decoded(api, case)

    assert json.dumps(case["events"]) == before


@pytest.mark.parametrize("index", [[1], {"at": 1}, 1.5, None])
def test_an_index_that_is_no_index_is_as_good_as_none(index: Any) -> None:
    text = {"type": "text", "text": "a"}
    call = {"index": index, "id": "c", "function": {"name": "look", "arguments": "{}"}}
    place: dict[str, Any] = {"output_index": index, "content_index": index, "item_id": index}
    events: dict[str, list[dict[str, Any]]] = {
        "anthropic": [
            {"type": "content_block_start", "index": index, "content_block": text},
            {"type": "content_block_delta", "index": index, "delta": {"text": "b"}},
            {"type": "content_block_stop", "index": index},
        ],
        "openai_chat": [{"choices": [{"delta": {"tool_calls": [call]}}]}],
        "openai_responses": [
            {"type": "response.output_text.delta", "delta": "a", **place},
            {"type": "response.reasoning_text.delta", "delta": "b", **place},
        ],
    }
    replies = {
        api: decoded(api, {"names": {}, "events": given})[0].parts for api, given in events.items()
    }

    assert replies == {
        "anthropic": (Text("ab"),),
        "openai_chat": (Call("look", "{}", "c"),),
        "openai_responses": (Text("a"), Reasoning("b", "", "openai_responses")),
    }


def test_the_corpus_is_large_enough() -> None:
    assert {api: len(corpus(api)) >= 20 for api in APIS} == dict.fromkeys(APIS, True)
    assert len({case.values[1]["quirk"] for case in CASES}) >= 90  # type: ignore[index]


# ---------------------------------------------------------------- a weak control


Fragments = Iterator[tuple[int, str, Any]]
"""Index, name and arguments of each piece of a call, as a naive decoder reads them."""


def anthropic_fragments(event: dict[str, Any]) -> Fragments:
    block, delta = event.get("content_block") or {}, event.get("delta") or {}
    if block.get("type") == "tool_use" or "partial_json" in delta:
        yield event.get("index") or 0, block.get("name") or "", delta.get("partial_json") or ""


def chat_fragments(event: dict[str, Any]) -> Fragments:
    for choice in event.get("choices") or []:
        for one in choice["delta"].get("tool_calls") or []:
            call = one.get("function") or {}
            yield one.get("index") or 0, call.get("name") or "", call.get("arguments") or ""


def responses_fragments(event: dict[str, Any]) -> Fragments:
    item = event.get("item") or {}
    if event["type"] == "response.function_call_arguments.delta":
        yield event.get("output_index") or 0, "", event["delta"]
    elif event["type"] == "response.output_item.added" and item["type"] == "function_call":
        yield event["output_index"], item["name"], ""


def gemini_fragments(event: dict[str, Any]) -> Fragments:
    for candidate in event.get("candidates") or []:
        for part in (candidate.get("content") or {}).get("parts") or []:
            if isinstance(part, dict) and (call := part.get("functionCall")):
                yield 0, call.get("name") or "", call.get("args") or {}


FRAGMENTS = {
    "anthropic": anthropic_fragments,
    "gemini": gemini_fragments,
    "openai_chat": chat_fragments,
    "openai_responses": responses_fragments,
}


def naive(api: str, events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Join pieces by index, as most first implementations do."""
    calls: dict[int, list[str]] = {}
    for event in events:
        for index, name, args in FRAGMENTS[api](event):
            call = calls.setdefault(index, ["", ""])
            call[0] += name
            call[1] += args if isinstance(args, str) else json.dumps(args)
    return [(name, args) for name, args in calls.values()]


def test_a_naive_decoder_fails_on_most_of_the_corpus() -> None:
    wrong = {
        api: sum(
            naive(api, case["events"])
            != [(one["call"], one["args"]) for one in case["expected"]["parts"] if "call" in one]
            for case in corpus(api)
        )
        for api in APIS
    }

    assert {api: count >= 10 for api, count in wrong.items()} == dict.fromkeys(APIS, True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", False),
        ("{}", False),
        ('{"a": 1}', False),
        ('{\n    "a', True),
        ('{"a"', True),
        ('{"a": 1,', True),
        ('{"a": 1 ', True),
        ("{a: 1}", False),
        ("[" * 100_000, False),
    ],
)
def test_truncated_json_differs_from_invalid_json(
    text: str,
    expected: bool,  # noqa: FBT001
) -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "f", "status": "completed"}
    reply = openai_responses.decode({"output": [{**call, "arguments": text}]})

    part = TruncatedCall("f", "c1", text) if expected else Call("f", text or "{}", "c1")
    assert reply.parts == (part,)
