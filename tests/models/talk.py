"""The same reply in the format of each of the four APIs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from handrail import Call, Text
from handrail.messages import Delta, Model, Reply, StreamItem, Usage
from handrail.models import anthropic, gemini, openai_chat, openai_responses
from models.stage import Answer, Ending

KEY = "sk-a-key-that-nobody-may-see"


@dataclass(frozen=True, kw_only=True)
class Api:
    """One API: how to create its client, the provider's events, and the expected items."""

    name: str
    make: Callable[..., Model]
    root: str
    """The path of a base_url."""
    path: str
    whole_path: str
    key_header: str
    events: tuple[Any, ...]
    """Of a reply with text and a call."""
    whole: dict[str, Any]
    reply: Reply

    def model(self, url: str, **options: Any) -> Model:
        return self.make("m-1", base_url=url + self.root, **options)

    def streamed(self, ending: Ending = "complete", most: int | None = None) -> Answer:
        return Answer.stream(*self.events[:most], ending=ending)

    @property
    def pieces(self) -> list[StreamItem]:
        return [Delta("Let me "), Delta("see."), *self.reply.calls, self.reply]


def text_and_calls(items: Iterable[StreamItem]) -> list[StreamItem]:
    """The items of a stream that every model has, without pieces of arguments."""
    return [item for item in items if isinstance(item, Delta | Call | Reply)]


_PARTS = (Text("Let me see."), Call("add", '{"a":1,"b":2}', "c1"))
_USAGE = Usage(input_tokens=12, output_tokens=7, cached_tokens=4)
_REPLY = Reply(_PARTS, "calls", _USAGE, "m-1-full")


def _block(index: int, delta: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


_ANTHROPIC_HEAD = {"id": "r1", "type": "message", "role": "assistant", "model": "m-1-full"}
_ANTHROPIC_USAGE = {"input_tokens": 8, "cache_read_input_tokens": 4}

ANTHROPIC = Api(
    name="anthropic",
    make=anthropic,
    root="",
    path="/v1/messages",
    whole_path="/v1/messages",
    key_header="authorization",
    events=(
        {
            "type": "message_start",
            "message": {
                **_ANTHROPIC_HEAD,
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {**_ANTHROPIC_USAGE, "output_tokens": 1},
            },
        },
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        _block(0, {"type": "text_delta", "text": "Let me "}),
        _block(0, {"type": "text_delta", "text": "see."}),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": "c1", "name": "add", "input": {}},
        },
        _block(1, {"type": "input_json_delta", "partial_json": '{"a":1,'}),
        _block(1, {"type": "input_json_delta", "partial_json": '"b":2}'}),
        {"type": "content_block_stop", "index": 1},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {"output_tokens": 7},
        },
        {"type": "message_stop"},
    ),
    whole={
        **_ANTHROPIC_HEAD,
        "content": [
            {"type": "text", "text": "Let me see."},
            {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1, "b": 2}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {**_ANTHROPIC_USAGE, "output_tokens": 7},
    },
    reply=_REPLY,
)


def _chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    head = {"id": "r1", "object": "chat.completion.chunk", "created": 1, "model": "m-1-full"}
    return {**head, "choices": choices, **more}


def _piece(arguments: str, **more: Any) -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": "add"} if more else {})}
    return {"tool_calls": [{"index": 0, "function": function, **more}]}


_CHAT_USAGE = {
    "prompt_tokens": 12,
    "completion_tokens": 7,
    "total_tokens": 19,
    "prompt_tokens_details": {"cached_tokens": 4},
}

CHAT = Api(
    name="openai_chat",
    make=openai_chat,
    root="/v1",
    path="/v1/chat/completions",
    whole_path="/v1/chat/completions",
    key_header="authorization",
    events=(
        _chunk({"role": "assistant", "content": "Let me "}),
        _chunk({"content": "see."}),
        _chunk(_piece('{"a":1,', id="c1", type="function")),
        _chunk(_piece('"b":2}')),
        _chunk({}, "tool_calls"),
        _chunk({}, choices=[], usage=_CHAT_USAGE),
        "[DONE]",
    ),
    whole={
        "id": "r1",
        "object": "chat.completion",
        "created": 1,
        "model": "m-1-full",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "content": "Let me see.",
                    "tool_calls": [
                        {
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "add", "arguments": '{"a":1,"b":2}'},
                        }
                    ],
                },
            }
        ],
        "usage": _CHAT_USAGE,
    },
    reply=_REPLY,
)

_MESSAGE = {
    "type": "message",
    "id": "i1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}],
}
_FUNCTION_CALL = {
    "type": "function_call",
    "id": "i2",
    "call_id": "c1",
    "name": "add",
    "arguments": '{"a":1,"b":2}',
    "status": "completed",
}


def response(status: str, **more: Any) -> dict[str, Any]:
    head = {"id": "r1", "object": "response", "created_at": 1, "model": "m-1-full"}
    rest = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "output": []}
    return {**head, **rest, "status": status, **more}


_RESPONSE = response(
    "completed",
    output=[_MESSAGE, _FUNCTION_CALL],
    usage={
        "input_tokens": 12,
        "output_tokens": 7,
        "total_tokens": 19,
        "input_tokens_details": {"cached_tokens": 4},
    },
)


def _text_delta(text: str) -> dict[str, Any]:
    at = {"item_id": "i1", "output_index": 0, "content_index": 0, "sequence_number": 2}
    return {"type": "response.output_text.delta", "delta": text, "logprobs": [], **at}


def _item(kind: str, index: int, item: dict[str, Any]) -> dict[str, Any]:
    at = {"output_index": index, "sequence_number": 1}
    return {"type": f"response.output_item.{kind}", "item": item, **at}


RESPONSES = Api(
    name="openai_responses",
    make=openai_responses,
    root="/v1",
    path="/v1/responses",
    whole_path="/v1/responses",
    key_header="authorization",
    events=(
        {"type": "response.created", "sequence_number": 0, "response": response("in_progress")},
        _item("added", 0, {**_MESSAGE, "content": [], "status": "in_progress"}),
        _text_delta("Let me "),
        _text_delta("see."),
        _item("done", 0, _MESSAGE),
        _item("added", 1, {**_FUNCTION_CALL, "arguments": "", "status": "in_progress"}),
        {
            "type": "response.function_call_arguments.delta",
            "item_id": "i2",
            "output_index": 1,
            "sequence_number": 3,
            "delta": '{"a":1,"b":2}',
        },
        _item("done", 1, _FUNCTION_CALL),
        {"type": "response.completed", "sequence_number": 4, "response": _RESPONSE},
    ),
    whole=_RESPONSE,
    reply=_REPLY,
)


def _candidate(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"index": 0, "content": {"role": "model", "parts": list(parts)}, **more}


_GEMINI_END = {
    "modelVersion": "m-1-full",
    "responseId": "r1",
    "usageMetadata": {
        "promptTokenCount": 12,
        "candidatesTokenCount": 7,
        "cachedContentTokenCount": 4,
    },
}
_GEMINI_CALL = {"functionCall": {"id": "c1", "name": "add", "args": {"a": 1, "b": 2}}}

GEMINI = Api(
    name="gemini",
    make=gemini,
    root="",
    path="/v1/models/m-1:streamGenerateContent?alt=sse",
    whole_path="/v1/models/m-1:generateContent",
    key_header="x-goog-api-key",
    events=(
        {"candidates": [_candidate({"text": "Let me "})]},
        {"candidates": [_candidate({"text": "see."})]},
        {"candidates": [_candidate(_GEMINI_CALL)]},
        {"candidates": [_candidate(finishReason="STOP")], **_GEMINI_END},
    ),
    whole={
        "candidates": [_candidate({"text": "Let me see."}, _GEMINI_CALL, finishReason="STOP")],
        **_GEMINI_END,
    },
    reply=_REPLY,
)

APIS = (ANTHROPIC, CHAT, RESPONSES, GEMINI)
