"""Faults at every await: something happens at the nth time that a run has to wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Boom(Exception):
    """Thrown into a run, from where it waited."""


class Faulty(Generic[T]):
    """Awaits something; at its nth wait, does something first, or throws when the wait is over.

    To throw, it lets the event loop end the wait and hands on an exception in place of what the
    wait gave: as if that had failed, and with nothing left hanging in the loop.
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
