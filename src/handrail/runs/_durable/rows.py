"""Our rows beside the engine's: non-repeatable calls, used approvals, runs."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from typing import NamedTuple

from handrail.permissions import Ledger
from handrail.runs._durable.journal import RunJournal
from handrail.runs._live.pieces import DROP_LEFT
from handrail.runs._store.claims import StoredLedger
from handrail.runs._store.database import Database
from handrail.runs._store.points import reach
from handrail.runs._store.port import Step, Transact
from handrail.runs._store.tables import PUT_WORKER, QUEUE_RUN, add_row
from handrail.runs._store.writes import StepRecord
from handrail.runs.journal import RunHead


class IntendedCall(NamedTuple):
    """A non-repeatable call. Without a result, it may have taken effect."""

    key: str
    call_id: str
    tool: str
    args: str
    result: str | None


class RunRow(NamedTuple):
    """A run: where it stands, and how it ended."""

    id: str
    agent: str
    principal: str | None
    status: str
    segment: int
    began: float
    changed: float
    outcome: str | None
    metadata: str = "{}"


_LIVE = "status IN ('queued', 'running', 'waiting')"
_RUN = "id, agent, principal, status, segment, began, changed, outcome, metadata"


def run_row(run: str, agent: str, principal: str | None, *, metadata: str, app: str) -> Step:
    """Return the statement adding a run, unless this id exists."""
    row = {"id": run, "app": app, "agent": agent, "principal": principal, "metadata": metadata}
    return QUEUE_RUN, [{**row, "now": time.time()}]


def take_row(run: str) -> Step:
    """Return the statement recording a worker's claim on a run."""
    sql = (
        "UPDATE handrail_run SET status = 'running', changed = :now "
        "WHERE id = :id AND status = 'queued'"
    )
    return sql, [{"id": run, "now": time.time()}]


def cancel_row(run: str) -> Step:
    """Return the statement that records that a run is cancelled, unless it has ended."""
    sql = f"UPDATE handrail_run SET status = 'cancelled', changed = :now WHERE id = :id AND {_LIVE}"
    return sql, [{"id": run, "now": time.time()}]


def reopen_row(run: str, segment: int) -> Step:
    """Return the statement queueing a run again with a new segment, unless another process did."""
    sql = (
        "UPDATE handrail_run SET status = 'queued', segment = :segment, changed = :now "
        f"WHERE id = :id AND segment < :segment AND NOT {_LIVE}"
    )
    return sql, [{"id": run, "segment": segment, "now": time.time()}]


def head_row(head: RunHead) -> Step:
    """Return the statement recording a chain's end, unless there is a later one."""
    sql = (
        "UPDATE handrail_run SET entries = :entries, digest = :digest "
        "WHERE id = :run AND entries < :entries"
    )
    return sql, [{"run": head.run, "entries": head.entries, "digest": head.digest}]


def end_row(head: RunHead, status: str, segment: int, outcome: str) -> Step:
    """Return the statement recording how a run ended, and its chain's end.

    An ended run keeps its end.
    """
    sql = (
        "UPDATE handrail_run SET status = :status, segment = :segment, changed = :now, "
        "outcome = :outcome, entries = :entries, digest = :digest "
        f"WHERE id = :id AND segment <= :segment AND {_LIVE}"
    )
    how = {"status": status, "segment": segment, "outcome": outcome, "now": time.time()}
    return sql, [{**how, "id": head.run, "entries": head.entries, "digest": head.digest}]


class Rows:
    """Reads and writes our rows. Each statement is a transaction."""

    def __init__(self, database: Database) -> None:
        self.database = self._database = database
        self._read = database.read
        self._write = database.write
        self.ledger: Ledger = StoredLedger(database)

    def _add(self, table: str, columns: str) -> str:
        return f"{add_row(table, columns, postgres=self._database.is_postgres)} DO NOTHING"

    def journal(self, run: str, transact: Transact | None = None) -> RunJournal:
        """Return a run's journal, to append to."""
        return RunJournal(self._database, run, transact)

    # calls

    async def intend(self, row: IntendedCall, run: str, turn: str) -> bool:
        """Record a call about to run. Returns False if it was recorded before.

        A write is repeated if its connection is lost, and then finds its own row.
        """
        writer = secrets.token_hex(8)
        reach("call.begun")
        added = await self._add_call(row, run, turn, writer)
        reach("call.intended")
        return added == 1 or await self._wrote(row.key, writer)

    async def _add_call(self, row: IntendedCall, run: str, turn: str, writer: str | None) -> int:
        return await self._write(
            self._add("call", ":key, :run, :turn, :call, :tool, :args, :now, :result, :writer"),
            key=row.key,
            run=run,
            turn=turn,
            call=row.call_id,
            tool=row.tool,
            args=row.args,
            now=time.time(),
            result=row.result,
            writer=writer,
        )

    async def _wrote(self, key: str, writer: str) -> bool:
        sql = "SELECT 1 FROM handrail_call WHERE key = :key AND writer = :writer"
        return bool(await self._read(sql, key=key, writer=writer))

    async def store(self, key: str, result: str) -> None:
        """Record a call's result."""
        reach("call.ran")
        await self._write(
            "UPDATE handrail_call SET result = :result WHERE key = :key", key=key, result=result
        )
        reach("call.stored")

    async def add_result(self, row: IntendedCall, run: str, turn: str) -> None:
        """Record a call with its result, unless it is recorded."""
        await self._add_call(row, run, turn, None)
        reach("call.recorded")

    async def find_call(self, key: str) -> IntendedCall | None:
        """Return a call's row."""
        rows = await self._read(f"{_CALLS} WHERE key = :key", key=key)
        return IntendedCall(*rows[0]) if rows else None

    async def result_of(self, key: str) -> str | None:
        """Return a call's recorded result."""
        rows = await self._read("SELECT result FROM handrail_call WHERE key = :key", key=key)
        return rows[0][0] if rows else None

    async def forget_call(self, key: str) -> None:
        """Remove the row for a call which did not take effect."""
        await self._write("DELETE FROM handrail_call WHERE key = :key", key=key)

    async def calls_of(self, run: str, turn: str) -> list[IntendedCall]:
        """Return a turn's rows."""
        rows = await self._read(f"{_CALLS} WHERE run = :run AND turn = :turn", run=run, turn=turn)
        return [IntendedCall(*row) for row in rows]

    async def has_calls_in(self, run: str, prefix: str) -> bool:
        """Return whether there are rows in turns whose names begin so."""
        sql = (
            "SELECT 1 FROM handrail_call WHERE run = :run AND substr(turn, 1, :size) = :prefix "
            "LIMIT 1"
        )
        return bool(await self._read(sql, run=run, prefix=prefix, size=len(prefix)))

    # runs

    async def add_step(self, run: str, step: StepRecord) -> str:
        """Record a step's outcome. Returns the first recorded one."""
        sql = self._add("step", ":run, :segment, :step, :body")
        if await self._write(sql, run=run, **step._asdict()):
            return step.body
        found = await self.find_step(run, step.segment, step.step)
        return step.body if found is None else found  # the run was removed

    async def find_step(self, run: str, segment: int, number: int | None) -> str | None:
        """Return a step's recorded outcome."""
        sql = f"{_STEPS} AND number = :number"
        rows = await self._read(sql, run=run, segment=segment, number=number)
        return rows[0][0] if rows else None

    async def steps_of(self, run: str, segment: int) -> list[str]:
        """Return the outcomes of a segment's steps, in their order."""
        rows = await self._read(f"{_STEPS} ORDER BY number", run=run, segment=segment)
        return [row[0] for row in rows]

    async def cancelled_of(self, runs: Sequence[str]) -> list[str]:
        """Return the cancelled or removed runs among these."""
        rows = await self._read(
            "SELECT id FROM handrail_run WHERE status <> 'cancelled' "
            f"AND id IN {self._database.members}",
            ids=json.dumps(list(runs)),
        )
        others = {row[0] for row in rows}
        return [run for run in runs if run not in others]

    async def add_state(self, run: str, segment: int, body: str) -> None:
        """Add the state in which a segment begins."""
        await self._write(
            self._add("state", ":run, :segment, :body"),
            run=run,
            segment=segment,
            body=body,
        )

    async def states_of(self, run: str, segment: int) -> list[str]:
        """Return each segment's addition to the run's state, up to one segment."""
        rows = await self._read(
            f"{_STATES} AND segment <= :segment ORDER BY segment",
            run=run,
            segment=segment,
        )
        return [row[0] for row in rows]

    async def move_run(self, run: str, status: str, segment: int) -> None:
        """Record a run's next segment. A late worker changes nothing."""
        await self._write(
            "UPDATE handrail_run SET status = :status, segment = :segment, changed = :now "
            f"WHERE id = :id AND segment < :segment AND {_LIVE}",
            id=run,
            status=status,
            segment=segment,
            now=time.time(),
        )

    async def wake_run(self, run: str, segment: int) -> None:
        """Record the end of a run's wait. A late worker changes nothing."""
        await self._write(
            "UPDATE handrail_run SET status = 'running', segment = :segment, changed = :now "
            f"WHERE id = :id AND {_LIVE} "
            "AND (segment < :segment OR (segment = :segment AND status = 'waiting'))",
            id=run,
            segment=segment,
            now=time.time(),
        )

    async def keep_head(self, head: RunHead) -> None:
        """Record a run's chain end, unless a later one is recorded."""
        await self._database.transact([head_row(head)], 0)

    async def end_run(
        self, head: RunHead, status: str, segment: int, outcome: str, *guards: Step
    ) -> None:
        """Record how a run ended, and its chain's end, if each guard changes a row.

        An ended run keeps its end.
        """
        steps = [*guards, end_row(head, status, segment, outcome)]
        if not await self._database.transact(steps, len(steps)):
            await self.keep_head(head)

    async def find_run(self, run: str) -> RunRow | None:
        """Return a run."""
        rows = await self._read(f"SELECT {_RUN} FROM handrail_run WHERE id = :id", id=run)
        return RunRow(*rows[0]) if rows else None

    async def list_runs(self, status: str | None, limit: int) -> list[RunRow]:
        """Return runs, the newest first."""
        where = "app IS NOT NULL" if status is None else "app IS NOT NULL AND status = :status"
        sql = f"SELECT {_RUN} FROM handrail_run WHERE {where} ORDER BY began DESC LIMIT :limit"
        values = {} if status is None else {"status": status}
        return [RunRow(*row) for row in await self._read(sql, limit=limit, **values)]

    # workers

    async def add_worker(self, worker: str, version: str) -> None:
        """Record a worker. It already holds its lock."""
        await self._write(
            PUT_WORKER,
            id=worker,
            version=version,
            now=time.time(),
        )

    async def remove_worker(self, worker: str) -> None:
        """Record a worker's end, after recovering its runs."""
        await self._write("DELETE FROM handrail_worker WHERE id = :id", id=worker)

    async def drop_pieces(self) -> None:
        """Remove pieces left by dead workers."""
        await self._write(DROP_LEFT)

    async def move_worker(self, worker: str, version: str) -> None:
        """Record workers with another version taking over a dead worker's runs."""
        await self._write(
            "UPDATE handrail_worker SET version = :version WHERE id = :id",
            id=worker,
            version=version,
        )

    async def workers_of(self, version: str) -> list[str]:
        """Return the ids of a version's workers."""
        rows = await self._read(
            "SELECT id FROM handrail_worker WHERE version = :version ORDER BY id", version=version
        )
        return [row[0] for row in rows]


_STEPS = (
    "SELECT body FROM (SELECT run, segment, number, body FROM handrail_step UNION ALL "
    "SELECT run, segment, step, body FROM handrail_journal WHERE step IS NOT NULL) AS s "
    "WHERE run = :run AND segment = :segment"
)
"""Replies and answers have rows of their own; a turn is in the row of its last entries."""
_STATES = (
    "SELECT body FROM (SELECT run, segment, body FROM handrail_state UNION ALL "
    "SELECT run, segment, body FROM handrail_journal "
    "WHERE first = 1 AND step IS NULL AND body IS NOT NULL) AS s WHERE run = :run"
)
"""A run's first state is in the first row of its journal."""
_CALLS = "SELECT key, call, tool, args, result FROM handrail_call"


async def count_runs(database: Database) -> dict[str, tuple[int, float]]:
    """Return how many runs wait for a person or have failed, and since when the first does."""
    rows = await database.read(
        "SELECT status, COUNT(*), MIN(changed) FROM handrail_run "
        "WHERE status IN ('waiting', 'failed') GROUP BY status ORDER BY status"
    )
    return {status: (number, since) for status, number, since in rows}
