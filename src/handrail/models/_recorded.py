"""Replay model: serves replies from a file and records missing ones."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeAlias

from handrail import HandrailError, Text
from handrail._support import stream_items
from handrail.messages import (
    Delta,
    Model,
    ModelError,
    Reasoning,
    Reply,
    Request,
    StreamItem,
    model_names,
)
from handrail.models._plain import digest, first_difference, from_plain, plain_request, to_plain
from handrail.models._resilience import ModelOfModels

_VERSION = 1
_Plain: TypeAlias = dict[str, Any]
"""A value as JSON."""


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
        plain = plain_request(request)
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
        return None if entry is None else from_plain(entry["reply"])

    def add(self, request: _Plain, reply: Reply) -> None:
        """Add a reply, and save the file."""
        short = self._shorten(request, save=True)
        self._replies[_key(short)] = {"request": short, "reply": to_plain(reply)}
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
        return first_difference(self._expand(closest["request"]), request)

    def _shorten(self, request: _Plain, *, save: bool = False) -> _Plain:
        """Replace large values by their digests."""
        if save:
            large = (request["system"], request["tools"], *request["messages"])
            self._values |= {digest(value): value for value in large}
        return {
            **request,
            "system": digest(request["system"]),
            "tools": digest(request["tools"]),
            "messages": [digest(message) for message in request["messages"]],
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
