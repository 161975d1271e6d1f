"""A reply as each API would send it: complete, and as a stream that is split anywhere.

Based on the providers' types. It shares no code with the decoders.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from handrail import Call, Image, Text
from handrail.messages import Opaque, Reasoning, Reply, ReplyPart, TruncatedCall, Usage

Pieces = Callable[[str], list[str]]
"""Splits a text into pieces, some of which may be empty."""
Events = list[dict[str, Any]]


def at(text: str, places: list[int]) -> list[str]:
    """Split a text at UTF-16 units, as JSON escapes can."""
    units = text.encode("utf-16-le", "surrogatepass")
    marks = sorted({0, len(units) // 2, *(place % (len(units) // 2 + 1) for place in places)})
    cut = [units[2 * a : 2 * b].decode("utf-16-le", "surrogatepass") for a, b in pairwise(marks)]
    return cut or [""]


def parsed(args: str) -> Any:
    return json.loads(args)


# ---------------------------------------------------------------- Anthropic

ANTHROPIC_STOPS = {"end": "end_turn", "calls": "tool_use", "length": "max_tokens"}


def anthropic_usage(usage: Usage) -> dict[str, int]:
    fresh = usage.input_tokens - usage.cached_tokens
    return {
        "input_tokens": fresh,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
    }


def anthropic_whole(reply: Reply) -> dict[str, Any]:
    blocks = [anthropic_block(part) for part in reply.parts]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": blocks,
        "stop_reason": ANTHROPIC_STOPS[reply.stop],
        "usage": anthropic_usage(reply.usage),
    }


def anthropic_block(part: ReplyPart) -> dict[str, Any]:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Reasoning(text, signature):
            return {"type": "thinking", "thinking": text, "signature": signature}
        case Call(name, args, call_id) | TruncatedCall(name, call_id, args):
            value = parsed(str(args)) if isinstance(part, Call) else {}
            return {"type": "tool_use", "id": call_id, "name": name, "input": value}
        case Opaque(data):
            block: dict[str, Any] = json.loads(data)
            return block
        case Image():
            raise AssertionError("this api sends no images")


def anthropic_stream(reply: Reply, pieces: Pieces) -> Events:
    whole = anthropic_whole(reply)
    started = {**whole, "content": [], "stop_reason": None, "usage": {"output_tokens": 1}}
    events: Events = [{"type": "message_start", "message": started}]
    for index, (part, block) in enumerate(zip(reply.parts, whole["content"], strict=True)):
        empty = {**block, **{k: "" for k in ("text", "thinking", "signature") if k in block}}
        empty |= {"input": {}} if "input" in block else {}
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        for delta in anthropic_deltas(part, pieces):
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    last = {"stop_reason": whole["stop_reason"]}
    return [*events, {"type": "message_delta", "delta": last, "usage": whole["usage"]}]


def anthropic_deltas(part: ReplyPart, pieces: Pieces) -> Events:
    match part:
        case Text(text):
            return [{"type": "text_delta", "text": one} for one in pieces(text)]
        case Reasoning(text, signature):
            deltas = [{"type": "thinking_delta", "thinking": one} for one in pieces(text)]
            return [*deltas, {"type": "signature_delta", "signature": signature}]
        case Call() | TruncatedCall():
            return json_deltas(str(part.args), pieces)
        case _:
            block = anthropic_block(part)
            return json_deltas(json.dumps(block["input"]), pieces) if "input" in block else []


def json_deltas(text: str, pieces: Pieces) -> Events:
    return [{"type": "input_json_delta", "partial_json": one} for one in pieces(text)]


# ---------------------------------------------------------------- OpenAI Chat

CHAT_STOPS = {"end": "stop", "calls": "tool_calls", "length": "length"}


def chat_usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def chat_call(part: Call | TruncatedCall) -> dict[str, Any]:
    function = {"name": part.name, "arguments": part.args}
    return {"id": part.id, "type": "function", "function": function}


def chat_whole(reply: Reply) -> dict[str, Any]:
    calls = [chat_call(part) for part in reply.parts if isinstance(part, Call | TruncatedCall)]
    thoughts = "".join(part.text for part in reply.parts if isinstance(part, Reasoning))
    message = {"role": "assistant", "content": reply.text or None, "tool_calls": calls or None}
    message |= {"reasoning_content": thoughts} if thoughts else {}
    choice = {"index": 0, "message": message, "finish_reason": CHAT_STOPS[reply.stop]}
    return {
        "id": "chatcmpl-1",
        "model": reply.model,
        "choices": [choice],
        "usage": chat_usage(reply.usage),
    }


def chat_stream(reply: Reply, pieces: Pieces) -> Events:
    deltas: Events = [{"role": "assistant", "content": ""}]
    index = -1
    for part in reply.parts:
        match part:
            case Text(text):
                deltas += [{"content": one} for one in pieces(text)]
            case Reasoning(text):
                deltas += [{"reasoning_content": one} for one in pieces(text)]
            case Call() | TruncatedCall():
                index += 1
                head = chat_call(part) | {"index": index}
                head["function"] = {"name": part.name, "arguments": ""}
                deltas.append({"tool_calls": [head]})
                for one in pieces(str(part.args)):
                    deltas.append(
                        {"tool_calls": [{"index": index, "function": {"arguments": one}}]}
                    )
    frame = {"id": "chatcmpl-1", "model": reply.model}
    events = [
        {**frame, "choices": [{"index": 0, "delta": one, "finish_reason": None}]} for one in deltas
    ]
    last = {"index": 0, "delta": {}, "finish_reason": CHAT_STOPS[reply.stop]}
    usage = {**frame, "choices": [], "usage": chat_usage(reply.usage)}
    return [*events, {**frame, "choices": [last]}, usage]


# ---------------------------------------------------------------- OpenAI Responses


def responses_item(at_: int, part: ReplyPart) -> dict[str, Any]:
    match part:
        case Text(text):
            content = [{"type": "output_text", "text": text, "annotations": []}]
            head = {"type": "message", "id": f"msg_{at_}", "role": "assistant"}
            return {**head, "status": "completed", "content": content}
        case Reasoning():
            item: dict[str, Any] = json.loads(part.signature)
            return item
        case Opaque():
            other: dict[str, Any] = json.loads(part.data)
            return other
        case Call() | TruncatedCall():
            status = "completed" if isinstance(part, Call) else "incomplete"
            head = {"type": "function_call", "id": f"fc_{at_}", "call_id": part.id}
            return {**head, "name": part.name, "arguments": part.args, "status": status}
        case Image():
            raise AssertionError("this api sends no images")


def responses_whole(reply: Reply) -> dict[str, Any]:
    cut = reply.stop == "length"
    return {
        "id": "resp_1",
        "model": reply.model,
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "output": [responses_item(n, part) for n, part in enumerate(reply.parts)],
        "usage": {
            "input_tokens": reply.usage.input_tokens,
            "input_tokens_details": {"cached_tokens": reply.usage.cached_tokens},
            "output_tokens": reply.usage.output_tokens,
        },
    }


def responses_stream(reply: Reply, pieces: Pieces) -> Events:
    whole = responses_whole(reply)
    begun = {"id": "resp_1", "model": reply.model, "status": "in_progress", "output": []}
    events: Events = [{"type": "response.created", "response": begun}]
    for n, (part, item) in enumerate(zip(reply.parts, whole["output"], strict=True)):
        where = {"output_index": n, "item_id": item["id"]}
        empty = {**item, "status": "in_progress"}
        empty |= {
            k: v for k, v in (("content", []), ("arguments", ""), ("summary", [])) if k in item
        }
        events.append({"type": "response.output_item.added", "output_index": n, "item": empty})
        match part:
            case Text(text):
                kind, where = "output_text", where | {"content_index": 0}
            case Reasoning(text):
                kind, where = "reasoning_summary_text", where | {"summary_index": 0}
            case Call() | TruncatedCall():
                kind, text = "function_call_arguments", str(part.args)
            case _:
                kind, text = "web_search_call.searching", ""
        events += [
            {"type": f"response.{kind}.delta", **where, "delta": one} for one in pieces(text)
        ]
        events.append({"type": "response.output_item.done", "output_index": n, "item": item})
    return [*events, {"type": f"response.{whole['status']}", "response": whole}]


# ---------------------------------------------------------------- Gemini

GEMINI_STOPS = {"end": "STOP", "calls": "STOP", "length": "MAX_TOKENS"}


def gemini_frame(reply: Reply, parts: Events, **more: Any) -> dict[str, Any]:
    candidate = {"index": 0, "content": {"role": "model", "parts": parts}, **more}
    return {"candidates": [candidate], "modelVersion": reply.model, "responseId": "r1"}


def gemini_usage(usage: Usage) -> dict[str, int]:
    return {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": usage.output_tokens,
        "cachedContentTokenCount": usage.cached_tokens,
    }


def gemini_parts(reply: Reply, pieces: Pieces) -> Events:
    """The parts of a reply. A signature without text is sent with the part after it."""
    parts: Events = []
    seal: dict[str, Any] = {}
    for part in reply.parts:
        match part:
            case Text(text):
                # A part with a signature is sent as one; other text can be split.
                cut = [text] if seal else pieces(text)
                parts += [{"text": one, **seal} for one in cut]
                seal = {}
            case Reasoning("", signature):
                seal = {"thoughtSignature": signature}
            case Reasoning(text, signature):
                cut = [text] if signature else pieces(text)
                signed = {"thoughtSignature": signature} if signature else {}
                parts += [{"text": one, "thought": True, **signed} for one in cut]
            case Call(name, args, call_id):
                call = {"name": name, "args": parsed(str(args)), "id": call_id}
                parts.append({"functionCall": call, **seal})
                seal = {}
            case _:
                parts += gemini_other_part(part, seal)
                seal = {}
    return parts + ([{"text": "", **seal}] if seal else [])


def gemini_other_part(part: ReplyPart, seal: dict[str, Any]) -> Events:
    """An image with its signature, or a part that has its own."""
    match part:
        case Opaque(data):
            return [*([{"text": "", **seal}] if seal else []), parsed(data)]
        case Image(data, kind):
            blob = {"mimeType": kind, "data": b64encode(data).decode()}
            return [{"inlineData": blob, **seal}]
    raise AssertionError("this api sends calls whole")


def gemini_whole(reply: Reply) -> dict[str, Any]:
    parts = gemini_parts(reply, lambda text: [text])
    frame = gemini_frame(reply, parts, finishReason=GEMINI_STOPS[reply.stop])
    return {**frame, "usageMetadata": gemini_usage(reply.usage)}


def gemini_stream(reply: Reply, pieces: Pieces) -> Events:
    events = [gemini_frame(reply, [part]) for part in gemini_parts(reply, pieces)]
    last = gemini_frame(reply, [], finishReason=GEMINI_STOPS[reply.stop])
    return [*events, {**last, "usageMetadata": gemini_usage(reply.usage)}]


WHOLE: dict[str, Callable[[Reply], dict[str, Any]]] = {
    "anthropic": anthropic_whole,
    "gemini": gemini_whole,
    "openai_chat": chat_whole,
    "openai_responses": responses_whole,
}
STREAM: dict[str, Callable[[Reply, Pieces], Events]] = {
    "anthropic": anthropic_stream,
    "gemini": gemini_stream,
    "openai_chat": chat_stream,
    "openai_responses": responses_stream,
}
