"""The engine's table for segments and queued calls: what its public functions do not say or do."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Sequence
from typing import Any

from handrail.runs._engine.port import SegmentStatus, agent_queue, segment_id, suspect_queue
from handrail.runs._store.database import Database
from handrail.runs._store.port import FIND_TABLE, Step

_NAME = re.compile(r"[a-z0-9_-]{3,256}")
"""Application names accepted by the engine."""
SEGMENT = "handrail.segment"
"""Workflow name for segments."""
CALL = "handrail.call"
"""Workflow name for queued calls."""
JSON = "portable_json"  # never pickles: a row could run code: decision 060
"""The form of our rows."""
_PARTS = ("workflow_input", "workflow_output", "operation_outputs")
"""Engine tables whose rows stay when their workflow's row is deleted."""
SUSPECT_DEATHS = 2
"""Worker deaths after which a segment runs alone."""
CALL_DEATHS = 2
"""Worker deaths after which a queued call is given up: its model reads this."""
_HELD = "MAX_RECOVERY_ATTEMPTS_EXCEEDED"
"""The engine's word for a segment given up because its workers died."""
_GAVE_UP = "The engine gave the run up."
_STATUS: dict[str, SegmentStatus] = {
    "ENQUEUED": "queued",
    "DELAYED": "parked",
    "PENDING": "running",
    "SUCCESS": "done",
    "CANCELLED": "cancelled",
}


class Workflows:
    """Reads and changes rows of the engine. Each statement is a transaction.

    Args:
        database: Has the rows.
        name: The name of the application.
        version: The version of the application.
        max_deaths: After this many deaths of its workers, a segment is given up.
    """

    def __init__(self, database: Database, name: str, version: str, *, max_deaths: int) -> None:
        self._database = database
        self._version = version
        self._max_deaths = max_deaths
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"DurableRuns(name={name!r}): must be 3 to 256 lower case letters, digits, dashes "
                "or underscores."
            )
        self._own = {"segment": SEGMENT, "call": CALL, "app": name}
        self._table = database.engine_table
        self._exist = False
        self._each = (
            "json_array_elements_text(CAST(:names AS json)) AS q(value)"
            if database.is_postgres
            else "json_each(:names) q"
        )

    async def exist(self) -> bool:
        """Return whether there is such a table. The engine makes it for the first run."""
        if not self._exist:
            find = FIND_TABLE[self._database.is_postgres]
            self._exist = bool(await self._database.read(find, name=self._table))
        return self._exist

    async def wake(self, segment_id: str) -> None:
        """Run a parked segment now. The engine's own way also repeats a running one."""
        await self._change(
            f"UPDATE {self._table} SET status = 'ENQUEUED', delay_until_epoch_ms = :now, "
            "updated_at = :now WHERE workflow_uuid = :id AND status = 'DELAYED'",
            id=segment_id,
            now=_now(),
        )

    async def cancel(self, segment_id: str) -> None:
        """Stop a segment or a call, also while it runs, as the engine does."""
        await self._change(
            f"UPDATE {self._table} SET status = 'CANCELLED', owner_xid = NULL, "
            "queue_name = NULL, deduplication_id = NULL, started_at_epoch_ms = NULL, "
            "updated_at = :now, completed_at = :now "
            "WHERE workflow_uuid = :id AND status NOT IN ('SUCCESS', 'ERROR')",
            id=segment_id,
            now=_now(),
        )

    async def _change(self, sql: str, **values: Any) -> int:
        """Change rows, if there are any."""
        return await self._database.write(sql, **values) if await self.exist() else 0

    async def find(self, segment_id: str) -> SegmentStatus | None:
        """Return a segment's status, or None if there is none."""
        rows = await self._database.read(
            f"SELECT status FROM {self._table} WHERE workflow_uuid = :id",
            id=segment_id,
        )
        return _STATUS.get(rows[0][0], "failed") if rows else None

    async def queued(self, queues: Collection[str]) -> list[str]:
        """Return the queues with something for this version.

        Segments and calls whose pause is over are queued, and found the next time.
        """
        own = {"version": self._version, "app": self._own["app"], "now": _now()}
        rows = await self._database.read(
            f"SELECT q.value FROM {self._each} WHERE EXISTS "
            f"(SELECT 1 FROM {self._table} w WHERE w.queue_name = q.value "
            f"AND w.status = 'ENQUEUED' AND w.{_IN_FLIGHT} "
            "AND w.application_version = :version AND w.application_name = :app) "
            f"UNION ALL SELECT '' WHERE 1 = (SELECT 1 FROM {self._table} WHERE {_DUE} "
            "ORDER BY delay_until_epoch_ms LIMIT 1)",  # PostgreSQL then uses the index
            names=json.dumps(sorted(queues)),
            **own,
        )
        found = [row[0] for row in rows]
        if "" in found:
            found.remove("")
            await self._database.write(
                f"UPDATE {self._table} SET status = 'ENQUEUED' WHERE {_DUE}", **own
            )
        return found

    async def measure(self) -> list[tuple[str, int, float]]:
        """Return this version's queues: how many wait there, and since when the first.

        A parked segment waits for a worker since its time came.
        """
        since = "CASE WHEN delay_until_epoch_ms > updated_at THEN delay_until_epoch_ms"
        rows = await self._database.read(
            f"SELECT queue_name, COUNT(*), MIN({since} ELSE updated_at END) "
            f"FROM {self._table} WHERE status = 'ENQUEUED' AND name IN (:segment, :call) "
            "AND application_version = :version AND application_name = :app "
            "AND queue_name LIKE 'handrail % %' GROUP BY queue_name ORDER BY queue_name",
            version=self._version,
            **self._own,
        )
        return [(queue, depth, float(since) / 1000) for queue, depth, since in rows]

    async def given_up(self, run: str | None = None) -> list[tuple[str, int, str]]:
        """Return the runs whose segment was given up, or one: their ids, its number, and why."""
        if not await self.exist():
            return []
        one: dict[str, str] = {} if run is None else {"run": run}
        tables = ["handrail_run r", f"{self._table} w"]  # SQLite reads them in this order
        rows = await self._database.read(
            "SELECT r.id, r.segment, w.status, w.serialization, w.recovery_attempts "
            f"FROM {' CROSS JOIN '.join(tables if one else reversed(tables))} "
            f"WHERE r.id = {_RUN_ID} AND w.workflow_uuid = r.id || ':' || CAST(r.segment AS TEXT) "
            f"AND r.{_LIVE} AND w.{_ENDED_BADLY} AND w.status IN ('ERROR', :held)"
            f"{' AND r.id = :run' if one else ''}",
            held=_HELD,
            **one,
        )
        return [(run, number, _say_given_up(*why)) for run, number, *why in rows]

    async def owners(self) -> list[str]:
        """Return the ids of workers running segments, dead or alive."""
        return await self._read_running("DISTINCT executor_id")

    async def owned(self, worker: str) -> list[str]:
        """Return the ids of a worker's segments."""
        return await self._read_running("workflow_uuid", "AND executor_id = :worker", worker=worker)

    async def _read_running(self, column: str, more: str = "", **values: str) -> list[str]:
        rows = await self._database.read(
            f"SELECT {column} FROM {self._table} WHERE {_RUNNING} {more}",
            version=self._version,
            **self._own,
            **values,
        )
        return [row[0] for row in rows]

    async def recover(self, worker: str) -> int:
        """Queue a dead worker's segments again, and return their number.

        The engine counts how often it began a segment. This is how often its workers died, without
        excused deaths.
        """
        agent, suspect = agent_queue(""), suspect_queue("")
        return await self._database.write(
            f"UPDATE {self._table} SET status = CASE "
            f"WHEN recovery_attempts >= CASE WHEN name = :call THEN {CALL_DEATHS} ELSE :most END "
            "THEN :held ELSE 'ENQUEUED' END, queue_name = CASE "
            f"WHEN recovery_attempts >= {SUSPECT_DEATHS} AND queue_name LIKE :agents "
            f"THEN :suspect || substr(queue_name, {len(agent) + 1}) ELSE queue_name END, "
            "owner_xid = NULL, started_at_epoch_ms = NULL, updated_at = :now "
            f"WHERE {_RUNNING} AND executor_id = :worker",
            most=self._max_deaths,
            held=_HELD,
            agents=f"{agent}%",
            suspect=suspect,
            now=_now(),
            worker=worker,
            version=self._version,
            **self._own,
        )

    async def excuse(self, worker: str) -> None:
        """Excuse a worker's end: its current work counts no death."""
        await self._database.write(
            f"UPDATE {self._table} SET recovery_attempts = recovery_attempts - 1 "
            f"WHERE {_RUNNING} AND executor_id = :worker",
            worker=worker,
            version=self._version,
            **self._own,
        )

    async def put_back(self, token: str) -> None:
        """Queue again what was taken with a token, and not begun."""
        await self._database.write(
            f"UPDATE {self._table} SET status = 'ENQUEUED', {_UNTAKEN} "
            "WHERE owner_xid = :token AND status = 'PENDING'",
            token=token,
            now=_now(),
        )

    async def delay(self, segment_id: str, worker: str, seconds: float) -> None:
        """Put back what a worker has taken and cannot run. It is queued again after a pause."""
        await self._database.write(
            f"UPDATE {self._table} SET status = 'DELAYED', "
            f"delay_until_epoch_ms = :later, {_UNTAKEN} "
            "WHERE workflow_uuid = :id AND status = 'PENDING' AND executor_id = :worker",
            id=segment_id,
            worker=worker,
            later=_now() + round(seconds * 1000),
            now=_now(),
        )

    async def retry(self, run: str, number: int, agent: str) -> bool:
        """Continue a run whose segment was given up, with this segment. Returns False if not."""
        queue = (
            f"UPDATE {self._table} SET status = 'ENQUEUED', queue_name = :queue, "
            "recovery_attempts = 0, updated_at = :now "
            "WHERE workflow_uuid = :id AND status = :held"
        )
        reopen = (
            "UPDATE handrail_run SET status = 'queued', outcome = NULL, changed = :now "
            f"WHERE id = :id AND segment = :number AND ({_LIVE} OR status = 'failed')"
        )
        segment = {"id": segment_id(run, number), "queue": suspect_queue(agent)}
        row = {"id": run, "number": number, "now": time.time()}
        steps = [(queue, [{**segment, "held": _HELD, "now": _now()}]), (reopen, [row])]
        return bool(await self._database.transact(steps, 2))

    def failure(self, run: str, number: int) -> Step:
        """Return a statement changing a row only while a segment is given up."""
        sql = (
            f"UPDATE {self._table} SET updated_at = updated_at "
            "WHERE workflow_uuid = :id AND status IN ('ERROR', :held)"
        )
        return sql, [{"id": segment_id(run, number), "held": _HELD}]

    async def adopt(self, version: str, worker: str | None = None) -> int:
        """Give what a version has queued, or what its dead worker ran, to this version."""
        waits = "status IN ('ENQUEUED', 'DELAYED')"
        which = waits if worker is None else "status = 'PENDING' AND executor_id = :worker"
        more: dict[str, Any] = {} if worker is None else {"worker": worker}
        return await self._change(
            f"UPDATE {self._table} SET application_version = :new "
            "WHERE application_version = :old AND application_name = :app "
            f"AND name IN (:segment, :call) AND {which}",
            new=self._version,
            old=version,
            **self._own,
            **more,
        )

    async def drop_removed(self, run: str, id_: str) -> None:
        """Remove work queued for a run someone else removed at the same time."""
        if not await self._database.read("SELECT 1 FROM handrail_run WHERE id = :run", run=run):
            await self._database.transact(await self.removal([run], [id_]), 0)

    async def removal(self, runs: Sequence[str], ids: Sequence[str]) -> list[Step]:
        """Return the statements that remove what the engine keeps of removed runs, as it does.

        Its own way is another transaction, and needs a query for each run. One that was started
        again keeps everything.

        Args:
            runs: The ids of the runs.
            ids: The ids of their segments.
        """
        if not await self.exist():
            return []
        table, members = self._table, self._database.members
        key = 'w.workflow_uuid COLLATE "C"' if self._database.is_postgres else "w.workflow_uuid"
        gone = "NOT EXISTS (SELECT 1 FROM handrail_run r WHERE r.id ="
        calls = (
            f"SELECT w.workflow_uuid FROM {members} i JOIN {table} w ON w.name = '{CALL}' "
            f"AND {key} >= i.id || '/' AND {key} < i.id || '0' WHERE {gone} i.id)"
        )
        segments = f"SELECT w.id FROM {members.replace(':ids', ':segments')} w WHERE {gone} "
        segments += f"{_RUN_ID.replace('w.workflow_uuid', 'w.id')})"
        which = f"workflow_uuid IN ({segments} UNION ALL {calls})"
        parts = [table.replace("workflow_status", part) for part in _PARTS]
        values = {"ids": json.dumps(list(runs)), "segments": json.dumps(list(ids))}
        return [(f"DELETE FROM {part} WHERE {which}", [values]) for part in (*parts, table)]


_LIVE = "status IN ('queued', 'running', 'waiting')"
_RUNNING = (
    "status = 'PENDING' AND name IN (:segment, :call) "
    "AND application_version = :version AND application_name = :app"
)


_IN_FLIGHT = "status IN ('ENQUEUED', 'PENDING')"
_ENDED_BADLY = "status IN ('ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')"
"""Conditions of engine indexes. SQLite uses these only with the same words."""
_PLACE = "rtrim(w.workflow_uuid, '0123456789')"
_RUN_ID = f"substr({_PLACE}, 1, length({_PLACE}) - 1)"
"""A segment's run."""
_DUE = (
    "status = 'DELAYED' AND delay_until_epoch_ms <= :now "
    "AND application_version = :version AND application_name = :app"
)
"""What was put off until now. The engine would look for it in a separate thread."""
_UNTAKEN = (
    "owner_xid = NULL, started_at_epoch_ms = NULL, updated_at = :now, "
    "recovery_attempts = recovery_attempts - 1"
)


def _now() -> int:
    """Return the time as the engine writes it."""
    return int(time.time() * 1000)


def _say_given_up(status: str, form: str | None, attempts: int) -> str:
    """Return why the engine gave a segment up."""
    if status == _HELD:
        return f"Its process died {attempts} times. It continues when someone resumes it."
    if form in (None, JSON):
        return _GAVE_UP
    return (
        f"Its row in the database was not read: it has the form {form!r}, and handrail writes "
        f"{JSON!r}. Someone else has changed it."
    )
