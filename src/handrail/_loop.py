"""Running coroutines with a deadline, on either event loop. The only file that knows asyncio.

anyio serves both loops, but its cancel scopes and task groups cost five times what asyncio's own
do, and most tools end without waiting for anything. So on asyncio a coroutine is started at once,
and only if it waits is a timer set; elsewhere anyio does it.
"""

from __future__ import annotations

import asyncio
import math
import types
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any, TypeAlias, TypeVar

import anyio

T = TypeVar("T")
Stop: TypeAlias = Callable[[], None]
"""Stops a coroutine that waits."""
Spawn: TypeAlias = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
"""Starts a coroutine beside the others of its group."""


class Expired(Exception):
    """A coroutine was stopped: its time was over, or somebody called its Stop."""


def on_asyncio() -> bool:
    """Whether the running event loop is asyncio's."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def finish(
    coroutine: Coroutine[Any, Any, Any], seconds: float, waits: Callable[[Stop], None]
) -> Any:
    """Run a coroutine to its end, or raise Expired; if it has to wait, ``waits`` is told first."""
    if not on_asyncio():
        return await _finish_anywhere(coroutine, seconds, waits)
    scope = copy_context()
    try:
        first = scope.run(coroutine.send, None)
    except StopIteration as stop:
        return stop.value
    return await _timed(resumed(coroutine, first, scope), seconds, waits)


async def hear(said: Coroutine[Any, Any, T], waits: Callable[[Stop], None]) -> T | None:
    """Await what a model says where it stands; None once somebody calls its Stop.

    If it has to wait, ``waits`` is told the Stop first.
    """
    heard: T | None
    try:
        if not on_asyncio():
            heard = await _finish_anywhere(said, math.inf, waits)
        else:
            heard = await _timed(resumed(said, said.send(None), None), None, waits)
    except StopIteration as stop:
        heard = stop.value
    except Expired:
        heard = None
    return heard


async def _timed(rest: Awaitable[Any], seconds: float | None, waits: Callable[[Stop], None]) -> Any:
    timer = asyncio.timeout(seconds)
    try:
        async with timer:
            waits(partial(_ring, timer, asyncio.get_running_loop()))
            return await rest
    except TimeoutError:
        if timer.expired():
            raise Expired from None
        raise


def _ring(timer: asyncio.Timeout, loop: asyncio.AbstractEventLoop) -> None:
    with suppress(RuntimeError):  # it rings already
        timer.reschedule(loop.time())


async def _finish_anywhere(
    coroutine: Coroutine[Any, Any, Any], seconds: float, waits: Callable[[Stop], None]
) -> Any:
    with anyio.CancelScope(deadline=anyio.current_time() + seconds) as scope:
        waits(scope.cancel)
        return await coroutine
    raise Expired


@types.coroutine
def resumed(
    coroutine: Coroutine[Any, Any, Any], waits_for: Any, scope: Context | None
) -> Generator[Any, Any, Any]:
    """Go on with a coroutine that has run up to where it first waits, in its own context if any."""
    while True:
        step: Callable[[Any], Any]
        argument: Any
        try:
            step, argument = coroutine.send, (yield waits_for)
        except BaseException as error:  # noqa: BLE001  whatever is thrown in is the coroutine's
            step, argument = coroutine.throw, error
        try:
            waits_for = step(argument) if scope is None else scope.run(step, argument)
        except StopIteration as stop:
            return stop.value


@asynccontextmanager
async def group() -> AsyncGenerator[Spawn]:
    """Run coroutines side by side; leaving it waits for all of them."""
    if on_asyncio():
        async with asyncio.TaskGroup() as tasks:
            yield lambda start: _keep(tasks.create_task(start()))
    else:
        async with anyio.create_task_group() as others:
            yield lambda start: _keep(others.start_soon(start))


def _keep(_task: object) -> None:
    """The group keeps its tasks; nobody else needs them."""


@asynccontextmanager
async def closed_after(given: AsyncIterable[Any]) -> AsyncGenerator[None]:
    """Whatever happens, close what was given, if it can be closed."""
    try:
        yield
    finally:
        if isinstance(given, AsyncGenerator):
            await given.aclose()


def is_cancelled() -> bool:
    """Whether a scope around the running task was cancelled, and it just has not noticed yet."""
    return not on_asyncio() and anyio.current_effective_deadline() == -math.inf


def must_pass(error: BaseException) -> bool:
    """Whether an exception is a wish to stop from outside, rather than somebody's own fault."""
    if isinstance(error, KeyboardInterrupt | GeneratorExit):
        return True
    if not isinstance(error, anyio.get_cancelled_exc_class()):
        return False
    task = asyncio.current_task() if on_asyncio() else None
    return task is None or task.cancelling() > 0
