"""How models reply: whole, or as a stream that sends its calls before the reply.

A run is recorded alike in each of these ways, but for the place of a reply among its lines.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import anyio

from handrail import Hook
from handrail.events import Event
from handrail.messages import Model, Reply, Request, StreamItem
from handrail.runs import JournalLine, RunStore
from handrail.runs._store.database import Database
from handrail.runs.journal import parse_object
from handrail.runs.lines import event_lines, reply_line
from handrail.testing import ScriptedModel

T = TypeVar("T")
Way: TypeAlias = Literal["whole", "early", "late"]
"""The reply comes whole; after its calls have ended, asked, or begun to wait for it; or at the same
time as its calls."""
WAYS: tuple[Way, ...] = ("whole", "early", "late")


def replying(way: Way, *steps: Any, seconds: float = 0.0) -> Model:
    """Return a model that says these steps in a way, and needs some seconds before each."""
    scripted = ScriptedModel(*steps, stream=False)

    async def whole(request: Request) -> Reply:
        await anyio.sleep(seconds)
        said: Any = scripted(request)
        reply: Reply = await said
        return reply

    async def stream(request: Request) -> AsyncIterator[StreamItem]:
        reply = await whole(request)
        for call in reply.calls:
            yield call
        if way == "early":
            await anyio.wait_all_tasks_blocked()
        yield reply

    return whole if way == "whole" else stream


class RunLines:
    """The lines of a run, in the order in which things happen.

    Args:
        turns: How many turns the run has when it begins.
    """

    def __init__(self, turns: int = 0) -> None:
        self.lines: list[dict[str, Any]] = []
        self.hook = Hook(observe=self._observe)
        self._turns = count(turns + 1)

    def on_event(self, event: object) -> None:
        if isinstance(event, Reply):
            self.lines.append(reply_line(0.0, event, next(self._turns)))

    def _observe(self, _key: str, _call: object, event: Event) -> None:
        self.lines += event_lines(event)


def stream_lines(way: Way, lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return lines of a run whose replies came whole, in the order that a way leads to."""
    return _move(way, list(lines), lambda line: (line["event"], line))


class StreamedJournal(RunStore):
    """A journal that gets the lines of a run with whole replies in the order of another way."""

    way: Way = "whole"

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(Database(str(path)), clock=clock)

    def append(self, run: str, lines: Iterable[JournalLine], *, after: int | None = None) -> Any:
        several = _move(self.way, list(lines), lambda line: (line.kind, parse_object(line.body)))
        return super().append(run, several, after=after)


def _move(way: Way, lines: list[T], read: Callable[[T], tuple[str, Any]]) -> list[T]:
    """Put each reply behind the lines of its calls, or behind the first two of them."""
    moved = list(lines)
    for line in lines if way != "whole" else ():
        kind, fields = read(line)
        if kind == "reply":
            at = moved.index(line)
            count = _count_calls([read(one) for one in moved[at + 1 :]], fields.get("turn"))
            moved.insert(at + (count if way == "early" else min(count, 2)), moved.pop(at))
    return moved


def _count_calls(lines: Sequence[tuple[str, Any]], turn: Any) -> int:
    """Return how many lines are about calls of a turn, up to the first that is not."""
    own = ["call_id" in fields and fields.get("turn") == turn for _, fields in lines]
    return own.index(False) if False in own else len(own)
