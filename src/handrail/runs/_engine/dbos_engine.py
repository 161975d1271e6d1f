"""DBOS Transact as the engine. Only the other modules ``dbos_...`` know it, too."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, cast

import anyio
from anyio import to_thread
from dbos import DBOS, DBOSClient, DBOSConfig, DBOSPortableJSONSerializer

from handrail import HandrailError
from handrail._support.loop import running_loop
from handrail.runs._engine.call_queue import CallQueue
from handrail.runs._engine.dbos_connections import connect, make_engine
from handrail.runs._engine.dbos_internals import (
    Taken,
    begin,
    check_instance,
    check_names,
    end_checks,
    end_retries,
    find_instance,
    find_system,
    forget_workflow,
    read_settings,
    refuse_pickles,
    take,
)
from handrail.runs._engine.dbos_tables import make_current
from handrail.runs._engine.port import Body, agent_queue, call_queue
from handrail.runs._engine.workflows import CALL, CALL_DEATHS, JSON, SEGMENT, Workflows
from handrail.runs._sealing.codec import KeyMissing
from handrail.runs._store.database import Database
from handrail.runs._store.port import Step, Transact

log = logging.getLogger("handrail.runs")

_DOUBT_SECONDS = 60.0
"""How long a server may take to commit what its client has given up."""
_KEY_SECONDS = 10.0
"""Seconds until a segment is queued again whose texts this worker cannot open."""
_STOP_SECONDS = 0.1
"""How soon a DBOS thread sees its end."""


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
        self._seals = database.seals
        self._sql = make_engine(database)
        self._name = name
        self._version = version
        self._poll = poll
        self._limits = {call_queue(key): queue for key, queue in queues.items()}
        self._client: DBOSClient | None = None
        self._is_own = False
        self.taken: dict[str, str] = {}
        """Queues of local segments and calls, by their ids."""
        self._failed: dict[str, float] = {}
        """Tokens for work perhaps taken and not begun, and how long to look for it."""
        self._max_deaths = max_deaths
        self._rows = rows = Workflows(database, name, version, max_deaths=max_deaths)
        self.find, self.wake, self.cancel = rows.find, rows.wake, rows.cancel
        self.failure, self.measure = rows.failure, rows.measure
        self.given_up, self.owners, self.owned = rows.given_up, rows.owners, rows.owned
        self.recover, self.excuse, self.retry = rows.recover, rows.excuse, rows.retry

    @property
    def application(self) -> tuple[str, str]:
        """The application's name and version."""
        return self._name, self._version

    async def open(self) -> None:
        """Connect to the DBOS tables, creating or updating them if necessary."""
        if self._client is None:
            self._client = await to_thread.run_sync(self._connect)

    def _connect(self) -> DBOSClient:
        make_current(self._database, self._sql)
        return DBOSClient(
            system_database_engine=self._sql,
            serializer=DBOSPortableJSONSerializer(),
            application_name=self._name,
        )

    @property
    def client(self) -> DBOSClient:
        """The connection to the DBOS tables, while it is open."""
        return cast("DBOSClient", self._client)

    async def launch(self, body: Body, call_body: Body, worker: str) -> None:
        """Prepare to run segments: in an own instance, or in this process's."""
        check_names()
        host = find_instance()
        self._is_own = host is None
        if host is not None:
            check_instance(host)
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
            try:
                check_instance(find_instance())
            except HandrailError:
                await to_thread.run_sync(DBOS.destroy)
                raise
            end_checks(find_instance())

    def _register(self, name: str, body: Body, max_deaths: int) -> None:
        """Give a workflow its body."""

        async def run(*given: Any, **named: Any) -> str:
            segment = str(DBOS.workflow_id)
            try:
                text = await body(*map(self._seals.open_text, given), **named)
            except KeyMissing:
                log.exception("%s waits for a worker that has the key", segment)
                await self.delay(segment, _KEY_SECONDS)
                text = None
            finally:
                self.taken.pop(segment, None)
            if text is None:  # its row waits again, and must not get an outcome
                raise anyio.get_cancelled_exc_class()
            return self._seals.seal_text(text)

        forget_workflow(name)
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
            use_listen_notify=False,  # we wait for no such notice
            notification_listener_polling_interval_sec=_STOP_SECONDS,
        )

    def _check_host(self, host: Any) -> None:
        """Refuse to join an instance which does not see our segments."""
        found = read_settings(host)
        joined = (found.name, DBOS.application_version, found.url)
        wanted = (self._name, self._version, self._database.url)
        if joined != wanted:
            raise HandrailError(
                "This process already uses DBOS, with the name, version and database "
                f"{joined[:2]}. Durable runs join it only if theirs are the same: {wanted[:2]}."
            )
        if found.serializer != JSON:
            raise HandrailError(
                "This process uses DBOS with rows that are not JSON, such as pickles, which run "
                "code when they are read. Give it `serializer=DBOSPortableJSONSerializer()`."
            )

    def find_host(self) -> str | None:
        """Return this process's id if it already uses DBOS."""
        return None if find_instance() is None else DBOS.executor_id

    async def drain(self, seconds: float) -> None:
        """Wait for running segments."""
        if self._is_own:
            self._is_own = False
            system = find_system(find_instance())
            whole = partial(DBOS.destroy, workflow_completion_timeout_sec=int(seconds))
            await to_thread.run_sync(whole)
            end_retries(system)  # for a segment's later writes
            # DBOS gave the loop its own threads for `to_thread`, and has ended them
            loop: Any = running_loop()
            loop.set_default_executor(ThreadPoolExecutor())

    async def close(self) -> None:
        """Close all connections."""
        if self._client is not None:
            await to_thread.run_sync(self._client.destroy)
        self._client = None
        await to_thread.run_sync(self._sql.dispose)

    async def start(self, segment_id: str, agent: str, text: str) -> None:
        """Queue a segment. A second start with the same id joins the first."""
        await self._enqueue(segment_id, agent, text)

    async def park(self, segment_id: str, agent: str, text: str, seconds: float) -> None:
        """Queue a segment for later, as one row."""
        await self._enqueue(segment_id, agent, text, delay_seconds=seconds)

    async def _enqueue(self, segment_id: str, agent: str, text: str, **more: Any) -> None:
        options = {**self._make_options(segment_id, agent), **more}
        await self._queue(segment_id.rpartition(":")[0], options, text)

    def _make_options(self, segment_id: str, agent: str) -> Any:
        return {
            "workflow_name": SEGMENT,
            "queue_name": agent_queue(agent),
            "workflow_id": segment_id,
            "app_version": self._version,
        }

    def starting(self, segment_id: str, agent: str, text: str) -> Transact:
        """Return a function for transactions that also queue a segment, if they change anything."""
        options = self._make_options(segment_id, agent)

        def transact(steps: Sequence[Step], guards: int) -> list[int]:
            with self._database.beside(), connect(self._sql) as (connection, own):
                changed = self._database.transact_on(own, steps, guards)
                if changed:
                    sealed = self._seals.seal_text(text)
                    self.client.enqueue_in_transaction(connection, options, sealed)
                    connection.commit()
                return changed

        return partial(self._database.in_thread, transact)

    async def _queue(self, run: str, options: Any, text: str) -> None:
        """Queue part of a run. Nothing stays if the run was removed at the same time."""
        await to_thread.run_sync(self.client.enqueue, options, self._seals.seal_text(text))
        await self._rows.drop_removed(run, options["workflow_id"])

    async def queued(self, queues: Collection[str]) -> list[str]:
        """Return the queues with something for this version."""
        for token, until in list(self._failed.items()):
            await self._rows.put_back(token)
            if time.monotonic() > until:
                del self._failed[token]
        return await self._rows.queued(queues)

    async def take(self, queue: str, most: int) -> int:
        """Take at most ``most`` segments from a queue, and begin to run them."""
        return await to_thread.run_sync(self._take, queue, most)

    def _take(self, queue: str, most: int) -> int:
        host, limits, token = find_instance(), self._limits.get(queue), uuid.uuid4().hex
        running = list(self.taken.values()).count(queue)
        try:
            rows = take(host, Taken(queue, most, limits, running if limits else 0, token))
        except Exception:
            # it may have taken some, also later if the server still waits to commit
            self._failed[token] = time.monotonic() + _DOUBT_SECONDS
            raise
        for row in rows:
            segment_id: str = row["workflow_uuid"]
            self.taken[segment_id] = queue
            try:
                begin(host, row, token)
            except Exception:
                self.taken.pop(segment_id, None)
                log.exception("%s cannot run", segment_id)  # its row is marked as given up
        return len(rows)

    async def delay(self, segment_id: str, seconds: float) -> None:
        """Put back what this process has taken and cannot run. It is queued again later."""
        await self._rows.delay(segment_id, DBOS.executor_id, seconds)

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
        await self._queue(key.partition("/")[0], options, text)
        handle: Any = await self.client.retrieve_workflow_async(key)
        try:
            given: str = await handle.get_result(polling_interval_sec=self._poll)
        except Exception:  # noqa: BLE001  it was cancelled, or the engine gave it up
            return None
        return self._seals.open_text(given)


def _is_about_a_run(record: logging.LogRecord) -> bool:
    """Return False for DBOS messages about a run removed while under way."""
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or kind.__name__ != "DBOSNonExistentWorkflowError"
