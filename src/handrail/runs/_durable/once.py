"""Run a non-repeatable call once: a row before it, its result after it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

from handrail import Call, CheckedCall, FailureKind, Hook, Result, Turn
from handrail.permissions import Ledger, verify_call
from handrail.runs._durable.counts import Counts
from handrail.runs._durable.json_values import Unserializable, check_json
from handrail.runs._durable.results import StoredResults
from handrail.runs._durable.rows import IntendedCall, Rows
from handrail.runs._store.database import Database
from handrail.runs._store.port import DatabaseError

log = logging.getLogger("handrail.runs")

MAY_HAVE_RUN = (
    "The process died while this call ran, and its result was lost. It may have taken effect: "
    "check before you call it again."
)
NOT_RECORDED = (
    "Not run: the database of this run cannot be written, and such a call runs only once that is "
    "recorded. Try again later, or tell the user."
)


DIFFERS = (
    "Not run: before a restart, this was another call, which may have taken effect. Check before "
    "you call it again."
)


class Once:
    """Runs calls. After a crash, a row without a result means that its call may have taken effect.

    Args:
        rows: Records the calls.
        counts: Counts those that may have taken effect.
        run: The run that the rows belong to.
        group: Which rows belong together. By default, those of a turn.
    """

    def __init__(self, rows: Rows, counts: Counts, run: str, group: str | None = None) -> None:
        self._run = run
        self._rows = rows
        self._counts = counts
        self._group = group
        self.known: dict[str, Result] = {}
        """Results recorded by a former attempt, by call id."""
        self._running: dict[str, CheckedCall] = {}
        self.is_again = False
        """Whether a former attempt at this turn may have recorded calls."""
        self._begun: set[str] = set()
        """The calls whose tools have made calls before, by key."""
        self._stored: dict[str, str] = {}
        """What calls have stored to continue from, by key: here, or before a restart."""

    async def find_known(self, turn: Turn[Any]) -> None:
        """Find what a former attempt at this turn has recorded."""
        self.is_again = True
        for row in await self._rows.calls_of(turn.run_id, self._group or turn.id):
            result = await self._settle(row, turn)
            if result is not None:
                self.known[row.call_id] = result

    async def _settle(self, row: IntendedCall, turn: Turn[Any]) -> Result | None:
        """Return an earlier call's result. None if it did not take effect."""
        if row.result is not None:
            return Result.from_json(row.result)
        stored = await self._rows.result_of(_record_key(row.key))
        if stored is not None:  # it can continue
            # its row alone would mean: it may have run
            self._stored[row.key] = stored
            await self._rows.forget_call(row.key)
            return None
        tool = turn.tools.find(row.tool)
        call = Call(row.tool, row.args, row.call_id)
        said = None if tool is None else await verify_call(tool, call, row.key)
        if isinstance(said, Result):
            await self._rows.store(row.key, said.to_json())
            return said
        if said is False:
            await self._rows.forget_call(row.key)
            return None
        log.warning("the call %s may have taken effect: its result was lost", row.key)
        self._counts.unknown += 1
        return Result.fail(row.call_id, FailureKind.UNKNOWN, MAY_HAVE_RUN)

    def find(self, key: str, /) -> str:
        """Return what the call with this key stored before the restart, or ""."""
        return self._stored.get(key, "")

    def has_begun(self, key: str, /) -> bool:
        """Return whether a call's tool has made calls before the restart."""
        return key in self._begun

    async def store(self, key: str, text: str, /) -> bool:
        """Store what a running call needs to continue after a restart."""
        call = self._running.get(key)
        if call is None:
            return False
        row = IntendedCall(key, call.id, call.name, call.parsed.text, None)
        await self._rows.intend(row, self._run, self._group_of(call))  # if it is repeatable
        name = _record_key(key)
        await self._rows.add_result(row._replace(key=name, result=text), self._run, name)
        await self._rows.store(name, text)
        self._stored[key] = text
        return True

    async def run(self, call: CheckedCall, run: Callable[[], Awaitable[Result]]) -> Result:
        """Run a call, recording a non-repeatable one before and after."""
        self._running[call.key] = call
        try:
            return await self._run_known(call, run)
        finally:
            del self._running[call.key]

    async def _run_known(self, call: CheckedCall, run: Callable[[], Awaitable[Result]]) -> Result:
        if call.turn.is_inner:
            # its tool began again, and repeats the calls it has made
            known = await self._find_recorded(call)
            if known is not None:
                return known
        if call.is_repeatable or call.is_replayed:
            return await self._run_again(call, run)
        row = IntendedCall(call.key, call.id, call.name, call.parsed.text, None)
        try:
            is_new = await self._rows.intend(row, self._run, self._group_of(call))
        except DatabaseError:
            log.exception("the call %s was not run: it could not be recorded", call.key)
            return call.refuse(NOT_RECORDED, FailureKind.TRANSIENT)
        # two workers may hold the run for a moment: the one adding the row runs the call
        if not is_new:
            return await self._find_result(call)
        result = _recordable(call, await run())
        await self._record(call.key, result)
        return result

    async def _run_again(self, call: CheckedCall, run: Callable[[], Awaitable[Result]]) -> Result:
        """Run a call that can be repeated, or that begins again with records of its own calls."""
        if call.is_replayed and self.is_again and not await self._find_begun(call):
            return call.refuse(NOT_RECORDED, FailureKind.TRANSIENT)
        result = _recordable(call, await run())
        # its row has a text to continue from, and now its result
        if call.key in self._stored:
            await self._record(call.key, result)
            return result
        return await self._add(call, result) if call.turn.is_inner else result

    async def _find_begun(self, call: CheckedCall) -> bool:
        """Find whether a tool has made calls before. Returns False if it cannot be known."""
        try:
            if await self._rows.has_calls_in(self._run, f"{quote(call.key, safe='')}/"):
                self._begun.add(call.key)
        except DatabaseError:
            log.exception("the call %s was not run: its records could not be read", call.key)
            return False
        return True

    def _group_of(self, call: CheckedCall) -> str:
        turn = call.turn
        return self._group or (turn.key if turn.is_inner else turn.id)

    async def _find_recorded(self, call: CheckedCall) -> Result | None:
        """Return a result a tool's inner call had before a restart, if it is this call.

        Such a tool begins again, so all its calls are recorded, also those only reading.
        """
        try:
            row = await self._rows.find_call(call.key)
            if row is None:
                return None
            if (row.tool, row.args) == (call.name, call.parsed.text):
                return await self._settle(row, call.turn)
        except DatabaseError:
            log.exception("the call %s was not run: its record could not be read", call.key)
            return call.refuse(NOT_RECORDED, FailureKind.TRANSIENT)
        self._counts.unknown += 1
        return call.refuse(DIFFERS, FailureKind.UNKNOWN)

    async def _add(self, call: CheckedCall, result: Result) -> Result:
        """Record a repeatable call's result, and return it."""
        if result.pending is not None or _is_cancelled(result):
            return result
        row = IntendedCall(call.key, call.id, call.name, call.parsed.text, result.to_json())
        try:
            await self._rows.add_result(row, self._run, self._group_of(call))
        except DatabaseError:
            log.exception("the result of the call %s was not recorded", call.key)
            return call.refuse(NOT_RECORDED, FailureKind.TRANSIENT)
        return result

    async def _record(self, key: str, result: Result) -> None:
        """Record a result. The turn's record has it too, so an error loses nothing here."""
        try:
            if result.pending is not None:
                # it has not taken effect, and begins again with the answer
                await self._rows.forget_call(key)
            elif not _is_cancelled(result):  # else another worker may have taken the run over
                await self._rows.store(key, result.to_json())
        except DatabaseError:
            log.exception("the result of the call %s was not recorded", key)

    async def _find_result(self, call: CheckedCall) -> Result:
        """Return the result for a call begun by another execution of this segment."""
        text = await self._rows.result_of(call.key)
        if text is not None:
            return Result.from_json(text)
        self._counts.unknown += 1
        return call.refuse(MAY_HAVE_RUN, FailureKind.UNKNOWN)


class CallRecorder:
    """Records calls as a worker does, for a run whose agent saves its states in the same database.

    The states have the replies and the turns, so only non-repeatable calls have rows.
    """

    steps = None

    def __init__(self, database: Database, run: str) -> None:
        rows = Rows(database)
        self._once = Once(rows, Counts(), run)
        self.claimant = run
        self.records = self._once
        self.known = self._once.known
        self.ledger: Ledger = rows.ledger
        self.find_results = StoredResults(database, run).find
        self.hook = Hook(around=self._run_once)

    async def begin(self, turn: Turn[Any], /, *, again: bool) -> None:
        """Find a turn's results again. Raises ValueError if it belongs to another run."""
        if turn.run_id != self.claimant:
            raise ValueError(
                f"A run with the id {turn.run_id!r} cannot be recorded as {self.claimant!r}. "
                f"Start it from `RunState(run_id={self.claimant!r})`."
            )
        self.known.clear()  # other turns may use the same ids
        if again:
            await self._once.find_known(turn)

    async def _run_once(self, call: CheckedCall, run: Callable[[], Awaitable[Result]]) -> Result:
        """Run a call. A sub-agent's calls are part of a recorded call."""
        is_own = call.turn.is_inner or call.turn.run_id == self.claimant
        return await (self._once.run(call, run) if is_own else run())


def _record_key(key: str) -> str:
    return f"{key}#record"


def _is_cancelled(result: Result) -> bool:
    return result.failure is not None and result.failure.kind == FailureKind.CANCELLED


def _recordable(call: CheckedCall, result: Result) -> Result:
    """Return a result JSON can represent, or say what cannot be recorded."""
    try:
        check_json(dict(result.metadata), "metadata")
    except Unserializable as error:
        log.warning("the result of a call of %r cannot be recorded: %s", call.name, error)
        return call.refuse(
            f"The call ran, but its result cannot be recorded: {error} Tell the user.",
            FailureKind.BUG,
        )
    return result
