"""A model that says what a script says, and fails where the script and the run part ways."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Self, TypeAlias

from handrail import Call, HandrailError, Text
from handrail.messages import Reply, Request

Step: TypeAlias = str | Call | Reply | Iterable[str | Call] | Callable[[Request], Reply]
"""One turn of a model: words, a call, both, a whole reply, or a function that makes one."""


class OffScript(HandrailError, AssertionError):
    """A run asked for more turns than the script has, or for fewer."""


class ScriptedModel:
    """Replies with one step of its script after the other; as a context, sees that all are used."""

    def __init__(self, *steps: Step) -> None:
        self._steps = steps
        self.requests: list[Request] = []
        """What it was asked, in order."""

    async def __call__(self, request: Request) -> Reply:
        """The next step of the script."""
        turn = len(self.requests)
        if turn >= len(self._steps):
            raise OffScript(f"the script has {turn} steps, and the run asks for one more")
        self.requests.append(request)
        return _reply(self._steps[turn], request)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.check()

    def check(self) -> None:
        """Raise OffScript where steps are left."""
        left = len(self._steps) - len(self.requests)
        if left:
            raise OffScript(f"{left} of {len(self._steps)} steps of the script were not used")


def _reply(step: Step, request: Request) -> Reply:
    if isinstance(step, Reply):
        return step
    if callable(step):
        return step(request)
    given = [step] if isinstance(step, str | Call) else list(step)
    parts = tuple(Text(one) if isinstance(one, str) else one for one in given)
    calls = any(isinstance(one, Call) for one in parts)
    return Reply(parts, "calls" if calls else "end")
