"""Streams as providers and compatible servers really send them: each quirk with its exact reply."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from handrail import Call, Text
from handrail.messages import Cut, Delta, Piece, Reply, Thought, Usage
from handrail.providers._read import broken_off
from providers.wires import WIRES, corpus

CASES = [
    pytest.param(wire, case, id=f"{wire}: {case['quirk']}")
    for wire in WIRES
    for case in corpus(wire)
]


def reply_of(wire: str, told: dict[str, Any]) -> Reply:
    parts: list[Text | Thought | Call | Cut] = []
    for part in told["parts"]:
        match part:
            case {"text": text}:
                parts.append(Text(text))
            case {"thought": text, "sealed": sealed}:
                parts.append(Thought(text, sealed, wire))
            case {"call": name, "args": args, "id": call_id}:
                parts.append(Call(name, args, call_id))
            case {"cut": name, "args": args, "id": call_id}:
                parts.append(Cut(name, call_id, args))
    sent, received, cached = told["usage"]
    usage = Usage(sent=sent, received=received, cached=cached)
    return Reply(tuple(parts), told["stop"], usage, told["model"])


def heard(wire: str, case: dict[str, Any]) -> tuple[Reply, list[Any]]:
    """The reply of a stream, and when each of its calls was handed out."""
    stream = WIRES[wire].Stream(names=case["names"])
    when: dict[str, Any] = {}
    for at, event in enumerate(case["events"]):
        for piece in stream.feed(event):
            if isinstance(piece, Call):
                assert piece.id not in when
                when[piece.id] = at
    reply = stream.end()
    return reply, [when.get(call.id, "end") for call in reply.calls]


@pytest.mark.parametrize(("wire", "case"), CASES)
def test_a_quirk_gives_exactly_this_reply_and_no_call_too_early(
    wire: str, case: dict[str, Any]
) -> None:
    assert heard(wire, case) == (reply_of(wire, case["expected"]), case["called_at"])


@pytest.mark.parametrize(("wire", "case"), CASES)
async def test_an_async_stream_hands_out_every_call_and_at_last_the_reply(
    wire: str, case: dict[str, Any]
) -> None:
    async def events() -> AsyncIterator[Any]:
        for event in case["events"]:
            yield event

    stream = WIRES[wire].decode_stream(events(), names=case["names"])
    pieces: list[Piece] = [piece async for piece in stream]
    expected = reply_of(wire, case["expected"])

    assert [piece for piece in pieces if isinstance(piece, Reply)] == [expected]
    assert pieces[-1] == expected
    calls = [piece for piece in pieces if isinstance(piece, Call)]
    assert sorted(calls, key=str) == sorted(expected.calls, key=str)
    spoken = "".join(
        piece.text for piece in pieces if isinstance(piece, Delta) and not piece.thought
    )
    assert spoken == expected.text


@pytest.mark.parametrize(("wire", "case"), CASES)
def test_events_are_left_as_they_were(wire: str, case: dict[str, Any]) -> None:
    before = json.dumps(case["events"])
    heard(wire, case)

    assert json.dumps(case["events"]) == before


def test_the_corpus_is_large_enough() -> None:
    assert {wire: len(corpus(wire)) >= 20 for wire in WIRES} == dict.fromkeys(WIRES, True)
    assert len({case.values[1]["quirk"] for case in CASES}) >= 90  # type: ignore[index]


# ---------------------------------------------------------------- a weak control


Fragments = Iterator[tuple[int, str, Any]]
"""Index, name and arguments of each piece of a call, as a naive reader takes them."""


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


def naive(wire: str, events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Pieces put together by their index: what most people write first."""
    calls: dict[int, list[str]] = {}
    for event in events:
        for index, name, args in FRAGMENTS[wire](event):
            call = calls.setdefault(index, ["", ""])
            call[0] += name
            call[1] += args if isinstance(args, str) else json.dumps(args)
    return [(name, args) for name, args in calls.values()]


def test_a_naive_reader_fails_on_most_of_the_corpus() -> None:
    wrong = {
        wire: sum(
            naive(wire, case["events"])
            != [(one["call"], one["args"]) for one in case["expected"]["parts"] if "call" in one]
            for case in corpus(wire)
        )
        for wire in WIRES
    }

    assert {wire: count >= 10 for wire, count in wrong.items()} == dict.fromkeys(WIRES, True)


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
def test_a_text_that_is_broken_off_is_told_from_one_that_is_wrong(
    text: str,
    expected: bool,  # noqa: FBT001
) -> None:
    assert broken_off(text) is expected
