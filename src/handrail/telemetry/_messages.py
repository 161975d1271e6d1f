"""Messages as JSON, in the conventions' form. Omitted by default."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from handrail import Call, Image, Text
from handrail.messages import (
    Message,
    Opaque,
    Prompt,
    Reasoning,
    Reply,
    Request,
    TruncatedCall,
)
from handrail.telemetry._facts import Value


def show_request(request: Request) -> dict[str, Value]:
    """Return a request's content."""
    tools = [
        {"type": "function", "name": spec.name, "description": spec.description}
        | {"parameters": dict(spec.input_schema)}
        for spec in request.tools.specs
    ]
    shown: dict[str, Value] = {"gen_ai.input.messages": _write(map(_show, request.messages))}
    if request.system:
        instructions = [{"type": "text", "content": request.system}]
        shown["gen_ai.system_instructions"] = _write(instructions)
    if tools:
        shown["gen_ai.tool.definitions"] = _write(tools)
    return shown


def show_reply(reply: Reply) -> dict[str, Value]:
    """Return a reply's content."""
    return {"gen_ai.output.messages": _write([_show(reply) | {"finish_reason": reply.stop}])}


def _write(items: Iterable[Any]) -> str:
    return json.dumps(list(items), ensure_ascii=False, default=repr)


def _show(message: Message) -> dict[str, Any]:
    if isinstance(message, Prompt):
        return {"role": "user", "parts": [_show_part(part) for part in message.parts]}
    if isinstance(message, Reply):
        seen = [part for part in message.parts if not isinstance(part, Opaque)]
        return {"role": "assistant", "parts": [_show_part(part) for part in seen]}
    parts = [
        {"type": "tool_call_response", "id": one.call_id, "response": one.text}
        for one in message.results
    ]
    return {"role": "tool", "parts": parts}


def _show_part(part: Any) -> dict[str, Any]:
    """Return one part. Images and files are only named: they can be large."""
    if isinstance(part, Text):
        return {"type": "text", "content": part.text}
    if isinstance(part, Reasoning):
        return {"type": "reasoning", "content": part.text}
    if isinstance(part, Call | TruncatedCall):
        args = part.args if isinstance(part.args, str) else dict(part.args)
        return {"type": "tool_call", "id": part.id, "name": part.name, "arguments": args}
    kind = "image" if isinstance(part, Image) else "file"
    return {"type": kind, "mime_type": part.media_type, "bytes": len(part.data)}
