"""Invoke: the only stage that touches the world. Deadline, stop, retry, a result in any case."""

from __future__ import annotations

import inspect
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing, closing, suppress
from functools import partial
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread

from handrail._call import Args
from handrail._context import Context
from handrail._decision import Ask
from handrail._errors import Deliberate, Refused, ToolFailed, Transient
from handrail._event import AttemptFailed, Event, Progressed, Started
from handrail._loop import Expired, Stop, finish, must_pass
from handrail._output import Collected, rendered
from handrail._pending import Pending
from handrail._preflight import Ready
from handrail._result import Kind, Result
from handrail._retry import may_repeat, pause, too_long
from handrail._spec import Retry

_BREATH = 0.01
"""Seconds that a stream may run without letting others run."""


class Limits:
    """What an executor allows a call where its tool says nothing."""

    __slots__ = ("endings", "max_chars", "retry", "stored", "threads", "timeout")

    def __init__(self, *, timeout: float, retry: Retry | None, max_chars: int, stored: int) -> None:
        self.timeout = timeout
        self.retry = retry
        self.max_chars = max_chars
        self.stored = stored
        # The schedule bounds how many calls run; anyio's own limit would be a second, lower one.
        self.threads = anyio.CapacityLimiter(float("inf"))
        self.endings: list[Callable[[], Awaitable[None]]] = []
        """How to end what calls have left running on purpose."""


class Flight:
    """One call on its way: what it is, how to stop it, what it has said so far."""

    __slots__ = (
        "asked",
        "begun",
        "boarded",
        "chain",
        "clock",
        "collected",
        "emit",
        "key",
        "linger",
        "put_off",
        "ready",
        "started",
        "stop",
        "stopped",
        "token",
        "tried",
        "waits",
    )

    def __init__(
        self, key: int, ready: Ready, emit: Callable[[Event], None], clock: Callable[[], float]
    ) -> None:
        self.key = key
        self.ready = ready
        self.emit = emit
        self.clock = clock
        self.begun = False
        self.waits = False
        """Whether it had to wait for another call when it came."""
        self.boarded = False
        """Whether a task of its own sees to it, and will see that it was stopped."""
        self.stopped = False
        """Whether somebody asked for it to stop."""
        self.asked: Ask | None = None
        """The question that was put about it."""
        self.chain = ""
        """What its questions have in common, where it has waited for an answer before."""
        self.put_off: Pending | None = None
        """The question that somebody will answer later."""
        self.stop: Stop | None = None
        self.collected: Collected | None = None
        self.linger: Linger | None = None
        self.tried = False
        """Whether it was given its arguments."""
        self.token = ""
        """Its idempotency key."""
        self.started: Coroutine[Any, Any, Any] | None = None
        """Its first attempt, where that has begun already."""

    def args(self) -> Args:
        """The arguments for the next attempt: as they were judged, whatever the last one did."""
        first, self.tried = not self.tried, True
        again = None if first else self.ready.tool.parse(self.ready.args.text)
        return again if isinstance(again, Args) else self.ready.args

    def cancel(self) -> None:
        """Stop it, wherever it is."""
        self.stopped = True
        if self.stop is not None:
            self.stop()

    def may_wait(self, stop: Stop) -> None:
        """It has to wait: from here on it can be stopped."""
        self.stop = stop
        if self.stopped:
            stop()


class Linger:
    """The work of a thread, which may outlive its call: Python cannot stop one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun = False
        self._ended = False
        self._called_off = False
        self._left: Callable[[], None] | None = None

    def run(self, work: Callable[[], tuple[Any]]) -> tuple[Any]:
        """Do the work, in the thread; unless it was called off before it began."""
        with self._lock:
            self._begun = not self._called_off
        if not self._begun:
            return (None,)
        try:
            return work()
        finally:
            self._end()

    def abandon(self, when_it_ends: Callable[[], None]) -> bool:
        """Leave the work behind, if it is being done; then it says itself when it ends."""
        with self._lock:
            self._called_off = not self._begun
            if self._begun and not self._ended:
                self._left = when_it_ends
            return self._left is not None

    @property
    def abandoned(self) -> bool:
        """Whether nobody waits for the work any more."""
        return self._left is not None

    @property
    def running(self) -> bool:
        """Whether the thread is at it."""
        with self._lock:
            return self._begun and not self._ended

    def _end(self) -> None:
        with self._lock:
            self._ended = True
        if self._left is None:
            return
        try:
            anyio.from_thread.run_sync(self._left)
        except RuntimeError:  # the event loop is gone, and so is everybody who could be disturbed
            self._left()


async def invoke(flight: Flight, limits: Limits) -> Result:
    """Run a call, again where that is allowed and helps. Only a stop from outside raises."""
    spec = flight.ready.tool.spec
    seconds = spec.timeout if spec.timeout is not None else limits.timeout
    retry = spec.retry or limits.retry
    attempts = retry.attempts if retry is not None and may_repeat(spec) else 1
    attempt = 1
    while True:
        try:
            return await _attempt(flight, limits, attempt, seconds)
        except Transient as error:
            hopeless = attempt >= attempts or flight.stopped
            if retry is None or hopeless or too_long(retry, error.retry_after):
                return _deliberate(flight, error)
            again_in = pause(retry, attempt, error.retry_after)
            failed = flight.ready.call.id, attempt, Kind.TRANSIENT, _words(error), again_in
            flight.emit(AttemptFailed(flight.clock(), *failed))
        try:
            await finish(anyio.sleep(again_in), again_in + seconds, flight.may_wait)
        except Expired:
            return stopped(flight)
        attempt += 1


async def _attempt(flight: Flight, limits: Limits, attempt: int, seconds: float) -> Result:
    ready = flight.ready
    flight.begun = True
    flight.emit(Started(flight.clock(), ready.call.id, attempt))
    coroutine, flight.started = flight.started or _called(flight, limits, attempt), None
    try:
        value = await finish(coroutine, seconds, flight.may_wait)
    except Expired:
        return stopped(flight) if flight.stopped else _expired(flight, seconds)
    except Transient:
        raise
    except (Refused, ToolFailed) as error:
        return _deliberate(flight, error)
    except BaseException as error:
        if must_pass(error):
            raise
        return broken(flight, error)
    if flight.collected is not None:
        value = flight.collected.text()
    return rendered(ready.call.id, value, ready.tool)


def _called(flight: Flight, limits: Limits, attempt: int) -> Coroutine[Any, Any, Any]:
    """The coroutine that runs the tool's function, whatever kind of function it is."""
    ready = flight.ready
    way = ready.tool._way  # noqa: SLF001  the executor's own face of a tool
    linger = Linger()
    flight.linger = None if way.startswith("async") else linger
    context = _context(flight, attempt, limits)
    if way == "async":
        made: Coroutine[Any, Any, Any] = ready.tool.invoke(flight.args(), context)
        return made
    if way != "sync":
        flight.collected = Collected(limits.max_chars, limits.stored)
    if way == "async stream":
        return _drained(ready.tool.invoke(flight.args(), context), flight.collected)
    return _in_thread(limits, partial(linger.run, partial(_work, flight, linger, context)))


async def _drained(pieces: Any, into: Collected | None) -> None:
    breath = time.monotonic()
    async with aclosing(pieces):
        async for piece in pieces:
            into.write(piece)  # type: ignore[union-attr]
            if time.monotonic() - breath > _BREATH:  # one that never waits must not stop the loop
                await anyio.lowlevel.checkpoint()
                breath = time.monotonic()


def _work(flight: Flight, linger: Linger, context: Context | None) -> tuple[Any]:
    """What the thread does; boxed, since what a function gives may be anything, a coroutine too."""
    given = flight.ready.tool.invoke(flight.args(), context)
    if flight.collected is None:
        return (given,)
    with closing(given):
        for piece in given:
            flight.collected.write(piece)
            if flight.stopped or linger.abandoned:
                break  # a thread cannot be stopped, but one that yields can be asked
    return (None,)


async def _in_thread(limits: Limits, work: Callable[[], tuple[Any]]) -> Any:
    boxed = await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limits.threads)
    return await boxed[0] if inspect.isawaitable(boxed[0]) else boxed[0]


def _context(flight: Flight, attempt: int, limits: Limits) -> Context | None:
    if not flight.ready.tool.takes_context:
        return None
    call_id = flight.ready.call.id

    def tell(words: str) -> None:
        flight.emit(Progressed(flight.clock(), call_id, words))

    loop, home = anyio.lowlevel.current_token(), threading.get_ident()

    def progress(words: str) -> None:
        if threading.get_ident() == home:
            tell(words)
        else:  # from a thread, listeners may only be told through the event loop
            anyio.from_thread.run_sync(tell, words, token=loop)

    return Context(
        call_id=call_id,
        idempotency_key=flight.token,
        attempt=attempt,
        accesses=flight.ready.accesses,
        progress=progress,
        at_close=limits.endings.append,
    )


async def all_over(limits: Limits, seconds: float) -> None:
    """End what calls have left running, the latest first; whether or not another one fails."""
    while limits.endings:
        with anyio.move_on_after(seconds), suppress(Exception):
            await limits.endings.pop()()


def stopped(flight: Flight) -> Result:
    """The result of a call that somebody stopped."""
    call = flight.ready.call
    if not flight.begun:
        return Result.fail(call.id, Kind.CANCELLED, _NOT_BEGUN)
    kind, unsure = _after_the_fact(flight, Kind.CANCELLED)
    return _with_output(flight, kind, f"The call was cancelled while it ran.{unsure}")


def broken(flight: Flight, error: BaseException) -> Result:
    """The result of a call whose tool raised what it did not mean to."""
    tool = flight.ready.tool
    lasting = "" if may_repeat(tool.spec) else " It may have had an effect before it broke."
    message = (
        f"The tool {tool.spec.name!r} broke ({type(error).__name__}). This is not your fault, and "
        f"calling it again in the same way will not help.{lasting} Go about it another way, or "
        "tell the user."
    )
    detail = "".join(traceback.format_exception(error))
    return Result.fail(flight.ready.call.id, Kind.BUG, message, detail)


_DELIBERATE: dict[type[Deliberate], tuple[Kind, str]] = {
    ToolFailed: (Kind.FAILED, ""),
    Refused: (Kind.DENIED, " The tool refuses this: go about it another way."),
    Transient: (Kind.TRANSIENT, " It may work later: wait, or do something else first."),
}


def _deliberate(flight: Flight, error: Deliberate) -> Result:
    kind, advice = next(words for one, words in _DELIBERATE.items() if isinstance(error, one))
    words = _words(error)
    if advice and not words.endswith((".", "!", "?")):
        words += "."
    return Result.fail(flight.ready.call.id, kind, words + advice)


def _words(error: Deliberate) -> str:
    try:
        return str(error) or "It did not work."
    except Exception:  # noqa: BLE001  its own code
        return "It did not work."


def _expired(flight: Flight, seconds: float) -> Result:
    kind, unsure = _after_the_fact(flight, Kind.TIMEOUT)
    advice = unsure or " Ask for less at a time, or go about it another way."
    name = flight.ready.tool.spec.name
    said = f"The tool {name!r} did not finish within {seconds:g} seconds and was stopped."
    return _with_output(flight, kind, said + advice)


_NOT_BEGUN = "The call was cancelled before it started. Nothing was run."


def _after_the_fact(flight: Flight, kind: Kind) -> tuple[Kind, str]:
    """What is known of a call that was stopped while it ran."""
    if may_repeat(flight.ready.tool.spec):
        return kind, ""
    return Kind.UNKNOWN, (
        " It is not known whether it had its effect: check that first, and do not simply call it "
        "again."
    )


def _with_output(flight: Flight, kind: Kind, message: str) -> Result:
    if flight.linger is not None and flight.linger.running:
        message += " It is still running; what touches the same waits until it ends."
    if flight.collected is not None and flight.collected.total:
        message = f"{message}\nWhat it had said by then:\n{flight.collected.text()}"
    return Result.fail(flight.ready.call.id, kind, message)
