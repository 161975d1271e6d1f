"""Whatever a reply says and however its stream is cut into pieces, the same reply comes out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import Call, Text
from handrail.messages import Cut, Delta, Reply, Stop, Thought, Usage
from providers.spoken import STREAM, WHOLE, at
from providers.wires import WIRES

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
    lambda cached, more, received: Usage(sent=cached + more, received=received, cached=cached),
    st.integers(0, 50),
    st.integers(0, 50),
    st.integers(1, 50),
)


def sealed(wire: str, text: str, seal: str) -> Thought:
    if wire == "openai_responses":
        summary = [{"type": "summary_text", "text": text}] if text else []
        item = {
            "id": f"rs_{seal}",
            "type": "reasoning",
            "summary": summary,
            "encrypted_content": seal,
        }
        seal = json.dumps(item, separators=(",", ":"), ensure_ascii=False)
    return Thought(text, "" if wire == "openai_chat" else seal, wire)


@st.composite
def replies(draw: st.DrawFn, wire: str) -> Reply:
    """What a model of this wire may say, in the order in which this wire can say it."""
    kinds = draw(st.lists(st.sampled_from("wtc"), max_size=6))
    if wire in {"openai_chat", "gemini"}:
        kinds = [one for one, after in pairwise([*kinds, ""]) if one != after or one == "c"]
    if wire == "openai_chat":  # words and thoughts are one each, before all calls
        kinds = sorted(set(kinds) - {"c"}) + [kind for kind in kinds if kind == "c"]
    parts: list[Text | Thought | Call | Cut] = []
    for n, kind in enumerate(kinds):
        match kind:
            case "w":
                parts.append(Text(draw(WORDS)))
            case "t":
                text = draw(WORDS if wire == "openai_chat" else WORDS | st.just(""))
                parts.append(sealed(wire, text, draw(st.sampled_from(["AAAA", "BBBB"]))))
            case _:
                parts.append(Call(draw(NAMES), draw(ARGS), f"c{n}"))
    stop: Stop = "calls" if "c" in kinds else "end"
    if wire != "gemini" and draw(st.booleans()):
        stop = "length"
        args = draw(ARGS)
        parts.append(Cut(draw(NAMES), "last", args[: draw(st.integers(0, len(args) - 1))]))
    return Reply(tuple(parts), stop, draw(USAGES), "m-1")


def said(wire: str, events: list[dict[str, Any]]) -> tuple[Reply, list[Call], str, str]:
    stream = WIRES[wire].Stream()
    pieces = [piece for event in events for piece in stream.feed(event)]
    reply = stream.end()
    calls = [piece for piece in pieces if isinstance(piece, Call)]
    words = [piece for piece in pieces if isinstance(piece, Delta)]
    assert all(piece.text.encode() for piece in words)
    spoken = "".join(piece.text for piece in words if not piece.thought)
    return reply, calls, spoken, "".join(piece.text for piece in words if piece.thought)


@pytest.mark.parametrize("wire", WIRES)
@given(data=st.data())
def test_any_way_to_cut_a_stream_gives_the_reply_that_was_said(
    wire: str, data: st.DataObject
) -> None:
    reply = data.draw(replies(wire))
    cut: Callable[[str], list[str]] = lambda text: at(text, data.draw(PLACES))  # noqa: E731
    thoughts = "".join(part.text for part in reply.parts if isinstance(part, Thought))

    assert said(wire, STREAM[wire](reply, cut)) == (reply, [*reply.calls], reply.text, thoughts)


@pytest.mark.parametrize("wire", WIRES)
@given(data=st.data())
def test_a_whole_response_is_the_reply_of_its_stream(wire: str, data: st.DataObject) -> None:
    reply = data.draw(replies(wire))
    events = STREAM[wire](reply, lambda text: [text])
    if wire == "anthropic":  # of a cut call, a whole response has what could be parsed
        parts = (Cut(one.name, one.id) if isinstance(one, Cut) else one for one in reply.parts)
        reply = replace(reply, parts=tuple(parts))
        events = STREAM[wire](reply, lambda text: [text])

    assert WIRES[wire].decode(WHOLE[wire](reply)) == said(wire, events)[0] == reply


@pytest.mark.parametrize("wire", [wire for wire in WIRES if wire != "gemini"])
def test_arguments_may_be_cut_at_every_place(wire: str) -> None:
    args = json.dumps({"é": "😀\n", "b": ["\\u00e9", {"c": -1.5e3}]}) + " "
    ascii_too = json.dumps(json.loads(args), ensure_ascii=False)
    for text in (args, ascii_too):
        calls = (Call("add", text, "c1"), Call("add", text, "c2"))
        reply = Reply(calls, "calls", Usage(received=1), "m")
        for place in range(len(text.encode("utf-16-le")) // 2):
            events = STREAM[wire](reply, lambda one, place=place: at(one, [place]))  # type: ignore[misc]
            assert said(wire, events)[:2] == (reply, [*calls])


@given(
    places=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), max_size=12), data=st.data()
)
def test_calls_may_be_interleaved_in_any_way(
    places: list[tuple[int, int]], data: st.DataObject
) -> None:
    """By index, as OpenAI's chunks are told apart: three calls whose pieces come in any order."""
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
    assert said("openai_chat", events)[:2] == (Reply(calls, "calls"), [*calls])
