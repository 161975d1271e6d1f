"""Run plain functions in threads, which Python cannot stop."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from contextlib import ExitStack, closing, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Self, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread
from anyio.from_thread import BlockingPortal, start_blocking_portal

from handrail._support.loop import Escaped, LoopBinding, current_loop, in_event_loop
from handrail._turn.turn import Turn
from handrail._values.call import Call
from handrail._values.result import Result

T = TypeVar("T")
_COUNT: ContextVar[Callable[[int], object]] = ContextVar("handrail_threads", default=int)
"""Gets 1 for each new thread, and -1 for each ended one."""


@contextmanager
def count_threads(count: Callable[[int], object]) -> Generator[None]:
    """Count the threads of the calls that are made inside: see ``Executor.count_threads``."""
    token = _COUNT.set(count)
    try:
        yield
    finally:
        _COUNT.reset(token)


class Thread:
    """A thread's work, which can outlive its call."""

    def __init__(self) -> None:
        self._count = _COUNT.get()
        self._count(1)
        self._lock = threading.Lock()
        self._is_called_off = False
        self._has_begun = False
        self.has_ended = False
        self._when_it_ends: Callable[[], None] | None = None

    def run(self, work: Callable[..., Any], *args: Any) -> tuple[Any]:
        """Do the work in the thread, unless it was called off before.

        Returns the value in a tuple, since it may be anything, also a coroutine.
        """
        with self._lock:
            self._has_begun = not self._is_called_off
        if not self._has_begun:
            return (None,)
        try:
            return (work(*args),)
        except GeneratorExit as error:  # asyncio would treat it as a request to end the task
            raise Escaped(error) from None
        finally:
            with self._lock:
                self.has_ended = True
            self._count(-1)
            if self._when_it_ends is not None:
                self._when_it_ends()

    def abandon(self, when_it_ends: Callable[[], None]) -> bool:
        """Abandon the work. Returns True if it is running; then it calls ``when_it_ends``."""
        with self._lock:
            if not self._has_begun and not self._is_called_off:
                self._is_called_off = True
                self._count(-1)
            if self._has_begun and not self.has_ended:
                self._when_it_ends = when_it_ends
            return self._when_it_ends is not None

    def is_abandoned(self) -> bool:
        """Return whether the work was abandoned while it ran."""
        return self._when_it_ends is not None

    def is_running(self) -> bool:
        """Return whether the work is running."""
        with self._lock:
            return self._has_begun and not self.has_ended


class _Unlimited(anyio.CapacityLimiter):
    """Allows any number of threads: the schedule limits how many calls run.

    A real limiter costs half as much as starting work in a thread.
    """

    def __new__(cls) -> Self:
        return object.__new__(cls)

    async def __aenter__(self) -> None:  # anyio calls it on asyncio
        ...

    async def __aexit__(self, *error: object) -> None: ...

    async def acquire_on_behalf_of(self, borrower: object) -> None:  # trio calls it
        ...

    def release_on_behalf_of(self, borrower: object) -> None: ...


_UNLIMITED = _Unlimited()


async def run_in_thread(thread: Thread, work: Callable[..., Any], *args: Any) -> Any:
    """Do the work in a thread, and await an awaitable value."""
    (value,) = await anyio.to_thread.run_sync(
        thread.run, work, *args, abandon_on_cancel=True, limiter=_UNLIMITED
    )
    return await value if inspect.isawaitable(value) else value


def collect(
    work: Callable[[], Any], take: Callable[[object], bool], is_abandoned: Callable[[], bool]
) -> None:
    """Pass on what a generator yields, until ``take`` returns False or the work is abandoned."""
    with closing(work()) as pieces:
        for piece in pieces:
            if not take(piece) or is_abandoned():
                break  # a thread cannot be stopped, except where it yields


class SharedPortal:
    """One event loop in a separate thread, for as long as it has users."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._loop: object = None

    def owns(self, loop: object) -> bool:
        """Return whether an event loop is the portal's, which may be closing."""
        return loop is self._loop

    @contextmanager
    def open(self) -> Generator[BlockingPortal]:
        """Use the loop. The first user starts it, and the last one closes it."""
        with self._lock:
            if not self._users:
                self._portal = self._stack.enter_context(start_blocking_portal())
                self._loop = self._portal.call(current_loop)
            self._users += 1
            portal: Any = self._portal
        with ExitStack() as leaving:
            leaving.push(self._leave)
            yield portal

    def run(self, home: LoopBinding, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a function in an executor's event loop, or in this one if no loop is open."""
        if in_event_loop():
            raise RuntimeError(
                "run_sync was called in an event loop. Use `await executor.run(call)`."
            )
        if home.is_open and not self.owns(home.loop):
            return anyio.from_thread.run(function, token=home.token)
        with self.open() as portal:
            return wait_for(portal, function)

    @contextmanager
    def share(self, executor: Any) -> Generator[InThread]:
        """Enter an executor in this loop, so any thread can run its calls."""
        with self.open() as portal, portal.wrap_async_context_manager(executor):
            yield InThread(portal, executor.run, executor.run_all)

    def _leave(self, kind: type[BaseException] | None, error: Any, trace: Any) -> None:
        """Remove a user. If the last one was interrupted, its call is stopped."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._stack.__exit__(kind, error, trace)


def wait_for(portal: BlockingPortal, function: Callable[[], Awaitable[T]]) -> T:
    """Run a function in an event loop and wait for it. Interrupting this thread stops it."""
    future = portal.start_task_soon(function)
    try:
        return future.result()
    finally:
        future.cancel()  # does nothing unless this thread was interrupted


class InThread:
    """Runs calls from any thread in one event loop, so they share order and limits."""

    def __init__(
        self,
        portal: BlockingPortal,
        run: Callable[..., Awaitable[Result]],
        run_all: Callable[..., Awaitable[list[Result]]],
    ) -> None:
        self._portal = portal
        self._run = run
        self._run_all = run_all

    def __call__(self, call: Call, *, turn: Turn[Any] | None = None) -> Result:
        """Run one call."""
        return wait_for(self._portal, partial(self._run, call, turn=turn))

    def run_all(self, calls: Iterable[Call], *, turn: Turn[Any] | None = None) -> list[Result]:
        """Run one reply's calls."""
        return wait_for(self._portal, partial(self._run_all, list(calls), turn=turn))
