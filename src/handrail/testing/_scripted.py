"""A model that follows a script, and fails if a run does not use exactly its steps."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Self, TypeAlias, TypeVar

from handrail import Call, HandrailError, Text
from handrail.messages import Reply, Request

Step: TypeAlias = str | Call | Reply | Iterable[str | Call] | Callable[[Request], Reply]
"""One turn of a model: text, a call, both, a whole reply, or a function that returns one."""


_Part = TypeVar("_Part")


class OffScript(HandrailError, AssertionError):
    """A run needed more or fewer turns than the script has."""


class ScriptedModel:
    """Replies with the steps of a script, in order. As a context manager, checks that all are used.

    Arguments of calls that you give as a mapping are sent as JSON text, as real models do.
    """

    def __init__(self, *steps: Step) -> None:
        self._steps = steps
        self.requests: list[Request] = []
        """The requests that it received, in order."""

    async def __call__(self, request: Request) -> Reply:
        """Return the next step of the script as a reply."""
        turn = len(self.requests)
        if turn >= len(self._steps):
            raise OffScript(f"The run needs step {turn + 1}, but the script has only {turn}.")
        self.requests.append(request)
        return _reply(self._steps[turn], request)

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


def _reply(step: Step, request: Request) -> Reply:
    if isinstance(step, Reply) or callable(step):
        reply = step if isinstance(step, Reply) else step(request)
        return replace(reply, parts=tuple(_send(part) for part in reply.parts))
    given = [step] if isinstance(step, str | Call) else list(step)
    parts = tuple(Text(part) if isinstance(part, str) else _send(part) for part in given)
    calls = any(isinstance(part, Call) for part in parts)
    return Reply(parts, "calls" if calls else "end")


def _send(part: _Part) -> _Part:
    """Return a part of a reply as a model sends it: the arguments of a call as JSON text."""
    if isinstance(part, Call) and not isinstance(part.args, str):
        return replace(part, args=json.dumps(dict(part.args), ensure_ascii=False))
    return part
