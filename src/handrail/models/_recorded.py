"""Replay model: serves replies from a file and records missing ones."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

from handrail import HandrailError, Image, Result, Text, messages
from handrail._support import is_list, is_object, stream_items
from handrail.messages import (
    Delta,
    Message,
    Model,
    ModelError,
    Prompt,
    Reasoning,
    Reply,
    Request,
    RequiredTool,
    StreamItem,
    ToolResults,
    model_names,
)
from handrail.models._resilience import ModelOfModels

_VERSION = 1
_Plain: TypeAlias = dict[str, Any]
"""A value as JSON."""
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


def recorded(path: str | os.PathLike[str], model: Model | None = None) -> Model:
    """Return a model replaying replies from a file. Use it in tests.

    A request must have the same content as when its reply was recorded. Any other request is a
    ModelError reporting the difference. With a model, such a request is sent to the model, and its
    reply is added to the file.

    Args:
        path: The file, in JSON. Without a model, it must exist.
        model: The model to record.
    """
    tape = _Tape(Path(path))
    if model is None and not tape.path.exists():
        raise HandrailError(
            f"There are no recorded replies in {tape.path}. Pass a model to record some."
        )

    async def replies(request: Request) -> AsyncIterator[StreamItem]:
        plain = _plain_request(request)
        reply = tape.find(plain)
        if reply is not None:
            items = _replay(reply)
        elif model is not None:
            items = _record(tape, plain, stream_items(model(request)))
        else:
            raise ModelError(
                f"There is no recorded reply for this request in {tape.path}: "
                f"{tape.describe_difference(plain)}.",
                hint="Pass a model to record it.",
            )
        async with aclosing(items):
            async for item in items:
                yield item

    return ModelOfModels(replies, model_names(model) if model else tape.models)


async def _record(
    tape: _Tape, plain: _Plain, items: AsyncGenerator[StreamItem]
) -> AsyncGenerator[StreamItem]:
    async with aclosing(items):
        async for item in items:
            if isinstance(item, Reply):
                tape.add(plain, item)
            yield item


async def _replay(reply: Reply) -> AsyncGenerator[StreamItem]:
    """Yield the text in one piece for each part, the calls, and the reply."""
    for part in reply.parts:
        if isinstance(part, Text | Reasoning) and part.text:
            yield Delta(part.text, isinstance(part, Reasoning))
    for call in reply.calls:
        yield call
    yield reply


class _Tape:
    """A file's recorded replies. Messages and tools shared by requests are saved once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._values: dict[str, Any] = {}
        self._replies: dict[str, _Plain] = {}
        if path.exists():
            self._load(json.loads(path.read_text(encoding="utf-8")))

    def _load(self, saved: _Plain) -> None:
        if saved.get("handrail_replies") != _VERSION:
            raise HandrailError(f"{self.path} does not contain recorded replies of this version.")
        self._values = saved["values"]
        self._replies = {_key(entry["request"]): entry for entry in saved["replies"]}

    @property
    def models(self) -> list[str]:
        """The names of the models with recorded replies."""
        return [entry["reply"].get("model", "") for entry in self._replies.values()]

    def find(self, request: _Plain) -> Reply | None:
        """Return the reply to a request, or None."""
        entry = self._replies.get(_key(self._shorten(request)))
        return None if entry is None else _from_plain(entry["reply"])

    def add(self, request: _Plain, reply: Reply) -> None:
        """Add a reply, and save the file."""
        short = self._shorten(request, save=True)
        self._replies[_key(short)] = {"request": short, "reply": _to_plain(reply)}
        saved = {
            "handrail_replies": _VERSION,
            "values": self._values,
            "replies": list(self._replies.values()),
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        new.write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")
        new.replace(self.path)

    def describe_difference(self, request: _Plain) -> str:
        """Return how a request differs from its closest recorded one."""
        if not self._replies:
            return "the file has no replies"
        short = self._shorten(request)
        closest = max(self._replies.values(), key=lambda entry: _likeness(entry["request"], short))
        return _first_difference(self._expand(closest["request"]), request)

    def _shorten(self, request: _Plain, *, save: bool = False) -> _Plain:
        """Replace large values by their digests."""
        if save:
            large = (request["system"], request["tools"], *request["messages"])
            self._values |= {_digest(value): value for value in large}
        return {
            **request,
            "system": _digest(request["system"]),
            "tools": _digest(request["tools"]),
            "messages": [_digest(message) for message in request["messages"]],
        }

    def _expand(self, short: _Plain) -> _Plain:
        find = self._values.__getitem__
        messages = [find(name) for name in short["messages"]]
        return {
            **short,
            "system": find(short["system"]),
            "tools": find(short["tools"]),
            "messages": messages,
        }


def _key(short: _Plain) -> str:
    return json.dumps(short, sort_keys=True)


def _likeness(recorded_request: _Plain, request: _Plain) -> tuple[int, int]:
    """Return how many messages two requests share at their beginning, and how many fields."""
    pairs = zip(recorded_request["messages"], request["messages"], strict=False)
    shared = next((at for at, (old, new) in enumerate(pairs) if old != new), None)
    least = min(len(recorded_request["messages"]), len(request["messages"]))
    fields = sum(recorded_request[name] == request[name] for name in request)
    return (least if shared is None else shared, fields)


def _plain_request(request: Request) -> dict[str, Any]:
    """Return everything a model receives with a request."""
    choice = request.tool_choice
    return {
        "system": request.system,
        "tools": [
            {
                "name": spec.name,
                "description": spec.description,
                "input": _to_plain(spec.input_schema),
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
    return {"prompt" if isinstance(message, Prompt) else "reply": _to_plain(message.parts)}


def _plain_result(result: Result) -> dict[str, Any]:
    failed = {"failed": True} if result.failure else {}
    parts = {"parts": _to_plain(result.parts)} if result.parts else {}
    return {"call_id": result.call_id, "text": result.text, **parts, **failed}


def _to_plain(value: Any) -> Any:
    """Return a value as JSON. Fields with their default value are omitted."""
    if is_dataclass(value) and not isinstance(value, type):
        kept = {
            field.name: _to_plain(given)
            for field in fields(value)
            if (given := getattr(value, field.name)) != field.default
        }
        return {_TYPE: type(value).__name__, **kept}
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    if isinstance(value, Mapping):
        return {key: _to_plain(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_to_plain(item) for item in cast("list[Any]", value)]
    return value


def _from_plain(plain: Any) -> Any:
    """Return the value converted by ``_to_plain``. Arrays become tuples."""
    if is_list(plain):
        return tuple(map(_from_plain, plain))
    if not is_object(plain):
        return plain
    if _BYTES in plain:
        return base64.b64decode(plain[_BYTES])
    given = {key: _from_plain(item) for key, item in plain.items()}
    return _TYPES[given.pop(_TYPE)](**given) if _TYPE in given else given


def _digest(plain: Any) -> str:
    """Return a value's short hash."""
    text = json.dumps(plain, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]


def _first_difference(old: Any, new: Any, path: str = "") -> str:
    """Return where two values first differ, and what they have there."""
    if is_object(old) and is_object(new):
        key = next(key for key in [*old, *new] if old.get(key) != new.get(key))
        below = f"{path}.{key}" if path else key
        return _first_difference(old.get(key), new.get(key), below)
    if is_list(old) and is_list(new):
        for at, (one, other) in enumerate(zip(old, new, strict=False)):
            if one != other:
                return _first_difference(one, other, f"{path}[{at}]")
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
