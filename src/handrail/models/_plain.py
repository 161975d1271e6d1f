"""Requests and replies as JSON, and the first difference between two."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, cast

from handrail import Image, Result, messages
from handrail._support import is_list, is_object
from handrail.messages import Message, Prompt, Request, RequiredTool, ToolResults

_TYPE = "$type"
_BYTES = "$base64"
_DIGEST_CHARS = 16
_SHOWN_CHARS = 60
_SHOWN_BEFORE = 20
_TYPES = {
    name: value
    for name, value in {**vars(messages), "Image": Image}.items()
    if isinstance(value, type) and is_dataclass(value)
}
"""The value types in replies, by name."""


def plain_request(request: Request) -> dict[str, Any]:
    """Return everything a model receives with a request."""
    choice = request.tool_choice
    return {
        "system": request.system,
        "tools": [
            {
                "name": spec.name,
                "description": spec.description,
                "input": to_plain(spec.input_schema),
            }
            for spec in request.tools.specs
        ],
        "messages": [_plain_message(message) for message in request.messages],
        "max_tokens": request.max_tokens,
        "tool_choice": list(choice) if isinstance(choice, RequiredTool) else choice,
    }


def _plain_message(message: Message) -> dict[str, Any]:
    if isinstance(message, ToolResults):
        return {"results": [_plain_result(result) for result in message.results]}
    return {"prompt" if isinstance(message, Prompt) else "reply": to_plain(message.parts)}


def _plain_result(result: Result) -> dict[str, Any]:
    failed = {"failed": True} if result.failure else {}
    parts = {"parts": to_plain(result.parts)} if result.parts else {}
    return {"call_id": result.call_id, "text": result.text, **parts, **failed}


def to_plain(value: Any) -> Any:
    """Return a value as JSON. Fields with their default value are omitted."""
    if is_dataclass(value) and not isinstance(value, type):
        kept = {
            field.name: to_plain(given)
            for field in fields(value)
            if (given := getattr(value, field.name)) != field.default
        }
        return {_TYPE: type(value).__name__, **kept}
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in cast("list[Any]", value)]
    return value


def from_plain(plain: Any) -> Any:
    """Return the value converted by ``to_plain``. Arrays become tuples."""
    if is_list(plain):
        return tuple(map(from_plain, plain))
    if not is_object(plain):
        return plain
    if _BYTES in plain:
        return base64.b64decode(plain[_BYTES])
    given = {key: from_plain(item) for key, item in plain.items()}
    return _TYPES[given.pop(_TYPE)](**given) if _TYPE in given else given


def digest(plain: Any) -> str:
    """Return a value's short hash."""
    text = json.dumps(plain, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]


def first_difference(old: Any, new: Any, path: str = "") -> str:
    """Return where two values first differ, and what they have there."""
    if is_object(old) and is_object(new):
        key = next(key for key in [*old, *new] if old.get(key) != new.get(key))
        below = f"{path}.{key}" if path else key
        return first_difference(old.get(key), new.get(key), below)
    if is_list(old) and is_list(new):
        for at, (one, other) in enumerate(zip(old, new, strict=False)):
            if one != other:
                return first_difference(one, other, f"{path}[{at}]")
        return f"{path} has {len(new)} items, and {len(old)} were recorded"
    shown_old, shown_new = _show(old, new), _show(new, old)
    return f"{path} is {shown_new}, and {shown_old} was recorded"


def _show(value: Any, other: Any) -> str:
    """Return a value on one line. A long text begins shortly before the first difference."""
    if not isinstance(value, str) or not isinstance(other, str):
        return json.dumps(value, ensure_ascii=False)[:_SHOWN_CHARS]
    pairs = enumerate(zip(value, other, strict=False))
    differs = next((at for at, (one, two) in pairs if one != two), min(len(value), len(other)))
    start = max(differs - _SHOWN_BEFORE, 0)
    shown = value[start : start + _SHOWN_CHARS]
    dots = ("…" if start else "", "…" if start + _SHOWN_CHARS < len(value) else "")
    return json.dumps(f"{dots[0]}{shown}{dots[1]}", ensure_ascii=False)
