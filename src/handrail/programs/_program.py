"""One program: it runs to its next wait, makes its calls, and resumes with their results."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from time import perf_counter, time
from typing import Any, NamedTuple

import anyio

from handrail import READ, Call, Context, FailureKind, Result, Transient, tool
from handrail._support.loop import LoopBinding
from handrail.programs._checking import ProgramText, mark_line, read_findings, read_source
from handrail.programs._monty import (
    Crashed,
    Ended,
    Rejected,
    Session,
    Settings,
    Step,
    Stopped,
    Waits,
)
from handrail.programs._outcomes import RanCall, bind_args, to_outcome
from handrail.programs._report import (
    Printed,
    describe_end,
    describe_failure,
    describe_refusal,
    find_media,
    make_result,
)
from handrail.programs._stubs import Function
from handrail.programs._threads import THREADS
from handrail.sources import HAS_READ

_MAX_CHECKED = 1_000
"""Checked programs, which need no second check."""
_MAX_STARTS = 2
"""How often a program begins again in a row after its worker was lost."""
_MAX_CHECK_SECONDS = 10.0
"""The type check itself has no limit: some short programs take it forever."""
_checked: OrderedDict[bytes, None] = OrderedDict()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramLimits:
    """One program's resources."""

    calls: int = 100
    """Function calls."""
    seconds: float = 600.0
    """Seconds for the program and its calls together, without the time people take."""
    cpu_seconds: float = 5.0
    """Seconds of computing between two calls."""
    memory: int = 64_000_000
    """Bytes."""
    result_chars: int = 8_000_000
    """Characters in all results together."""
    args_chars: int = 8_000_000
    """Characters in all arguments together."""
    printed_chars: int = 4_000
    """Characters the model reads from what it prints."""


class ProgramFunctions(NamedTuple):
    """The functions programs can call."""

    functions: Mapping[str, Function]
    stubs: str
    """The functions for the type check."""
    prelude: str
    """The code defining them."""
    limits: ProgramLimits
    tools: tuple[Any, ...]
    """Their tools: names of the executor's, or own ones."""


class _Round(NamedTuple):
    """Calls a program waited for, and what it got."""

    calls: Waits
    outcomes: Mapping[int, Any]


class Program:
    """One program run."""

    def __init__(self, offer: ProgramFunctions, text: str, context: Context) -> None:
        self._offer = offer
        self._context = context
        self._source: ProgramText = read_source(text, offer.functions)
        self._printed = Printed(offer.limits.printed_chars)
        self._rounds: list[_Round] = []
        self._ran: list[RanCall] = []
        self._seconds = 0.0
        self._read = 0
        self._session: Session | None = None
        self._home = LoopBinding()
        self._now = _EPOCH

    async def run(self) -> Result:
        """Run the program, and return its value or its error. Raises Suspended if a call waits."""
        if self._source.uses_time and not self._source.problems:
            self._now = await self._find_time()
        self._home.bind()
        try:
            ended = await self._run_to_end()
        except _NotBegun as error:
            return Result.fail(self._context.call_id, FailureKind.BAD_ARGS, str(error))
        except _Failed as error:
            failed = Result.fail(self._context.call_id, FailureKind.FAILED, str(error))
            return failed._replace(metadata={HAS_READ: True} if self._ran else {})
        finally:
            if self._session is not None:
                self._session.close()
        unknown = [one for one in self._ran if _is_unknown(one.result)]
        text = describe_end(ended.value, self._printed.text, ended.dropped, unknown)
        return make_result(self._context.call_id, text, find_media(ended.value, self._ran))

    async def _run_to_end(self) -> Ended:
        step = await self._begin()
        while isinstance(step, Waits):
            outcomes = await self._call(step)
            self._rounds.append(_Round(step, outcomes))
            step = await self._go_on(outcomes)
        if isinstance(step, Ended):
            return step
        assert isinstance(step, Stopped)  # noqa: S101  the only one left
        raise self._fail(step.error)

    async def _begin(self) -> Step:
        """Check the program, and run it to its first wait. Raises _NotBegun."""
        if self._source.problems:
            raise _NotBegun(describe_refusal(self._source.problems))
        step: Step
        key = blake2b(f"{self._source.code}\0{self._offer.stubs}".encode()).digest()
        is_checked = key in _checked
        self._session = session = self._make_session(None if is_checked else self._offer.stubs)
        try:
            if is_checked:
                step = await self._step(session.start, retry=True)
            else:
                step = await self._check(session)
        except Crashed:
            step = await self._begin_again()
        if isinstance(step, Rejected):
            problems = read_findings(step.findings, self._offer.functions, self._source.framed)
            if problems and not self._context.has_begun:
                raise _NotBegun(describe_refusal(problems))
            step = await self._step(session.start_unchecked)
            if problems:  # the same program is refused if it is new
                return step
        _checked[key] = None
        while len(_checked) > _MAX_CHECKED:
            _checked.popitem(last=False)
        return step

    async def _check(self, session: Session) -> Step:
        """Check the types, and run to the first wait."""
        await self._step(session.open)
        with anyio.move_on_after(_MAX_CHECK_SECONDS + self._offer.limits.cpu_seconds):
            step: Step = await self._step(session.start, retry=True)
            return step
        raise _NotBegun(describe_refusal([_ENDLESS]))

    async def _go_on(self, outcomes: Mapping[int, Any]) -> Step:
        """Give the program its calls' outcomes. If its worker was lost, begin again."""
        assert self._session is not None  # noqa: S101  it waits
        try:
            step: Step = await self._step(partial(self._session.settle, outcomes), retry=True)
        except Crashed:
            return await self._begin_again()
        return step

    async def _begin_again(self) -> Step:
        """Run the program from its start to where it was. Its worker can be lost there, too."""
        left = _MAX_STARTS
        while True:
            left -= 1
            assert self._session is not None  # noqa: S101  a lost one
            self._session.close()
            self._printed = Printed(self._offer.limits.printed_chars)
            self._session = self._make_session(None)
            with suppress(Crashed):
                return await self._repeat(self._session, retry=left > 0)

    async def _repeat(self, session: Session, *, retry: bool) -> Step:
        step: Step = await self._step(session.start, retry=retry)
        for done in self._rounds:
            if not isinstance(step, Waits) or step.calls != done.calls.calls:
                return Stopped("RuntimeError: the program did not repeat itself")
            step = await self._step(partial(session.settle, done.outcomes), retry=retry)
        return step

    async def _step(self, work: Callable[[], Any], *, retry: bool = False) -> Any:
        """Run the program in a thread, to its next wait. If this is cancelled, its worker ends."""
        session: Any = self._session
        stepping = _Stepping(session, work)
        began = perf_counter()
        try:
            return await THREADS.run(self._home, stepping.run)
        except TimeoutError:
            raise Transient("Not run: too many programs run at the same time.") from None
        except Crashed as error:
            if retry:
                raise
            return Stopped(f"The program was stopped: {error}")
        except BaseException:
            self._session = None
            stepping.leave()
            raise
        finally:
            self._seconds += perf_counter() - began

    async def _call(self, waits: Waits) -> dict[int, Any]:
        """Make the calls the program waits for, and return their outcomes."""
        functions, limits = self._offer.functions, self._offer.limits
        if self._seconds > limits.seconds:
            raise self._fail(f"TimeoutError: it ran longer than {limits.seconds:g} seconds")
        calls = [
            Call(functions[name].spec.name, args, id=f"p{number}")
            for number, name, args in waits.calls
        ]
        assert self._session is not None  # noqa: S101  it waits
        self._session.lend()
        results = await self._context.turn(
            str(len(self._rounds) + 1),
            calls,
            tools=self._offer.tools,
            whole=True,
            about=partial(mark_line, self._source.code, waits.start, waits.end),
        )
        self._ran += map(RanCall, calls, results)
        self._seconds += max([result.seconds or 0.0 for result in results], default=0.0)
        pairs = zip(waits.calls, results, strict=True)
        return {number: self._read_result(result) for (number, *_), result in pairs}

    def _read_result(self, result: Result) -> dict[str, Any]:
        """Return a call's outcome, unless the program has read too much."""
        self._read += len(result.text if result.data is None else result.data)
        most = self._offer.limits.result_chars
        if self._read > most:
            why = f"the call ran, but the program has read more than {most:,} characters"
            return {"exc_type": "MemoryError", "message": why}
        return to_outcome(result)

    def _make_session(self, stubs: str | None) -> Session:
        limits, functions = self._offer.limits, self._offer.functions
        settings = Settings(
            self._source.framed,
            self._offer.prelude,
            stubs,
            self._now,
            limits.memory,
            limits.cpu_seconds,
            limits.calls,
        )

        left = limits.args_chars

        def bind(name: str, text: str) -> dict[str, Any]:
            nonlocal left
            left -= len(text)
            if left < 0:
                most = limits.args_chars
                raise TypeError(f"the calls of a program take {most:,} characters in all")
            return bind_args(functions[name], text)

        return Session(settings, bind, self._printed)

    # a program continues by running again, so its clock must stand still: decision 089
    async def _find_time(self) -> datetime:
        """Return when the program began first. The clock is a call, so it is recorded."""
        clock = Call(_read_clock.spec.name, {}, id="clock")
        [result] = await self._context.turn("clock", [clock], tools=[_read_clock])
        if result.failure is not None or result.data is None:
            return _EPOCH
        return datetime.fromtimestamp(float(result.data), UTC)

    def _fail(self, error: str) -> _Failed:
        began = self._context.has_begun
        return _Failed(describe_failure(error, self._printed.text, self._ran, began=began))


class _NotBegun(Exception):
    """The program was refused before its first call. The text says why."""


class _Failed(Exception):
    """The program has failed. The text says why, and what it did before."""


class _Stepping:
    """A step in a thread, which may outlive the waiting program."""

    def __init__(self, session: Session, work: Callable[[], Any]) -> None:
        self._session = session
        self._work = work
        self._lock = threading.Lock()
        self._ended = self._left = False

    def run(self) -> Any:
        try:
            return self._work()
        finally:
            with self._lock:
                self._ended = True
                left = self._left
            if left:
                self._session.close()

    def leave(self) -> None:
        """End the worker during the step, or after it: no one takes the outcome."""
        with self._lock:
            self._left, ended = True, self._ended
        self._session.kill()
        if ended:
            self._session.close()


def _is_unknown(result: Result) -> bool:
    return result.failure is not None and result.failure.kind is FailureKind.UNKNOWN


@tool(name="program_clock", effect=READ, touches=lambda: ())
def _read_clock() -> float:
    """Return the time at which a program begins."""
    return time()


_ENDLESS = "It takes too long to check. Write a shorter or simpler one."
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""The time in programs which do not read it."""
