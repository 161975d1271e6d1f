"""A batch: the calls of one turn, and the first step of those in the fast lane."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, NoReturn, TypeAlias

import anyio

from handrail._access import Access
from handrail._call import Call, unmended
from handrail._decision import Decision
from handrail._invoke import Flight
from handrail._lane import Lane
from handrail._loop import Spawn, resumed
from handrail._pending import Pending
from handrail._policy import ALLOW
from handrail._preflight import Ready
from handrail._result import Result

Glide: TypeAlias = tuple[int, int, Call, Lane, dict[str, Any], Decision]
"""A call in the fast lane: its place in the batch, its key, what it is, what it was given, and the
decision that lets it run."""


def _nowhere(_start: object) -> None:
    """Where a single call that has begun starts others: it has none."""


class Batch:
    """The calls of one turn: where their outcomes go, and how their tasks are started."""

    def __init__(self) -> None:
        self.spawn: Spawn = _nowhere
        self.calls: list[Call] = []
        self.outcomes: dict[int, Result] = {}
        self.held: list[int] = []
        """Those that wait for the batch to be complete."""
        self.flights: dict[int, tuple[int, Flight]] = {}
        """By key, until it ends: the place in the batch, and the flight."""
        self.all_ended: anyio.Event | None = None
        self.gliding: dict[int, Glide] = {}
        """By place: calls in the fast lane whose task has not begun."""
        self.closing = False
        """Whether it was cancelled from outside: nothing of it may start any more."""
        self.waiting: list[tuple[int, Pending]] = []
        """Those that were put off until somebody answers, or until one of these is answered; each
        with its place."""
        self.gone: list[str] = []
        """Those that were cancelled from outside, by what their questions have in common."""
        self.taken_up: set[str] = set()
        """Those that waited and were taken up in this batch."""
        self.stopped: set[int] = set()
        """Those of ``gliding`` that somebody stopped."""

    def before(self, place: int, accesses: tuple[Access, ...]) -> tuple[str, ...]:
        """Those that were put off, come first, and touch the same."""
        return tuple(
            one.chain
            for other, one in self.waiting
            if other < place
            and any(mine.conflicts(its) for mine in accesses for its in one.accesses)
        )


class Begun(NamedTuple):
    """A coroutine's first step: the value it ended with, or what is left of it."""

    value: Any
    started: Any = None


def begun(fn: Callable[..., Coroutine[Any, Any, Any]], values: dict[str, Any]) -> Begun:
    coroutine = fn(**values)
    try:
        # a task of its own has a context of its own
        return Begun(None, resumed(coroutine, coroutine.send(None), None))
    except StopIteration as stop:
        return Begun(stop.value)
    except BaseException as error:  # noqa: BLE001  told in the same words as any other
        return Begun(None, raised(error))


def ready_in(call: Call, lane: Lane, values: dict[str, Any], decision: Decision = ALLOW) -> Ready:
    return Ready(call, lane.tool, unmended(values, str(call.args)), lane.accesses, decision)


async def raised(error: BaseException) -> NoReturn:
    """A coroutine that ends as its tool did."""
    raise error
