"""Invoke: run the tool, with a timeout, cancellation and retries. Always returns a result."""

from __future__ import annotations

import logging
import math
import random
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from time import monotonic, perf_counter
from typing import Any, NamedTuple, Protocol

import anyio
import anyio.from_thread
import anyio.lowlevel

from handrail._definition.tool import AnyTool, check_deps
from handrail._execution.output import Collected, render_result
from handrail._execution.running import NeedsAccess, RequestedCall, RunningCall, fail, not_begun
from handrail._execution.settings import (
    CallLimits,
    FindCredential,
    LongResults,
    find_credential,
)
from handrail._execution.threads import Thread, collect, run_in_thread
from handrail._support.loop import (
    Escaped,
    Expired,
    LoopBinding,
    complete,
    finish,
    in_event_loop,
    must_pass,
    start,
)
from handrail._turn.event_feed import Listeners
from handrail._turn.inner import InnerCalls
from handrail._turn.turn import Turn
from handrail._values.access import Access
from handrail._values.approval import Approver
from handrail._values.call import Args, Call
from handrail._values.content import Json
from handrail._values.context import Context
from handrail._values.errors import (
    Deliberate,
    NeedsLogin,
    Refused,
    Suspended,
    ToolFailed,
    Transient,
    Unknown,
    flatten,
    join_messages,
)
from handrail._values.result import FailureKind, Result, timed
from handrail.events import AttemptFailed, CredentialUsed, Progressed, Started, Yielded

log = logging.getLogger("handrail")
_MAX_BUSY_SECONDS = 0.01
"""Seconds a stream may run without letting others run."""


class World(Protocol):
    """The executor parts for running a call."""

    limits: CallLimits
    long_results: LongResults
    listeners: Listeners
    cleanups: list[Callable[[], Awaitable[None]]]
    home: LoopBinding
    credentials: FindCredential | None

    def find_approver(self, turn: Turn[Any], /) -> Approver | None:
        """Return a turn's approver, or None."""
        ...

    async def may(self, running: RunningCall, accesses: tuple[Access, ...], /) -> None:
        """Let a running call access more, or raise."""


async def invoke(world: World, running: RunningCall) -> Result:
    """Run a call, and retry it if allowed.

    Raises NeedsLogin, NeedsAccess and Suspended if the tool does, and outside cancellations.
    """
    tool: Any = running.checked.tool
    began, record = perf_counter(), running.record
    while True:
        if record.stopped:
            return result_of_stop(record)
        record.attempts += 1
        if world.listeners.feeds:
            world.listeners.emit(record, Started, record.call.id, record.attempts)
        variables = record.own_context()
        try:
            work = _start(running, tool, world)
            ended, value = start(work, variables)
            if not ended:
                seconds = tool.spec.timeout or world.limits.timeout
                value = await finish(value, seconds, record.may_wait)
            if running.collected is not None:
                value = running.collected.text()
            return render_result(record.call.id, value, tool, perf_counter() - began)
        except BaseException as error:  # noqa: BLE001  raised again if it must pass
            outcome = _handle_error(running, world, error)
        result = await _wait(running, world, outcome) if type(outcome) is NextAttempt else outcome
        if isinstance(result, Result):
            return timed(result, perf_counter() - began)


def _start(running: RunningCall, tool: AnyTool, world: World) -> Coroutine[Any, Any, Any]:
    """Return a coroutine running the tool's function, sync or async."""
    way = tool._way
    if running.record.begin is not None:
        running.record.begin.set()
    context = _context(running, tool, world) if tool.takes_context else None
    args = running.checked.parsed if running.record.attempts == 1 else _args_again(running, tool)
    if way == "async":
        coroutine: Coroutine[Any, Any, Any] = tool.invoke(args, context)
        return coroutine
    if way == "remote":
        return _send(tool, args, context)
    if way != "sync":
        most, kept = world.long_results.max_result_chars, world.long_results.max_stored_chars
        running.collected = Collected(most, kept)
    if way == "async stream":
        return _drain(running, world, tool.invoke(args, context))
    thread = running.thread = Thread()
    if running.collected is None:
        return run_in_thread(thread, tool.invoke, args, context)
    work, take = partial(tool.invoke, args, context), partial(_collect, running, world)
    return run_in_thread(thread, collect, work, take, thread.is_abandoned)


def _args_again(running: RunningCall, tool: AnyTool) -> Args:
    """Return the arguments as they were decided, even if the last attempt changed them."""
    args = running.checked.parsed
    again = tool.parse(args.text)
    return again if isinstance(again, Args) else args


async def _send(tool: AnyTool, args: Args, context: Context[Any] | None) -> Any:
    """Call a function returning an awaitable; it may raise before."""
    return await tool.invoke(args, context)


async def _drain(running: RunningCall, world: World, pieces: Any) -> None:
    paused_at = monotonic()
    async with aclosing(pieces):
        async for piece in pieces:
            _collect(running, world, piece)
            if monotonic() - paused_at > _MAX_BUSY_SECONDS:  # it must not block the event loop
                await anyio.lowlevel.checkpoint()
                paused_at = monotonic()


def _collect(running: RunningCall, world: World, piece: object) -> bool:
    """Add a result's next piece. Returns False if the call was stopped."""
    collected: Any = running.collected
    text, record = collected.write(piece), running.record
    world.listeners.emit_from_anywhere(record, Yielded, record.call.id, text)
    return not record.stopped


def _context(running: RunningCall, tool: AnyTool, world: World) -> Context[Any]:
    checked, turn, record = running.checked, running.record.turn, running.record
    if turn.deps is None:
        check_deps(tool, "`executor.turn`")

    def progress(message: str, fraction: float | None = None, /) -> None:
        world.listeners.emit_from_anywhere(record, Progressed, record.call.id, message, fraction)

    return Context(
        call_id=record.call.id,
        idempotency_key=checked.key,
        attempt=record.attempts,
        accesses=checked.accesses,
        is_approved=running.is_approved,
        run_id=turn.run_id,
        turn_id=turn.id,
        principal=turn.principal,
        deps=turn.deps,
        metadata=turn.metadata,
        progress=progress,
        on_close=world.cleanups.append,
        is_cancelled=partial(_is_cancelled, running),
        _call=_Asker(running, world),
    )


class _Asker(NamedTuple):
    """Asks for more access for a running call, makes its calls, and has its approver."""

    running: RunningCall
    world: World

    @property
    def approver(self) -> Approver | None:
        """Answers its approval requests, if anything does."""
        return self.world.find_approver(self.running.record.turn)

    async def may(self, *accesses: Access) -> None:
        """Let the tool access more, or raise."""
        await self.world.may(self.running, accesses)

    def block(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Await work of the call from its thread."""
        if in_event_loop():
            raise RuntimeError(_IN_LOOP)
        return anyio.from_thread.run(work, token=self.world.home.token)

    async def find_credential(self, name: str, context: Context[Any], refused: str, /) -> str:
        """Return the principal's credential for a service."""
        find = self.world.credentials or self.running.record.turn.options.credentials
        secret = await find_credential(find, name, context, refused)
        used = self.running.record, CredentialUsed, context.call_id, name, context.principal
        self.world.listeners.emit(*used)
        return secret

    async def run_inner(
        self, name: str, calls: Sequence[Call], tools: Sequence[Any], /, **options: Any
    ) -> list[Result]:
        """Run the tool's calls: see ``Context.turn``."""
        return await self.inner.run(name, calls, tools, **options)

    @property
    def inner(self) -> InnerCalls:
        """The calls and requests inside this call."""
        record = self.running.record
        if record.inner_calls is None:
            key = self.running.checked.key
            record.inner_calls = InnerCalls(record, record.turn, record.view, key)
        return record.inner_calls

    async def ask(self, name: str, args: Mapping[str, Json], /, *, now: bool) -> Json:
        """Ask the user to fill in a form: see ``Context.ask``."""
        return await self.inner.ask(name, args, now=now)

    def find_asked(self, name: str, /) -> Mapping[str, Json] | None:
        """Return a question's arguments from before the tool began again."""
        return self.inner.find_args(name) if self.running.record.may_repeat else None

    def find_record(self) -> str:
        """Return the text that the tool stored before it began again."""
        return self.inner.kept if self.running.record.may_repeat else ""

    async def store_record(self, text: str, /) -> bool:
        """Store what the tool needs if it begins again: see ``Context.store_record``."""
        self.inner.kept = text
        records = self.running.record.turn.options.records
        return records is not None and await records.store(self.running.checked.key, text)

    @property
    def has_begun(self) -> bool:
        """Whether the tool has made calls before it began again."""
        answered, records = self.running.record.answered, self.running.checked.turn.options.records
        was_asked = answered is not None and bool(answered[0].record)
        return was_asked or (records is not None and records.has_begun(self.running.checked.key))


_IN_LOOP = "This blocks, and is in an event loop. Write `await context.may(...)` instead."


def _is_cancelled(running: RunningCall) -> bool:
    thread = running.thread
    return running.record.stopped or (thread is not None and thread.is_abandoned())


# -- results of failed calls ---------------------------------------------------------------------


class NextAttempt(NamedTuple):
    """Another attempt follows after a wait."""

    message: str
    seconds: float


def _handle_error(running: RunningCall, world: World, error: BaseException) -> Result | NextAttempt:
    """Return the outcome for a call with a raising tool. Raises errors that must pass."""
    if isinstance(error, Expired):
        record = running.record
        return result_of_stop(record) if record.stopped else _result_of_timeout(running, world)
    if isinstance(error, Escaped):
        return result_of_bug(running, error.error)
    leaves = flatten(error)
    for leaf in leaves:
        if isinstance(leaf, KeyboardInterrupt | NeedsLogin | NeedsAccess | Suspended):
            raise leaf
    for leaf in leaves:
        if must_pass(leaf):
            raise leaf  # alone: no one handles its group's other errors
    if not all(isinstance(leaf, Deliberate) for leaf in leaves):
        return result_of_bug(running, error)
    pause = _pause(running, world, leaves)
    return (
        _result_of_deliberate(running, leaves)
        if pause is None
        else NextAttempt(join_messages(leaves), pause)
    )


def _pause(running: RunningCall, world: World, errors: list[Any]) -> float | None:
    """Return the seconds before the next attempt, or None if there is none."""
    checked, record = running.checked, running.record
    retry = checked.spec.retry or world.limits.retry
    if (
        retry is None
        or not all(isinstance(error, Transient) for error in errors)
        or not checked.is_repeatable
        or record.attempts >= retry.attempts
        or record.stopped
    ):
        return None
    wanted = [error.retry_after for error in errors if error.retry_after is not None]
    if wanted:
        return max(0.0, *wanted) if max(wanted) <= retry.cap else None
    ceiling = min(retry.cap, retry.base * 2 ** (record.attempts - 1))
    return random.uniform(0, ceiling)  # noqa: S311  so callers do not retry all at once


async def _wait(running: RunningCall, world: World, again: NextAttempt) -> Result | None:
    """Wait for the next attempt. Returns the call's result if it is stopped while waiting."""
    record = running.record
    fields = record.attempts, FailureKind.TRANSIENT, again.message, again.seconds
    world.listeners.emit(record, AttemptFailed, record.call.id, *fields)
    try:
        await complete(anyio.sleep(again.seconds), math.inf, record.may_wait)
    except Expired:
        return result_of_stop(record)
    return None


def result_of_stop(record: RequestedCall) -> Result:
    """Return a cancelled call's result."""
    running = record.running
    if running is None or not record.begun:
        return not_begun(record)
    return _report_stop(running, FailureKind.CANCELLED, "Cancelled while it ran")


def result_of_bug(running: RunningCall, error: BaseException) -> Result:
    """Return the result for a tool's unexpected exception."""
    name = running.checked.name
    log.error("the tool %r failed on call %r", name, running.record.call.id, exc_info=error)
    effect = "" if running.checked.is_repeatable else " It may have taken effect before it failed."
    message = (
        f"The tool {name!r} failed with an internal error ({type(error).__name__}).{effect} Do not "
        "repeat the same call; tell the user."
    )
    detail = "".join(traceback.format_exception(error))
    return fail(running.record, FailureKind.BUG, message, detail)


_CHECK_FIRST = "It may have taken effect: check before you call it again."
_ASK_LESS = "Ask for less at a time, or try another approach."
_DELIBERATE: dict[type[Deliberate], tuple[FailureKind, str]] = {
    Unknown: (FailureKind.UNKNOWN, f" {_CHECK_FIRST}"),
    Refused: (FailureKind.DENIED, ""),
    ToolFailed: (FailureKind.FAILED, ""),
    Transient: (
        FailureKind.TRANSIENT,
        " This may be temporary: retry later, or continue with other work.",
    ),
}
"""Each exception's kind, and the advice after its message, the most severe first."""


def _result_of_deliberate(running: RunningCall, errors: list[Any]) -> Result:
    kind, advice = next(
        meaning
        for raised, meaning in _DELIBERATE.items()
        if any(isinstance(error, raised) for error in errors)
    )
    message = join_messages(errors)
    if advice and not message.endswith((".", "!", "?")):
        message += "."
    notes = [note for error in errors for note in getattr(error, "__notes__", ())]
    return fail(running.record, kind, message + advice, "\n".join(notes))


def _result_of_timeout(running: RunningCall, world: World) -> Result:
    seconds = running.checked.spec.timeout or world.limits.timeout
    return _report_stop(running, FailureKind.TIMEOUT, f"Timed out after {seconds:g} s")


def _report_stop(running: RunningCall, kind: FailureKind, message: str) -> Result:
    """Return the result for a call stopped while running."""
    ending, advice = (" and was stopped.", _ASK_LESS) if kind is FailureKind.TIMEOUT else (".", "")
    if running.thread is not None and running.thread.is_running():
        ending = ", but is still running: calls that conflict with it wait until it ends."
    if not running.checked.is_repeatable:
        kind, advice = FailureKind.UNKNOWN, _CHECK_FIRST
    message = f"{message}{ending} {advice}".rstrip()
    if running.collected is not None and running.collected.total:
        message = f"{message}\nOutput so far:\n{running.collected.text()}"
    return fail(running.record, kind, message)
