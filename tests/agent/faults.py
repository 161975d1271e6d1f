"""Inject faults at every await and every tick of the event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

import anyio
import anyio.lowlevel

T = TypeVar("T")


class Boom(Exception):
    """An exception that is raised in a run at an await."""


class Faulty(Generic[T]):
    """Awaits something. At its nth wait, it does something first, or raises after the wait.

    To raise, it lets the event loop end the wait and passes an exception instead of the result.
    The wait then seems to have failed, and nothing stays open in the loop.
    """

    def __init__(
        self, awaited: Awaitable[T], at: int, *, first: Callable[[], None] | None = None
    ) -> None:
        self._awaited = awaited
        self._at = at
        self._first = first
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, T]:
        inside = self._awaited.__await__()
        step: Callable[[Any], Any] = inside.send
        given: Any = None
        while True:
            try:
                wanted = step(given)
            except StopIteration as stop:
                ended: T = stop.value
                return ended
            self.waits += 1
            now = self.waits == self._at
            if now and self._first is not None:
                self._first()
            try:
                given = yield wanted
                step = inside.send
                if now and self._first is None:
                    step, given = inside.throw, Boom()
            except BaseException as error:  # noqa: BLE001  what is awaited is to see it
                step, given = inside.throw, error


async def at_tick(awaited: Awaitable[object], at: int, fault: Callable[[], None] | None) -> bool:
    """Await something. At the nth tick of the event loop, do something or cancel it.

    Its calls run in separate tasks, so there are more ticks than awaits.
    Returns whether there was an nth tick.
    """
    met = False

    async def tick(fault: Callable[[], None]) -> None:
        nonlocal met
        for _ in range(at):
            await anyio.lowlevel.checkpoint()
        met = True
        fault()

    async with anyio.create_task_group() as group:
        with anyio.CancelScope() as scope:
            group.start_soon(tick, fault or scope.cancel)
            await awaited
        group.cancel_scope.cancel()
    return met
