"""Time that passes only when nobody has anything to do, on both event loops."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import anyio
import trio.testing

from handrail import CheckedCall, Decision

T = TypeVar("T")

BACKENDS = ("asyncio", "trio")
_PATIENCE = 500
"""So often may a loop go round with no time passing; then somebody spins, and time goes on."""


class Quick(NamedTuple):
    """A policy that decides in the event loop: no time would pass while a thread does."""

    policy: Callable[[CheckedCall], Decision]

    def __call__(self, call: CheckedCall) -> Decision:
        return self.policy(call)

    def is_quick(self, _call: CheckedCall) -> bool:
        return True


class _Selector(selectors.DefaultSelector):
    """Where a real one would sleep, the clock jumps instead."""

    def __init__(self, idle: float) -> None:
        super().__init__()
        self.now = 0.0
        self._idle = idle
        self.next_timer: Callable[[], float | None] = lambda: None
        self._rounds = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        waits = self._idle if timeout is None else min(self._idle, timeout)
        events = super().select(waits)
        self._rounds += 1
        if events:
            return events
        if timeout is None:
            raise RuntimeError("everybody waits, and no timer is set: this would hang for ever")
        if timeout > 0:
            self._go_on(self.now + timeout)
        elif self._rounds > _PATIENCE:
            self._go_on(self.next_timer() or self.now)
        return events

    def _go_on(self, until: float) -> None:
        self.now = max(self.now, until)
        self._rounds = 0


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop whose clock starts at zero and jumps from timer to timer."""

    def __init__(self, idle: float = 0.0) -> None:
        self._virtual = _Selector(idle)
        self._virtual.next_timer = self._next_timer
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now

    def _next_timer(self) -> float | None:
        timers: list[asyncio.TimerHandle] = self._scheduled
        return min((one.when() for one in timers if not one.cancelled()), default=None)


def run(backend: str, main: Callable[..., Awaitable[T]], *args: Any, idle: float = 0.0) -> T:
    """Run an async function in virtual time, from zero.

    With threads, say for how many real seconds nothing must have happened before time goes on.
    """
    if backend == "trio":
        options: dict[str, Any] = {"clock": trio.testing.MockClock(autojump_threshold=idle)}
    else:
        options = {"loop_factory": partial(VirtualLoop, idle)}

    async def from_zero() -> T:
        return await main(*args)

    return anyio.run(from_zero, backend=backend, backend_options=options)
