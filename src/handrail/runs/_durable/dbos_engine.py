"""DBOS Transact as the engine. The only module that knows it."""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import metadata
from typing import Any

import anyio
from anyio import to_thread
from dbos import DBOS, DBOSClient, DBOSConfig, DBOSPortableJSONSerializer
from dbos import _core as core
from dbos import _dbos as internals
from dbos import _queue as dbos_queues
from dbos import _serialization as serialization

from handrail import HandrailError
from handrail._support.loop import running_loop
from handrail.runs._durable.call_queue import CallQueue
from handrail.runs._durable.dbos_connections import make_engine
from handrail.runs._durable.port import Body, agent_queue, call_queue
from handrail.runs._durable.workflows import CALL, CALL_DEATHS, JSON, SEGMENT, Workflows
from handrail.runs._store.database import Database

log = logging.getLogger("handrail")

_BUSY = {"55P03", "40001"}
"""What PostgreSQL says if another worker takes from the same queue now."""
_STOP_SECONDS = 0.1
"""How often DBOS looks whether it should stop. A stop waits for it."""


class DbosEngine:
    """Runs segments as DBOS workflows: a queue for each agent, and one for each queue of calls.

    DBOS would check each queue all the time, in a separate thread. Here, the worker says when
    to take something, and DBOS takes it.

    A program that already uses DBOS with the same database is joined: its instance runs them.

    Args:
        database: Where DBOS keeps its tables.
        name: The name of the application. Only its own workers run its segments.
        version: The version of the application. Only workers of this version run its segments.
        poll: Seconds between two checks of the queue.
        queues: The queues of calls.
        max_deaths: After this many deaths of its workers, a segment is given up.
    """

    def __init__(
        self,
        database: Database,
        name: str,
        version: str,
        *,
        poll: float,
        queues: Mapping[str, CallQueue],
        max_deaths: int,
    ) -> None:
        self._database = database
        self._sql = make_engine(database)
        self._name = name
        self._version = version
        self._poll = poll
        self._limits = {call_queue(key): queue for key, queue in queues.items()}
        self._client: DBOSClient | None = None
        self._is_own = False
        self.taken: dict[str, str] = {}
        """The queues of the segments and calls that this process runs, by their ids."""
        self._max_deaths = max_deaths
        rows = Workflows(database, name, version, max_deaths=max_deaths)
        self.find, self.queued, self.adopt = rows.find, rows.queued, rows.adopt
        self.removal = rows.removal
        self.given_up, self.owners, self.owned = rows.given_up, rows.owners, rows.owned
        self.recover, self.excuse, self.retry = rows.recover, rows.excuse, rows.retry

    @property
    def version(self) -> str:
        """The version of DBOS."""
        return f"dbos {metadata.version('dbos')}"

    async def create(self) -> None:
        """Create the tables of DBOS, and an index for the calls of a run."""
        await to_thread.run_sync(DBOS.migrate, self._database.url)
        if self._database.is_postgres:
            await self._database.write(
                "CREATE INDEX IF NOT EXISTS handrail_calls ON dbos.workflow_status "
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

    async def launch(self, body: Body, call_body: Body, worker: str) -> None:
        """Prepare to run segments: in an own instance, or in the one that this process has."""
        host = self._find_instance()
        self._is_own = host is None
        if host is not None:
            self._check_host(host)
        refuse_pickles()
        logging.getLogger("dbos").addFilter(_is_about_a_run)
        self.taken.clear()
        self._register(SEGMENT, body, self._max_deaths)
        self._register(CALL, call_body, CALL_DEATHS)
        if self._is_own:
            DBOS(config=self._make_config(worker))
            DBOS.listen_queues([])
            DBOS.launch()  # in the loop's own thread: this loop then runs the segments

    def _register(self, name: str, body: Body, max_deaths: int) -> None:
        """Give a workflow its body. An earlier worker of this process may have left one."""

        async def run(text: str) -> str:
            try:
                given = await body(text)
            finally:
                self.taken.pop(str(DBOS.workflow_id), None)
            if given is None:  # its row waits again, and must not get an outcome
                raise anyio.get_cancelled_exc_class()
            return given

        registry = internals._get_or_create_dbos_registry()  # noqa: SLF001
        registry.workflow_info_map.pop(name, None)
        register: Any = DBOS.workflow(name=name, max_recovery_attempts=max_deaths - 1)
        register(run)

    def _make_config(self, worker: str) -> DBOSConfig:
        return DBOSConfig(
            name=self._name,
            system_database_url=self._database.url,
            system_database_engine=self._sql,
            application_version=self._version,
            executor_id=worker,
            serializer=DBOSPortableJSONSerializer(),
            log_level="ERROR",
            use_listen_notify=False,  # we wait for nothing that it would tell
            notification_listener_polling_interval_sec=_STOP_SECONDS,
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
        if host._serializer.name() != JSON:  # noqa: SLF001  there is no public way to ask
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
        """Wait for the segments that run."""
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

    async def start(self, segment_id: str, agent: str, text: str) -> None:
        """Queue a segment. A second start with the same id joins the first."""
        await self._enqueue(segment_id, agent, text)

    async def park(self, segment_id: str, agent: str, text: str, seconds: float) -> None:
        """Queue a segment for later, as one row."""
        await self._enqueue(segment_id, agent, text, delay_seconds=seconds)

    async def _enqueue(self, segment_id: str, agent: str, text: str, **more: Any) -> None:
        options: Any = {
            "workflow_name": SEGMENT,
            "queue_name": agent_queue(agent),
            "workflow_id": segment_id,
            "app_version": self._version,
            **more,
        }
        await to_thread.run_sync(self.client.enqueue, options, text)

    async def take(self, queue: str, most: int) -> int:
        """Take at most ``most`` segments from a queue, and begin to run them."""
        return await to_thread.run_sync(self._take, queue, most)

    def _take(self, name: str, most: int) -> int:
        host: Any = self._find_instance()
        system: Any = host._sys_db  # noqa: SLF001  there is no public way to take
        token = uuid.uuid4().hex
        ids = self._claim(system, name, most, token)
        rows: list[Any] = system.get_workflow_statuses(ids) if ids else []
        for row in rows:
            segment_id: str = row["workflow_uuid"]
            self.taken[segment_id] = name
            try:
                core.execute_dequeued_workflow(host, row, token)
            except Exception:
                self.taken.pop(segment_id, None)
                log.exception("%s cannot run", segment_id)  # its row is marked as given up
        return len(ids)

    def _claim(self, system: Any, name: str, most: int, token: str) -> list[str]:
        """Return what was taken from a queue, within the limits of a queue of calls."""
        limits = self._limits.get(name)
        queue = _make_queue(name, most, limits)
        running = 0 if limits is None else list(self.taken.values()).count(name)
        keys: list[str | None] = [None]
        if limits is not None and limits.per_tenant is not None:
            keys = system.get_queue_partitions(name)
            random.shuffle(keys)  # no tenant is always the last
        ids: list[str] = []
        mine = (DBOS.executor_id, DBOS.application_version)
        for key in keys:
            try:
                found, _ = system.start_queued_workflows(
                    queue, *mine, key, running + len(ids), owner_xid=token
                )
            except Exception as error:
                if getattr(getattr(error, "orig", None), "sqlstate", None) not in _BUSY:
                    raise
                continue
            ids += found
        return ids

    async def call(self, queue: str, key: str, text: str, tenant: str) -> str | None:
        """Queue a call, and return what its body gave; None if it gave nothing."""
        options: Any = {
            "workflow_name": CALL,
            "queue_name": call_queue(queue),
            "workflow_id": key,
            "app_version": self._version,
        }
        if self._limits[call_queue(queue)].per_tenant is not None:
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


def _make_queue(name: str, most: int, limits: CallQueue | None) -> Any:
    """Return a queue of DBOS that has no row, so that no other thread checks it."""
    named: dict[str, Any] = {"worker_concurrency": most}
    if limits is not None:
        rate = limits.rate
        named = {
            "worker_concurrency": limits.per_worker,
            "global_concurrency": limits.in_all,
            "partition_concurrency": limits.per_tenant,
            "limiter": None if rate is None else {"limit": rate[0], "period": rate[1]},
        }
    secret = dbos_queues._INTERNAL_QUEUE_CONSTRUCTION  # noqa: SLF001  else it needs a row
    return dbos_queues.Queue(name, **named, token=secret)
