"""DBOS Transact as the engine. The only module that knows it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import metadata
from typing import Any

from anyio import to_thread
from dbos import DBOS, DBOSClient, DBOSConfig, DBOSPortableJSONSerializer
from dbos import _dbos as internals
from dbos import _serialization as serialization

from handrail import HandrailError
from handrail._support.loop import running_loop
from handrail.runs._durable.call_queue import CallQueue
from handrail.runs._durable.dbos_connections import make_engine
from handrail.runs._durable.port import Body, SegmentStatus
from handrail.runs._store.database import Database
from handrail.runs._store.port import Step

SEGMENT = "handrail.segment"
"""The name of the workflow."""
CALL = "handrail.call"
"""The name of the workflow of a queued call."""
QUEUE = "handrail"
_PARTS = ("workflow_input", "workflow_output", "operation_outputs")
"""Tables of DBOS whose rows do not go with the row of their workflow."""
_JSON = DBOSPortableJSONSerializer().name()
_GAVE_UP = "The engine gave the run up."
_STATUS: dict[str, SegmentStatus] = {
    "ENQUEUED": "queued",
    "DELAYED": "parked",
    "PENDING": "running",
    "SUCCESS": "done",
    "CANCELLED": "cancelled",
}


class DbosEngine:
    """Runs segments as DBOS workflows on one queue.

    A program that already uses DBOS with the same database is joined: its instance runs them.

    Args:
        database: Where DBOS keeps its tables.
        name: The name of the application. Only its own workers run its segments.
        version: The version of the application. Only workers of this version run its segments.
        poll: Seconds between two checks of the queue.
        queues: The queues of calls.
    """

    def __init__(
        self,
        database: Database,
        name: str,
        version: str,
        *,
        poll: float,
        queues: Mapping[str, CallQueue],
    ) -> None:
        self._database = database
        self._sql = make_engine(database)
        self._name = name
        self._version = version
        self._poll = poll
        self._queues = queues
        self._client: DBOSClient | None = None
        self._is_own = False
        self._table = "dbos.workflow_status" if database.is_postgres else "workflow_status"

    @property
    def version(self) -> str:
        """The version of DBOS."""
        return f"dbos {metadata.version('dbos')}"

    async def create(self) -> None:
        """Create the tables of DBOS, and an index for the calls of a run."""
        await to_thread.run_sync(DBOS.migrate, self._database.url)
        if self._database.is_postgres:
            await self._database.write(
                f"CREATE INDEX IF NOT EXISTS handrail_calls ON {self._table} "
                f"(workflow_uuid COLLATE \"C\") WHERE name = '{CALL}'"
            )

    async def open(self) -> None:
        """Connect to the tables of DBOS."""
        connect = partial(
            DBOSClient,
            system_database_engine=self._sql,
            serializer=DBOSPortableJSONSerializer(),
            application_name=self._name,
        )
        self._client = await to_thread.run_sync(connect)

    @property
    def client(self) -> DBOSClient:
        """The connection to the tables of DBOS."""
        if self._client is None:
            raise RuntimeError("The runs are not open. Use `async with runs:`.")
        return self._client

    async def launch(self, body: Body, call_body: Body, worker: str, slots: int) -> None:
        """Begin to run segments: in an own instance, or in the one that this process has."""
        host = self._find_instance()
        self._is_own = host is None
        if host is not None:
            self._check_host(host)
        refuse_pickles()
        logging.getLogger("dbos").addFilter(_is_about_a_run)
        _register(SEGMENT, body)
        _register(CALL, call_body)
        await self._add_queue(QUEUE, worker_concurrency=slots)
        for name, queue in self._queues.items():
            await self._add_queue(queue_name(name), **_limits(queue))
        if self._is_own:
            DBOS(config=self._make_config(worker))
            DBOS.listen_queues([QUEUE, *map(queue_name, self._queues)])
            DBOS.launch()  # in the loop's own thread: this loop then runs the segments

    async def _add_queue(self, name: str, **limits: Any) -> None:
        add = partial(self.client.register_queue, name, polling_interval_sec=self._poll, **limits)
        await to_thread.run_sync(add)

    def _make_config(self, worker: str) -> DBOSConfig:
        return DBOSConfig(
            name=self._name,
            system_database_url=self._database.url,
            system_database_engine=self._sql,
            application_version=self._version,
            executor_id=worker,
            serializer=DBOSPortableJSONSerializer(),
            log_level="ERROR",
        )

    def _check_host(self, host: Any) -> None:
        """Refuse to join an instance that does not see our segments."""
        config = host._config  # noqa: SLF001  there is no public way to ask
        joined = (config["name"], DBOS.application_version, config["system_database_url"])
        wanted = (self._name, self._version, self._database.url)
        if joined != wanted:
            raise HandrailError(
                "This process already uses DBOS, with the name, version and database "
                f"{joined[:2]}. Durable runs join it only if theirs are the same: {wanted[:2]}."
            )
        if host._serializer.name() != _JSON:  # noqa: SLF001  there is no public way to ask
            raise HandrailError(
                "This process uses DBOS with rows that are not JSON, such as pickles, which run "
                "code when they are read. Give it `serializer=DBOSPortableJSONSerializer()`."
            )

    def _find_instance(self) -> Any:
        """Return the instance that another part of this process has launched."""
        found: Any = internals._dbos_global_instance  # noqa: SLF001  there is no public way to ask
        return found if getattr(found, "_launched", False) else None

    def find_host(self) -> str | None:
        """Return the id of this process if it already uses DBOS."""
        return None if self._find_instance() is None else DBOS.executor_id

    async def drain(self, seconds: float) -> None:
        """Take no more segments, and wait for those that run."""
        if self._is_own:
            self._is_own = False
            system: Any = self._find_instance()._sys_db  # noqa: SLF001  it is gone afterwards
            whole = partial(DBOS.destroy, workflow_completion_timeout_sec=int(seconds))
            await to_thread.run_sync(whole)
            # what a segment writes later is not tried forever, which would keep the process alive
            system._retry_connection_errors = False  # noqa: SLF001  there is no public setting
            # DBOS gave the loop its own threads for `to_thread`, and has ended them
            loop: Any = running_loop()
            loop.set_default_executor(ThreadPoolExecutor())

    async def close(self) -> None:
        """Close all connections."""
        await to_thread.run_sync(self.client.destroy)
        self._client = None
        await to_thread.run_sync(self._sql.dispose)
        await to_thread.run_sync(self._database.close)

    async def start(self, segment_id: str, text: str) -> None:
        """Queue a segment. A second start with the same id joins the first."""
        await self._enqueue(segment_id, text)

    async def park(self, segment_id: str, text: str, seconds: float) -> None:
        """Queue a segment for later, as one row."""
        await self._enqueue(segment_id, text, delay_seconds=seconds)

    async def _enqueue(self, segment_id: str, text: str, **more: Any) -> None:
        options: Any = {
            "workflow_name": SEGMENT,
            "queue_name": QUEUE,
            "workflow_id": segment_id,
            "app_version": self._version,
            **more,
        }
        await to_thread.run_sync(self.client.enqueue, options, text)

    async def call(self, queue: str, key: str, text: str, tenant: str) -> str | None:
        """Queue a call, and return what its body gave; None if it gave nothing."""
        options: Any = {
            "workflow_name": CALL,
            "queue_name": queue_name(queue),
            "workflow_id": key,
            "app_version": self._version,
        }
        if self._queues[queue].per_tenant is not None:
            options["queue_partition_key"] = tenant
        await to_thread.run_sync(self.client.enqueue, options, text)
        handle: Any = await self.client.retrieve_workflow_async(key)
        try:
            given: str = await handle.get_result(polling_interval_sec=self._poll)
        except Exception:  # noqa: BLE001  it was cancelled, or the engine gave it up
            return None
        return given

    async def wake(self, segment_id: str) -> None:
        """Let a parked segment run now.

        Both statements change parked segments only. The public resume would repeat a running one.
        """
        await to_thread.run_sync(self._wake, segment_id)

    def _wake(self, segment_id: str) -> None:
        self.client.set_workflow_delay(segment_id, delay_seconds=0)
        self.client._sys_db.transition_delayed_workflows()  # noqa: SLF001  else within a second

    async def cancel(self, segment_id: str) -> None:
        """Stop a segment, also while a step of it runs."""
        await to_thread.run_sync(self.client.cancel_workflow, segment_id)

    async def find(self, segment_id: str) -> SegmentStatus | None:
        """Return the status of a segment, or None if there is none."""
        rows = await self._database.read(
            f"SELECT status FROM {self._table} WHERE workflow_uuid = :id",  # noqa: S608
            id=segment_id,
        )
        return _STATUS.get(rows[0][0], "failed") if rows else None

    async def given_up(self) -> list[tuple[str, int, str]]:
        """Return the runs whose segment was given up: their ids, its number, and why."""
        rows = await self._database.read(
            "SELECT r.id, r.segment, w.serialization FROM handrail_run r "  # noqa: S608
            f"JOIN {self._table} w ON w.workflow_uuid = r.id || ':' || CAST(r.segment AS TEXT) "
            "WHERE r.status IN ('queued', 'running', 'waiting') "
            "AND w.status IN ('ERROR', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')"
        )
        return [(run, number, say_given_up(form)) for run, number, form in rows]

    async def owners(self) -> list[str]:
        """Return the ids of the workers that run segments, dead or alive."""
        return await self._read_running("DISTINCT executor_id")

    async def owned(self, worker: str) -> list[str]:
        """Return the ids of the segments that a worker runs."""
        return await self._read_running("workflow_uuid", "AND executor_id = :worker", worker=worker)

    async def _read_running(self, column: str, more: str = "", **values: str) -> list[str]:
        rows = await self._database.read(
            f"SELECT {column} FROM {self._table} WHERE status = 'PENDING' "  # noqa: S608
            "AND name IN (:segment, :call) "
            f"AND application_version = :version AND application_name = :app {more}",
            segment=SEGMENT,
            call=CALL,
            version=self._version,
            app=self._name,
            **values,
        )
        return [row[0] for row in rows]

    async def recover(self, worker: str) -> int:
        """Queue the segments of a dead worker again.

        The call is private. The public resume also resets what DBOS knows about attempts, and
        repeats a segment that runs.
        """
        recover = DBOS._recover_pending_workflows  # noqa: SLF001  see above
        return len(await to_thread.run_sync(recover, [worker]))

    async def adopt(self, version: str, worker: str | None = None) -> int:
        """Give what a version has queued, or what its dead worker ran, to this version."""
        waits = "status IN ('ENQUEUED', 'DELAYED')"
        which = waits if worker is None else "status = 'PENDING' AND executor_id = :worker"
        return await self._database.write(
            f"UPDATE {self._table} SET application_version = :new "  # noqa: S608
            "WHERE application_version = :old AND application_name = :app "
            f"AND name IN (:segment, :call) AND {which}",
            new=self._version,
            old=version,
            app=self._name,
            segment=SEGMENT,
            call=CALL,
            **({} if worker is None else {"worker": worker}),
        )

    def removal(self, ids: str, runs: str, segments: str) -> list[Step]:
        """Return the statements that remove what DBOS keeps of runs, as DBOS does.

        Its own way is another transaction, and needs a query for each run.
        """
        table = self._table
        key = 'w.workflow_uuid COLLATE "C"' if self._database.is_postgres else "w.workflow_uuid"
        calls = (
            f"SELECT w.workflow_uuid FROM {ids} JOIN {table} w ON w.name = '{CALL}' "  # noqa: S608
            f"AND {key} >= i.id || '/' AND {key} < i.id || '0'"
        )
        chosen = ids.replace(":ids", ":segments")
        which = f"workflow_uuid IN (SELECT i.id FROM {chosen} UNION ALL {calls})"  # noqa: S608
        parts = [table.replace("workflow_status", part) for part in _PARTS]
        values = {"ids": runs, "segments": segments}
        return [(f"DELETE FROM {part} WHERE {which}", [values]) for part in (*parts, table)]  # noqa: S608


def _is_about_a_run(record: logging.LogRecord) -> bool:
    """Return False for what DBOS says of a run that was removed while it was under way."""
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or kind.__name__ != "DBOSNonExistentWorkflowError"


def refuse_pickles() -> None:
    """Let DBOS read no pickle, in this process.

    DBOS chooses by the row how to read it, whatever serializer it has. A pickle runs code, so
    anyone who can write a row could run code in a worker.
    """
    reader: Any = serialization.DefaultSerializer
    reader.deserialize = _refuse


def _refuse(_serializer: object, _text: str) -> Any:
    raise HandrailError("A pickle in the database of durable runs was not read: it could run code.")


def say_given_up(form: str | None) -> str:
    """Return why the engine gave a segment up, given the form of its row."""
    if form in (None, _JSON):
        return _GAVE_UP
    return (
        f"Its row in the database was not read: it has the form {form!r}, and handrail writes "
        f"{_JSON!r}. Someone else has changed it."
    )


def queue_name(name: str) -> str:
    """Return the engine's name of a queue of calls."""
    return f"handrail {name}"


def _limits(queue: CallQueue) -> dict[str, Any]:
    rate = queue.rate
    return {
        "worker_concurrency": queue.per_worker,
        "global_concurrency": queue.in_all,
        "partition_concurrency": queue.per_tenant,
        "limiter": None if rate is None else {"limit": rate[0], "period": rate[1]},
    }


def _register(name: str, body: Body) -> None:
    """Give a workflow its body. An earlier worker of this process may have left one."""

    async def run(text: str) -> str:
        return await body(text)

    registry = internals._get_or_create_dbos_registry()  # noqa: SLF001
    registry.workflow_info_map.pop(name, None)
    register: Any = DBOS.workflow(name=name, max_recovery_attempts=10_000)
    register(run)
