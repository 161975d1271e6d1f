"""Run coroutines on asyncio or trio. The only file importing either.

Most tools end without waiting, and need no deadline. So on asyncio a coroutine is started at once,
and a timer is set only if it waits. On trio the timer comes first, since scopes must nest.
"""

from __future__ import annotations

import asyncio
import math
import sys
import threading
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import Context
from typing import Any, TypeAlias, TypeVar
from weakref import WeakKeyDictionary, ref

import anyio
import anyio.lowlevel

T = TypeVar("T")
Stop: TypeAlias = Callable[[], None]
"""Stops a waiting coroutine."""
Waits: TypeAlias = Callable[[Stop], None]
"""Receives the function to stop a coroutine, once the coroutine waits."""
running_loop = asyncio._get_running_loop  # noqa: SLF001  the documented one raises
"""Returns asyncio's running loop, or None where there is none."""


class Expired(Exception):
    """A coroutine was stopped: it timed out, or its Stop was called."""


class Escaped(Exception):
    """A coroutine raised GeneratorExit by itself, without being closed."""

    def __init__(self, error: GeneratorExit) -> None:
        super().__init__()
        self.error = error


def current_loop() -> object:
    """Return the running event loop, as something to compare with ``is``."""
    return running_loop() or trio_token()


def trio_token() -> object:
    """Return the token for trio's running loop. Code running on trio has imported it."""
    return sys.modules["trio"].lowlevel.current_trio_token()


def in_event_loop() -> bool:
    """Return whether an event loop runs in this thread."""
    try:
        anyio.get_current_task()
    except anyio.NoEventLoopError:
        return False
    return True


class LoopBinding:
    """The event loop that an executor works in, reachable from any thread."""

    loop: Any = None
    """None until it is bound."""
    token: anyio.lowlevel.EventLoopToken
    _thread: int

    def bind(self) -> None:
        """Use the running loop. Raises RuntimeError while another one is not closed."""
        if self.is_open:
            raise RuntimeError(
                "This executor is already used in another event loop. Make one executor per loop, "
                "or share one between threads: `with executor.in_thread() as run:`."
            )
        self.loop = current_loop()
        self.token = anyio.lowlevel.current_token()
        self._thread = threading.get_ident()

    @property
    def is_open(self) -> bool:
        """Whether there is a loop still running."""
        if self.loop is None or isinstance(self.loop, asyncio.AbstractEventLoop):
            return self.loop is not None and not self.loop.is_closed()
        try:
            self.loop.run_sync_soon(lambda: None)
        except RuntimeError:
            return False
        return True

    def call(self, function: Callable[[], None]) -> None:
        """Call a function in the loop's thread, from any thread. Directly if the loop has ended."""
        is_asyncio = isinstance(self.loop, asyncio.AbstractEventLoop)
        soon = self.loop.call_soon_threadsafe if is_asyncio else self.loop.run_sync_soon
        if threading.get_ident() == self._thread:
            function()
            return
        try:
            soon(function)
        except RuntimeError:  # the loop is closed, so nothing else can run at the same time
            function()


class _Noticed:
    """A coroutine for a task. Calls a function if the task is cancelled before it has begun."""

    __slots__ = ("_args", "_coroutine", "_lost")

    def __init__(
        self, coroutine: Coroutine[Any, Any, None], lost: Callable[..., None], args: Any
    ) -> None:
        self._coroutine = coroutine
        self._lost: Callable[..., None] | None = lost
        self._args = args

    def send(self, value: Any, /) -> Any:
        self._lost = None
        return self._coroutine.send(value)

    def throw(self, error: Any, /, *more: Any) -> Any:
        if self._lost is not None:
            self._lost(*self._args)
        return self._coroutine.throw(error, *more)


_coroutines: Any = Coroutine
_coroutines.register(_Noticed)  # a task needs only `send` and `throw`


def spawn(
    context: Context,
    start: Callable[..., Coroutine[Any, Any, None]],
    *args: Any,
    lost: Callable[..., None] | None = None,
) -> object:
    """Run a coroutine in a new task, in this context. Keep the returned object until it ends.

    The coroutine must not raise: nothing awaits the task. On asyncio a task can be cancelled before
    it has begun. Then only ``lost`` runs, with the same arguments.
    """
    loop = running_loop()
    if loop is not None:
        work: Any = start(*args) if lost is None else _Noticed(start(*args), lost, args)
        return loop.create_task(work, context=context)
    spawn_system_task = sys.modules["trio"].lowlevel.spawn_system_task
    task: object = spawn_system_task(start, *args, context=context)
    return task


def start(coroutine: Coroutine[Any, Any, Any], context: Context) -> tuple[bool, Any]:
    """Run a coroutine up to where it first waits, in this task but in a separate context.

    Returns True and the coroutine's value if it has ended, else False and an awaitable for
    ``finish``. On trio it is not begun yet: its deadline must be set first.
    """
    if running_loop() is None:
        return False, in_context(coroutine, context)
    task: Any = asyncio.current_task()
    requests = task.cancelling()
    rest: Awaitable[Any]
    try:
        # here, since a task or a scope costs more than most tools: decision 011
        first = context.run(coroutine.send, None)
        rest = resume(coroutine, first, context, task)
    except StopIteration as stop:
        if task.cancelling() == requests:
            return True, stop.value
        rest = _undo_cancel(task, requests, stop)
    except BaseException as error:
        if task.cancelling() == requests and not isinstance(error, GeneratorExit):
            raise
        rest = _undo_cancel(task, requests, error)
    while task.cancelling() > requests:
        task.uncancel()
    return False, rest


async def checkpoint() -> None:
    """Let other tasks run, and raise if this task was cancelled."""
    if running_loop() is not None:
        await asyncio.sleep(0)
    else:
        await anyio.lowlevel.checkpoint()


def finish(rest: Awaitable[Any], seconds: float, waits: Waits) -> Coroutine[Any, Any, Any]:
    """Await what ``start`` returned, or raise Expired. Passes a Stop to ``waits``."""
    if running_loop() is None:
        return _finish_on_trio(rest, seconds, waits)
    return _finish_on_asyncio(rest, seconds, waits)


async def _finish_on_asyncio(rest: Awaitable[Any], seconds: float, waits: Waits) -> Any:
    task: Any = asyncio.current_task()
    alarm, others, requests = _Alarm(task), _alarms_of(task.get_loop(), seconds), task.cancelling()
    others.add(alarm)
    waits(alarm.ring)
    try:
        return await rest
    except asyncio.CancelledError:
        if alarm.has_rung and task.cancelling() <= requests + 1:  # nothing else cancelled it
            raise Expired from None
        raise
    finally:
        others.remove(alarm)
        if alarm.has_rung:
            task.uncancel()


async def _finish_on_trio(rest: Awaitable[Any], seconds: float, waits: Waits) -> Any:
    trio = sys.modules["trio"]
    with trio.CancelScope(deadline=trio.current_time() + seconds) as scope:
        waits(scope.cancel)
        return await rest
    raise Expired


class _Alarm:
    """Stops a waiting asyncio task, once."""

    __slots__ = ("_task", "has_rung", "is_over")

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task: Any = ref(task)  # frees a closed loop together with its tasks
        self.has_rung = self.is_over = False

    def ring(self) -> None:
        """Stop the task where it next waits. It may not wait yet."""
        with suppress(AttributeError, RuntimeError):  # the task or its loop has ended
            self._task().get_loop().call_soon(self.expire)

    def expire(self) -> None:
        """Stop the task where it waits."""
        if not self.is_over and not self.has_rung:
            self.has_rung = True
            self._task().cancel()


class _Alarms:
    """Alarms with the same timeout. They come due in order, so one timer is enough.

    A timer for each call would cost more than the rest of the wait.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due: dict[_Alarm, float] = {}
        self._is_armed = False

    def add(self, alarm: _Alarm) -> None:
        """Let an alarm ring after the timeout."""
        loop = asyncio.get_running_loop()
        self._due[alarm] = loop.time() + self._seconds
        if not self._is_armed and self._seconds < math.inf:
            self._arm(loop, self._due[alarm])

    def remove(self, alarm: _Alarm) -> None:
        """Do not let an alarm ring any more."""
        alarm.is_over = True
        del self._due[alarm]

    def _arm(self, loop: asyncio.AbstractEventLoop, when: float) -> None:
        self._is_armed = True
        loop.call_at(when, self._ring, loop, context=Context())  # keeps no caller's context alive

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_armed = False
        now = loop.time()
        for alarm, when in self._due.items():
            if when > now:
                self._arm(loop, when)
                break
            alarm.expire()


_ALARMS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[float, _Alarms]] = WeakKeyDictionary()
"""Each loop's alarms, by their timeout in seconds."""


def _alarms_of(loop: asyncio.AbstractEventLoop, seconds: float) -> _Alarms:
    by_seconds = _ALARMS.setdefault(loop, {})
    if seconds not in by_seconds:
        by_seconds[seconds] = _Alarms(seconds)
    return by_seconds[seconds]


async def complete(coroutine: Coroutine[Any, Any, Any], seconds: float, waits: Waits) -> Any:
    """Run a coroutine to its end in this task, or raise Expired."""
    if running_loop() is None:
        return await finish(coroutine, seconds, waits)
    try:
        first = coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    except GeneratorExit as error:
        raise Escaped(error) from None
    return await finish(resume(coroutine, first, None, None), seconds, waits)


async def collect(reply: Coroutine[Any, Any, T], waits: Waits) -> T | None:
    """Await a model's reply in this task. Returns None if its Stop is called.

    If the reply has to wait, ``waits`` receives the Stop first.
    """
    value: T | None
    try:
        value = await complete(reply, math.inf, waits)
    except Expired:
        value = None
    return value


async def in_context(coroutine: Coroutine[Any, Any, T], context: Context) -> T:
    """Run a coroutine in this task, but in a separate context."""
    value: T
    try:
        first = context.run(coroutine.send, None)
    except StopIteration as stop:
        value = stop.value
    except GeneratorExit as error:
        raise Escaped(error) from None
    else:
        value = await resume(coroutine, first, context, None)
    return value


@types.coroutine
def resume(
    coroutine: Coroutine[Any, Any, Any],
    waits_for: Any,
    context: Context | None,
    task: asyncio.Task[Any] | None,
) -> Generator[Any, Any, Any]:
    """Resume a coroutine after its first wait, in its own context if any.

    With a task, the coroutine's request to cancel that task is undone: the coroutine means itself,
    and the task belongs to its caller.
    """
    while True:
        step: Callable[[Any], Any]
        argument: Any
        try:
            step, argument = coroutine.send, (yield waits_for)
        except BaseException as error:  # noqa: BLE001  passed on to the coroutine
            step, argument = coroutine.throw, error
        requests = 0 if task is None else task.cancelling()
        try:
            waits_for = step(argument) if context is None else context.run(step, argument)
        except BaseException as error:
            if argument is error and isinstance(error, GeneratorExit):
                raise  # closing this closes the coroutine
            if task is not None and task.cancelling() > requests:
                return (yield from _undo_cancel(task, requests, error).__await__())
            return _value_of(error)
        while task is not None and task.cancelling() > requests:
            task.uncancel()


def _value_of(end: BaseException) -> Any:
    """Return a coroutine's value, given its final exception."""
    if isinstance(end, StopIteration):
        return end.value
    raise Escaped(end) if isinstance(end, GeneratorExit) else end


async def _undo_cancel(task: asyncio.Task[Any], requests: int, end: BaseException) -> Any:
    """Undo a coroutine's cancellation of the task it ran in, and return its value."""
    while task.cancelling() > requests:
        task.uncancel()
    try:
        await asyncio.sleep(0)  # the cancellation is raised where the task next waits
    except asyncio.CancelledError:
        if task.cancelling() > requests:  # the task was also cancelled from outside
            raise
    return _value_of(end)


async def shield(start: Awaitable[T]) -> T:
    """Finish a start even if cancelled: halfway, it would leave things open."""
    ended: list[T] = []
    with anyio.CancelScope(shield=True):
        ended.append(await start)
    return ended[0]


def must_pass(error: BaseException) -> bool:
    """Return whether an exception is a request to stop from outside, and must be raised."""
    if isinstance(error, KeyboardInterrupt | GeneratorExit):
        return True
    if not isinstance(error, anyio.get_cancelled_exc_class()):
        return False
    task = asyncio.current_task() if running_loop() is not None else None
    return task is None or task.cancelling() > 0
