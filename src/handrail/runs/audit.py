"""Record an executor's calls in a journal: who asked, what was decided, how it ended."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import NamedTuple

import anyio

from handrail import Call, CheckedCall, Hook, Result
from handrail.events import Decided, Event, Finished, Requested
from handrail.runs._store.threads import Threads
from handrail.runs.journal import JournalError
from handrail.runs.lines import LineFields, event_lines
from handrail.runs.record import RunRecord

WRITE_SECONDS = 0.1
"""Seconds between two writes: calls ending in between are written together."""
MAX_UNWRITTEN = 10_000
"""Facts waiting to be written. Beyond it, calls are refused, and what is refused is not noted."""
_NOT_AUDITED = (
    "Not run: this call cannot be recorded, because the journal cannot be written. Do not work "
    "around this. Tell the user."
)


class _Fact(NamedTuple):
    """Something to write: a call, a decision about it, or its result."""

    at: float
    call: CheckedCall | Call
    news: Decided | Result | None = None


class CallAudit:
    """Writes each call of an executor, with its principal, to a run of a journal.

    A worker thread writes. While the journal cannot be written, calls are refused. The journal
    keeps arguments, and the beginning of results.

    Args:
        record: The run.
        clock: Returns the time.
    """

    def __init__(self, record: RunRecord, *, clock: Callable[[], float] = time.time) -> None:
        self._record = record
        self._clock = clock
        self._facts: list[_Fact] = []
        self._unwritten = 0
        self._threads = Threads(1)
        self._news = anyio.Event()
        self.problem = ""
        """Why the journal cannot be written; empty if it can."""

    @property
    def hook(self) -> Hook:
        """A hook for an executor. List it first, so it sees calls others refuse."""
        return Hook(before=self._before, after=self._after, observe=self._observe)

    @asynccontextmanager
    async def writing(self) -> AsyncGenerator[None]:
        """Write what is recorded, until the block ends. Then write the rest."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._write)
                try:
                    yield
                finally:
                    group.cancel_scope.cancel()
        finally:  # a write under way has ended here, so the rest comes after it
            await self._flush()
            self._threads.close()

    def _before(self, call: CheckedCall) -> CheckedCall | Result:
        if self.problem or self._is_full:
            return call.refuse(_NOT_AUDITED)
        self._put(call)
        return call

    def _observe(self, _key: str, call: CheckedCall | Call, event: Event) -> None:
        """Note each decision when it is made: later, the run may have read more."""
        if isinstance(event, Decided):
            self._put(call, event)

    def _after(self, call: CheckedCall | Call, result: Result) -> Result:
        is_refused = isinstance(call, Call) or result.text == _NOT_AUDITED
        if not (is_refused and self._is_full):
            self._put(call, result)
        return result

    @property
    def _is_full(self) -> bool:
        return len(self._facts) + self._unwritten > MAX_UNWRITTEN

    def _put(self, call: CheckedCall | Call, news: Decided | Result | None = None) -> None:
        is_first = not self._facts
        self._facts.append(_Fact(self._clock(), call, news))
        if is_first:
            self._news.set()

    async def _write(self) -> None:
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            await self._flush()
            await anyio.sleep(WRITE_SECONDS)
            if self.problem:
                self._news.set()  # the next attempt may succeed

    async def _flush(self) -> None:
        facts, self._facts = self._facts, []
        self._unwritten += len(facts)
        try:
            with anyio.CancelScope(shield=True):  # no one else has these facts
                await self._threads.run(self._store, facts)
            self.problem, self._unwritten = "", 0
        except JournalError as error:  # the record keeps the lines for the next attempt
            self.problem = str(error)

    def _store(self, facts: list[_Fact]) -> None:
        self._record.put([line for fact in facts for line in _lines(fact)])
        self._record.flush()


def _lines(fact: _Fact) -> list[LineFields]:
    at, call, news = fact
    if news is None:
        return [_request(at, call)]
    if isinstance(news, Decided):
        return event_lines(replace(news, at=at, turn=""))
    [finished] = event_lines(Finished(at, news))
    asked = [] if isinstance(call, CheckedCall) else [_request(at, call)]
    return [*asked, {**finished, "tool": call.name, **_principal(call)}]


def _request(at: float, call: CheckedCall | Call) -> LineFields:
    sent = call.call if isinstance(call, CheckedCall) else call
    [line] = event_lines(Requested(at, sent))
    return {**line, **_principal(call)}


def _principal(call: CheckedCall | Call) -> LineFields:
    """Return a call's principal. An unchecked call does not name it."""
    principal = call.turn.principal if isinstance(call, CheckedCall) else None
    return {} if principal is None else {"principal": principal}
