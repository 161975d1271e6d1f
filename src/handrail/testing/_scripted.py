"""A model that follows a script, and fails if a run does not use exactly its steps."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Self, TypeAlias, TypeVar

from handrail import Call, HandrailError, Text
from handrail._support.loop import checkpoint
from handrail.messages import ArgsDelta, Delta, Reasoning, Reply, Request, StreamItem, Usage

Said: TypeAlias = str | Call | Reply | Exception | Iterable[str | Call]
"""One turn of a model: text, a call, both, a whole reply, or an exception that it raises."""
Step: TypeAlias = Said | Callable[[Request], Said]
"""A turn, or a function from the request to a turn."""


_Part = TypeVar("_Part")
_WORDS = re.compile(r"\s*\S+|\s+")
_PIECES = re.compile(r".{1,16}", re.DOTALL)
_ROUNDS = 8
"""Rounds of the event loop between two pieces of a reply."""


class OffScript(HandrailError, AssertionError):
    """A run needed more or fewer turns than the script has."""


class ScriptedModel:
    """Replies with the steps of a script, in order. As a context manager, checks that all are used.

    Arguments of calls that you give as a mapping are sent as JSON text, as real models do. A step
    that is an exception is raised; use ``ModelError`` for a model that fails.

    Args:
        steps: The turns of the model.
        stream: Whether to stream each reply, as the models of providers do: text word by word, the
            arguments of each call in pieces, the call, then the reply. Before the next piece, other
            tasks run: a call can end before the next one arrives. If False, replies come whole.
        usage: The tokens of each reply that has none.
    """

    def __init__(self, *steps: Step, stream: bool = True, usage: Usage | None = None) -> None:
        self._steps = steps
        self._stream = stream
        self._usage = usage
        self.requests: list[Request] = []
        """The requests that it received, in order."""

    def __call__(self, request: Request) -> Awaitable[Reply] | AsyncIterator[StreamItem]:
        """Return the next step of the script, as a reply or as a stream."""
        return self._pieces(request) if self._stream else self._whole(request)

    async def _whole(self, request: Request) -> Reply:
        return self._next(request)

    async def _pieces(self, request: Request) -> AsyncIterator[StreamItem]:
        reply = self._next(request)
        for part in reply.parts:
            for piece in _split(part):
                yield piece
                await _let_others_run()
        yield reply

    def _next(self, request: Request) -> Reply:
        turn = len(self.requests)
        if turn >= len(self._steps):
            raise OffScript(f"The run needs step {turn + 1}, but the script has only {turn}.")
        self.requests.append(request)
        reply = _reply(self._steps[turn], request)
        return replace(reply, usage=self._usage) if self._usage and not reply.usage.total else reply

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.check()

    def check(self) -> None:
        """Raise OffScript if steps were not used."""
        left = len(self._steps) - len(self.requests)
        if left:
            raise OffScript(f"{left} of {len(self._steps)} steps of the script were not used.")


def _split(part: object) -> list[StreamItem]:
    """Return a part of a reply in the pieces in which a provider sends it."""
    if isinstance(part, Call):
        texts = _PIECES.findall(str(part.args))  # JSON text: see _send
        return [*[ArgsDelta(part.id, part.name, text) for text in texts], part]
    if isinstance(part, Text | Reasoning):
        thought = isinstance(part, Reasoning)
        return [Delta(word, thought) for word in _WORDS.findall(part.text)]
    return []


async def _let_others_run() -> None:
    """Let other tasks run for a few rounds of the event loop."""
    for _ in range(_ROUNDS):
        await checkpoint()


def _reply(step: Step, request: Request) -> Reply:
    said = step(request) if callable(step) else step
    if isinstance(said, Exception):
        raise said
    if isinstance(said, Reply):
        return replace(said, parts=tuple(_send(part) for part in said.parts))
    given = [said] if isinstance(said, str | Call) else list(said)
    parts = tuple(Text(part) if isinstance(part, str) else _send(part) for part in given)
    calls = any(isinstance(part, Call) for part in parts)
    return Reply(parts, "calls" if calls else "end")


def _send(part: _Part) -> _Part:
    """Return a part of a reply as a model sends it: the arguments of a call as JSON text."""
    if isinstance(part, Call) and not isinstance(part.args, str):
        return replace(part, args=json.dumps(dict(part.args), ensure_ascii=False))
    return part
