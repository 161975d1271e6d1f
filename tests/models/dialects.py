"""How the servers of docs/models stream a call, and then text: each in its own way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from models.stage import Answer, Asked
from models.talk import ANTHROPIC, GEMINI, RESPONSES

ARGS = '{"a":1,"b":2}'


def chunk(delta: dict[str, Any] | None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    head = {"id": "r1", "object": "chat.completion.chunk", "created": 1, "model": "m-1"}
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {**head, "choices": choices, **more}


def call(args: str, call_id: str = "", name: str = "") -> dict[str, Any]:
    first: dict[str, Any] = {"id": call_id, "type": "function"} if call_id else {}
    function = {"arguments": args, **({"name": name} if name else {})}
    return {"tool_calls": [{"index": 0, **first, "function": function}]}


USAGE = {"prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19}


def azure() -> tuple[Answer, Answer]:
    """The first chunk has the results of the content filter, and no choice."""
    clean = {"hate": {"filtered": False, "severity": "safe"}}
    head = chunk(None, prompt_filter_results=[{"prompt_index": 0, "content_filter_results": clean}])
    return (
        Answer.stream(
            head,
            chunk({"role": "assistant", "content": None, **call("", "call_1", "add")}),
            chunk(call(ARGS)),
            chunk({}, "tool_calls"),
            chunk(None, usage=USAGE),
            "[DONE]",
        ),
        Answer.stream(head, chunk({"content": "It is 3."}), chunk({}, "stop"), "[DONE]"),
    )


def openrouter() -> tuple[Answer, Answer]:
    """Comments keep the connection open; reasoning has its own fields."""
    waiting = b": OPENROUTER PROCESSING\n\n"
    seen = {"provider": "Anthropic", "native_finish_reason": None}
    thought = {"reasoning": "Hm.", "reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]}
    called = Answer.stream(
        chunk({"role": "assistant", "content": "", **thought}, **seen),
        chunk({"content": None, **call("", "toolu_1", "add")}, **seen),
        chunk(call('{"a":1,')),
        chunk(call('"b":2}')),
        chunk({"content": ""}, "tool_calls", provider="Anthropic"),
        chunk({"content": ""}, usage={**USAGE, "cost": 0.001}),
        "[DONE]",
    )
    told = Answer.stream(chunk({"content": "It is 3."}), chunk({"content": ""}, "stop"), "[DONE]")
    return (
        Answer(body=waiting * 2 + called.body, kind=called.kind),
        Answer(body=waiting + told.body, kind=told.kind),
    )


def litellm() -> tuple[Answer, Answer]:
    """The last chunk has the usage, and a choice that says nothing."""
    return (
        Answer.stream(
            chunk({"role": "assistant", "content": None, **call("", "call_1", "add")}),
            chunk({**call(ARGS), "provider_specific_fields": None}),
            chunk({}, "tool_calls", citations=None),
            chunk({}, usage=USAGE),
            "[DONE]",
        ),
        Answer.stream(chunk({"content": "It is 3."}), chunk({}, "stop"), "[DONE]"),
    )


def vllm() -> tuple[Answer, Answer]:
    """A first chunk with a role alone, and ids of its own."""
    head = chunk({"role": "assistant", "content": ""})
    return (
        Answer.stream(
            head,
            chunk(call("", "chatcmpl-tool-1", "add")),
            *[chunk(call(letter)) for letter in ARGS],
            chunk({"content": ""}, "tool_calls"),
            chunk(None, usage=USAGE),
            "[DONE]",
        ),
        Answer.stream(head, chunk({"content": "It is 3."}), chunk({}, "stop"), "[DONE]"),
    )


def ollama() -> tuple[Answer, Answer]:
    """A call arrives in one piece."""
    whole = {"role": "assistant", "content": "", **call(ARGS, "call_1", "add")}
    return (
        Answer.stream(
            chunk(whole),
            chunk({"role": "assistant", "content": ""}, "tool_calls"),
            chunk(None, usage=USAGE),
            "[DONE]",
        ),
        Answer.stream(
            chunk({"role": "assistant", "content": "It is 3."}),
            chunk({"role": "assistant", "content": ""}, "stop"),
            "[DONE]",
        ),
    )


def anthropic() -> tuple[Answer, Answer]:
    start, *_, delta, end = ANTHROPIC.events
    text = {"type": "text_delta", "text": "It is 3."}
    block = {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "text", "text": ""},
    }
    done = {**delta, "delta": {"stop_reason": "end_turn", "stop_sequence": None}}
    return (
        ANTHROPIC.streamed(),
        Answer.stream(
            start,
            block,
            {"type": "content_block_delta", "index": 0, "delta": text},
            {"type": "content_block_stop", "index": 0},
            done,
            end,
        ),
    )


def gemini() -> tuple[Answer, Answer]:
    content = {"role": "model", "parts": [{"text": "It is 3."}]}
    told = {"candidates": [{"index": 0, "content": content, "finishReason": "STOP"}]}
    return GEMINI.streamed(), Answer.stream(told)


def responses() -> tuple[Answer, Answer]:
    created, added, delta, *_ = RESPONSES.events
    said = {"type": "output_text", "text": "It is 3.", "annotations": []}
    item = {**added["item"], "content": [said], "status": "completed"}
    last = {**created["response"], "status": "completed", "output": [item]}
    return (
        RESPONSES.streamed(),
        Answer.stream(
            created,
            added,
            {**delta, "delta": "It is 3."},
            {
                "type": "response.output_item.done",
                "item": item,
                "output_index": 0,
                "sequence_number": 3,
            },
            {"type": "response.completed", "sequence_number": 4, "response": last},
        ),
    )


Check = Callable[[Asked], object]
"""Returns what a server looks at in a request."""


def key_of(asked: Asked) -> str:
    headers = asked.headers
    key = headers.get("authorization") or headers.get("api-key") or headers.get("x-api-key") or ""
    return key.removeprefix("Bearer ")
