"""A reply is the same however its stream is split."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import Call, Image, Text
from handrail.messages import (
    ArgsDelta,
    Delta,
    Opaque,
    Reasoning,
    Reply,
    ReplyPart,
    Stop,
    TruncatedCall,
    Usage,
)
from providers.apis import APIS
from providers.formats.histories import PARTS, compact
from providers.formats.responses import STREAM, WHOLE, at

WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12) | st.just('é😀\n"\\u00')
NAMES = st.sampled_from(["add", "read_file", "a-b"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)
ARGS = st.dictionaries(WORDS, VALUES, max_size=3).map(
    lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False)
)
PLACES = st.lists(st.integers(0, 60), max_size=6)
USAGES = st.builds(
    lambda cached, more, received: Usage(
        input_tokens=cached + more, output_tokens=received, cached_tokens=cached
    ),
    st.integers(0, 50),
    st.integers(0, 50),
    st.integers(1, 50),
)


def sealed(api: str, text: str, seal: str) -> Reasoning:
    if api == "openai_responses":
        summary = [{"type": "summary_text", "text": text}] if text else []
        item = {
            "id": f"rs_{seal}",
            "type": "reasoning",
            "summary": summary,
            "encrypted_content": seal,
        }
        seal = json.dumps(item, separators=(",", ":"), ensure_ascii=False)
    return Reasoning(text, "" if api == "openai_chat" else seal, api)


def reply_parts(api: str, kind: str, call_id: str) -> st.SearchStrategy[ReplyPart]:
    match kind:
        case "w":
            return st.builds(Text, WORDS)
        case "t":
            texts = WORDS if api == "openai_chat" else WORDS | st.just("")
            return st.builds(sealed, st.just(api), texts, st.sampled_from(["AAAA", "BBBB"]))
        case "o":
            others = PARTS[api][:1] if api == "gemini" else PARTS[api]
            unread = [Opaque(compact(part), api) for part in others]
            image = [Image(b"x", "image/png")] if api == "gemini" else []
            return st.sampled_from([*unread, *image])
    return st.builds(Call, NAMES, ARGS, st.just(call_id))


@st.composite
def replies(draw: st.DrawFn, api: str) -> Reply:
    """A reply with parts in an order that this API can represent."""
    kinds = draw(st.lists(st.sampled_from("wtco"), max_size=6))
    if api in {"openai_chat", "gemini"}:
        kinds = [one for one, after in pairwise([*kinds, ""]) if one != after or one == "c"]
    if api == "openai_chat":  # one text and one reasoning, before all calls
        kinds = sorted(set(kinds) - {"c", "o"}) + [kind for kind in kinds if kind == "c"]
    parts: list[ReplyPart] = []
    parts += [draw(reply_parts(api, kind, f"c{n}")) for n, kind in enumerate(kinds)]
    stop: Stop = "calls" if "c" in kinds else "end"
    if api != "gemini" and draw(st.booleans()):
        stop = "length"
        args = draw(ARGS)
        parts.append(
            TruncatedCall(draw(NAMES), "last", args[: draw(st.integers(0, len(args) - 1))])
        )
    return Reply(tuple(parts), stop, draw(USAGES), "m-1")


def check_arguments(api: str, reply: Reply, deltas: list[ArgsDelta]) -> None:
    """Check that the pieces of each call make up its arguments. Gemini sends them as a whole."""
    shown: dict[str, str] = {}
    for piece in deltas:
        assert piece.text.encode()
        shown[piece.call_id] = shown.get(piece.call_id, "") + piece.text
    parts = [part for part in reply.parts if isinstance(part, Call | TruncatedCall)]
    expected = {part.id: str(part.args) for part in parts if part.args and api != "gemini"}
    assert shown == expected
    assert {(piece.call_id, piece.name) for piece in deltas} == {
        (part.id, part.name) for part in parts if part.id in expected
    }


def decoded(api: str, events: list[dict[str, Any]]) -> tuple[Reply, list[Call], str, str]:
    stream = APIS[api].Stream()
    pieces = [piece for event in events for piece in stream.feed(event)]
    reply = stream.end()
    calls = [piece for piece in pieces if isinstance(piece, Call)]
    deltas = [piece for piece in pieces if isinstance(piece, Delta)]
    assert all(piece.text.encode() for piece in deltas)
    check_arguments(api, reply, [piece for piece in pieces if isinstance(piece, ArgsDelta)])
    text = "".join(piece.text for piece in deltas if not piece.thought)
    return reply, calls, text, "".join(piece.text for piece in deltas if piece.thought)


@pytest.mark.parametrize("api", APIS)
@given(data=st.data())
def test_any_split_of_a_stream_gives_the_same_reply(api: str, data: st.DataObject) -> None:
    reply = data.draw(replies(api))
    cut: Callable[[str], list[str]] = lambda text: at(text, data.draw(PLACES))  # noqa: E731
    thoughts = "".join(part.text for part in reply.parts if isinstance(part, Reasoning))

    assert decoded(api, STREAM[api](reply, cut)) == (reply, [*reply.calls], reply.text, thoughts)


@pytest.mark.parametrize("api", APIS)
@given(data=st.data())
def test_a_complete_response_gives_the_same_reply_as_its_stream(
    api: str, data: st.DataObject
) -> None:
    reply = data.draw(replies(api))
    events = STREAM[api](reply, lambda text: [text])
    if api == "anthropic":  # a complete response has the parsed part of a truncated call
        parts = (
            TruncatedCall(one.name, one.id) if isinstance(one, TruncatedCall) else one
            for one in reply.parts
        )
        reply = replace(reply, parts=tuple(parts))
        events = STREAM[api](reply, lambda text: [text])

    assert APIS[api].decode(WHOLE[api](reply)) == decoded(api, events)[0] == reply


@pytest.mark.parametrize("api", [api for api in APIS if api != "gemini"])
def test_arguments_can_be_split_anywhere(api: str) -> None:
    args = json.dumps({"é": "😀\n", "b": ["\\u00e9", {"c": -1.5e3}]}) + " "
    ascii_too = json.dumps(json.loads(args), ensure_ascii=False)
    for text in (args, ascii_too):
        calls = (Call("add", text, "c1"), Call("add", text, "c2"))
        reply = Reply(calls, "calls", Usage(output_tokens=1), "m")
        for place in range(len(text.encode("utf-16-le")) // 2):
            events = STREAM[api](reply, lambda one, place=place: at(one, [place]))  # type: ignore[misc]
            assert decoded(api, events)[:2] == (reply, [*calls])


@given(
    places=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), max_size=12), data=st.data()
)
def test_calls_can_be_interleaved_in_any_way(
    places: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Three calls whose pieces arrive in any order, identified by index as in OpenAI's chunks."""
    texts = [data.draw(ARGS) for _ in range(3)]
    rest = list(texts)
    deltas = [
        {"index": n, "id": f"c{n}", "function": {"name": "add", "arguments": ""}} for n in range(3)
    ]
    for which, size in places + [(n, 10_000) for n in range(3)]:
        index = which % 3
        deltas.append({"index": index, "function": {"arguments": rest[index][:size]}})
        rest[index] = rest[index][size:]
    events = [{"choices": [{"delta": {"tool_calls": [one]}}]} for one in deltas]
    events.append({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})

    calls = tuple(Call("add", text, f"c{n}") for n, text in enumerate(texts))
    assert decoded("openai_chat", events)[:2] == (Reply(calls, "calls"), [*calls])
