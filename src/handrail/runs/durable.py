"""Durable runs: an agent's runs survive the process, wait for days, and spread over workers.

Starting runs and working on them needs the extra ``handrail[durable]``. Everything else needs
nothing for a file, and ``handrail[postgres]`` for PostgreSQL.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

import anyio
from anyio import to_thread

from handrail import Json
from handrail.agent import Agent, RunState
from handrail.messages import Content, Message, Prompt
from handrail.permissions import Answer, Pending
from handrail.runs._durable.active import Active
from handrail.runs._durable.json_values import Unserializable, check_json
from handrail.runs._durable.orders import Order, Served
from handrail.runs._durable.questions import Questions
from handrail.runs._durable.queues import QueuedCalls
from handrail.runs._durable.reading import DurableRun, fork_run, read_run, read_whole
from handrail.runs._durable.removal import Removal
from handrail.runs._durable.rotation import check_keys
from handrail.runs._durable.rows import Rows, RunRow, cancel_row, run_row
from handrail.runs._durable.segments import Segments
from handrail.runs._engine.call_queue import CallQueue
from handrail.runs._engine.loading import load_engine
from handrail.runs._engine.port import segment_id
from handrail.runs._engine.workflows import Workflows
from handrail.runs._live.feed import Update
from handrail.runs._sealing.codec import Codec
from handrail.runs._serving.handle import DurableWorker, Measure
from handrail.runs._serving.versions import adopt_version
from handrail.runs._serving.worker import Worker
from handrail.runs._store.database import WRITERS, Database
from handrail.runs._store.schema import migrate
from handrail.runs.statuses import WORKED_ON, RunStatus
from handrail.runs.store import RunStore

__all__ = [
    "CallQueue",
    "DurableRun",
    "DurableRuns",
    "DurableWorker",
    "Measure",
    "Unserializable",
    "Update",
]

_MAX_PAUSE = 0.5
"""Seconds between two run checks."""


class DurableRuns:
    """Starts, watches, answers and works on durable runs in one database.

    Any number of processes can use the same database. Those that call ``work`` are workers. The
    others start runs, list them and answer their questions.

    Args:
        database: A path of a SQLite file, or ``postgresql://...``.
        agents: The agents that this process can run, by name.
        deps: Objects for the tools of each agent, by the agent's name.
        name: The name of your application: 3 to 256 lower case letters, digits, dashes, `_`.
        version: The version of your agents. Runs of another version wait for a worker of that one.
        poll: Seconds between two looks for work.
        segment_turns: How many turns a restart reads again at most.
        queues: Calls of these tools wait for any worker, within limits, by the queue's name.
        max_deaths: After this many deaths of its process in one segment, a run has failed.
        writers: How many transactions write at once, on PostgreSQL. A SQLite file has one writer.
        codec: Seals texts at rest.
    """

    def __init__(  # noqa: PLR0913  each is an option with a default
        self,
        database: str,
        agents: Mapping[str, Agent[Any]],
        *,
        deps: Mapping[str, Any] | None = None,
        name: str = "handrail",
        version: str = "1",
        poll: float = 0.25,
        segment_turns: int = 20,
        queues: Mapping[str, CallQueue] | None = None,
        max_deaths: int = 5,
        writers: int = WRITERS,
        codec: Codec | None = None,
    ) -> None:
        self._database = Database(database, writers=writers, codec=codec)
        self._store = RunStore(self._database)
        self._rows = Rows(self._database)
        self._questions = Questions(self._database)
        self._workflows = Workflows(self._database, name, version, max_deaths=max_deaths)
        self._removal = Removal(self._database, self._workflows, self._stop)
        self._served = {key: Served(agent, (deps or {}).get(key)) for key, agent in agents.items()}
        self._queues = queues or {}
        self._name, self._version, self._segment_turns = name, version, segment_turns
        self._poll, self._max_deaths = poll, max_deaths
        self._users = 0
        self._opening = anyio.Lock()
        self._engine: Any = None
        self._segments: Segments | None = None
        self._worked: Any = None
        """A worker's runs. It waits for a database that is away; callers get an error."""

    async def __aenter__(self) -> Self:
        async with self._opening:
            if not self._users:
                await to_thread.run_sync(self._prepare)
            self._users += 1
        return self

    def _prepare(self) -> None:
        """Check the connections, and create or change the tables."""
        try:
            self._database.check_sessions()
            migrate(self._database)
            check_keys(self._database)
        except BaseException:
            self._database.close()
            raise

    async def _open_engine(self) -> Segments:
        """Return the segments, with an open engine. Only starting runs and work need it."""
        if not self._users:
            raise RuntimeError("The runs are not open. Use `async with runs:`.")
        async with self._opening:
            self._segments = self._segments or self._load_segments()
            await self._engine.open()
            return self._segments

    def _load_segments(self) -> Segments:
        queues = self._queues
        options: dict[str, Any] = {"poll": self._poll, "max_deaths": self._max_deaths}
        where = (self._database, self._name, self._version)
        self._engine = engine = load_engine()(*where, queues=queues, **options)
        patient = self._database.without_deadline()
        rows, active = Rows(patient), Active(self._rows)
        calls = QueuedCalls(engine, rows, self._served, queues=queues, active=active)
        self._worked = Segments(engine, rows, Questions(patient), calls)
        self._worked.turns = self._segment_turns
        return Segments(engine, self._rows, self._questions, calls)

    async def __aexit__(self, *_: object) -> None:
        self._users -= 1
        if not self._users:
            with anyio.CancelScope(shield=True):
                if self._engine is not None:
                    await self._engine.close()
                await to_thread.run_sync(self._database.close)

    async def start(
        self,
        agent: str,
        *prompt: str | Content,
        history: Iterable[Message] = (),
        run_id: str | None = None,
        principal: str | None = None,
        metadata: Mapping[str, Json] | None = None,
        labels: Iterable[str] = (),
    ) -> str:
        """Start a run, and return its id. A second start with the same id joins the first.

        ``history`` are the messages it continues. Labels, such as ``team=payments``, say who sees
        the run in ``RunStore.records``.
        """
        if agent not in self._served:
            names = ", ".join(sorted(self._served))
            raise LookupError(f"There is no agent {agent!r}. There are {names}.")
        check_json(facts := dict(metadata or {}), "metadata")
        run = uuid.uuid4().hex if run_id is None else run_id
        if "/" in run:
            raise ValueError(f"The id of a run must not have a slash: {run!r}.")
        state = RunState(messages=(*history, Prompt.of(*prompt)), run_id=run)
        about: dict[str, Any] = {"labels": several} if (several := sorted(set(labels))) else {}
        return await self._start(agent, state, principal, facts, **about)

    async def _start(
        self,
        agent: str,
        state: RunState,
        principal: str | None,
        metadata: Mapping[str, Json],
        **about: Any,
    ) -> str:
        run, segments = state.run_id, await self._open_engine()
        about |= {"agent": agent, "principal": principal, "turns": state.turns}
        about |= {"application": self._name, "version": self._version}
        row = run_row(run, agent, principal, metadata=json.dumps(metadata), app=self._name)
        await segments.start(Order(run, 0, agent, principal, metadata), row, state, **about)
        return run

    async def get(self, run_id: str) -> DurableRun:
        """Return where a run stands. Raises LookupError if there is none with this id."""
        return await self._look(run_id, engine=True)

    async def _look(self, run_id: str, *, engine: bool) -> DurableRun:
        """Return where a run stands, and ask the engine too if it should run."""
        row = await self._find(run_id)
        if engine and row.status in WORKED_ON:
            for _, _, why in await self._workflows.given_up(run_id):
                row = row._replace(status="failed", outcome=json.dumps(["error", why, None]))
        return await read_whole(self._rows, row, self._served.get(row.agent))

    async def _find(self, run_id: str) -> RunRow:
        row = await self._rows.find_run(run_id)
        if row is None:
            raise LookupError(f"There is no run {run_id!r}.")
        return row

    async def wait(self, run_id: str, *, seconds: float = 3600.0) -> DurableRun:
        """Return a run once it has ended, or waits for an answer. Raises TimeoutError."""
        pause = 0.02
        with anyio.fail_after(seconds):
            while True:
                run = await self._look(run_id, engine=pause >= _MAX_PAUSE)
                is_open = run.status != "waiting" or await self.inbox(run_id=run_id, limit=1)
                if run.status not in WORKED_ON and is_open:
                    return run
                await anyio.sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE)

    async def list(
        self, status: RunStatus | None = None, *, limit: int = 100
    ) -> tuple[DurableRun, ...]:
        """Return runs, the newest first, without their messages."""
        rows = await self._rows.list_runs(status, limit)
        return tuple(read_run(row, whole=False) for row in rows)

    @property
    def store(self) -> RunStore:
        """The runs: their journal, requests and records."""
        return self._store

    def watch(self, run_id: str, *, after: str = "") -> AsyncIterator[Update]:
        """Yield a run's events, and its text while it arrives; see ``RunStore.watch``."""
        return self._store.watch(run_id, after=after)

    async def inbox(self, *, run_id: str | None = None, limit: int = 100) -> tuple[Pending, ...]:
        """Return what waits for a person, over all runs or in one, the most urgent first."""
        open_ = await self._questions.open(time.time(), limit, run_id)
        return tuple(question.pending for question in open_)

    async def answer(self, pending_id: str, answer: Answer, *, by: str | None = None) -> None:
        """Answer a question: an answer works once. The run continues in any worker.

        Raises LookupError if there is no such question, and ValueError if the answer is not used:
        ``RunStore.answer`` returns why as a value.
        """
        outcome = await self.store.answer(pending_id, answer, by=by or "")
        if outcome.status == "unknown":
            raise LookupError(f"There is no question {pending_id!r}.")
        if not outcome.used:
            raise ValueError(f"{pending_id!r}: {outcome.text}")

    async def cancel(self, run_id: str) -> bool:
        """Stop a run, and its tools. Returns False if it has already ended."""
        row = await self._find(run_id)
        if not await self._rows.journal(run_id).cancel(cancel_row(run_id)):
            return False
        await self._workflows.cancel(segment_id(run_id, row.segment))
        return True

    async def resume(self, run_id: str) -> None:
        """Continue a failed run from its last complete turn, with the same metadata.

        Raises ValueError if it has not failed, or cannot continue.
        """
        row = await self._find(run_id)
        await (await self._open_engine()).resume(row)

    async def fork(
        self,
        run_id: str,
        *,
        turn: int | None = None,
        new_id: str | None = None,
        agent: str | None = None,
        text: str | None = None,
    ) -> str:
        """Start another run from a run that has ended, as it was after a turn.

        It has the same principal and metadata.

        Args:
            run_id: The run.
            turn: The number of the turn; default: the last one.
            new_id: The id of the new run.
            agent: Another agent: with another model, or other rules.
            text: Text to put in place of the model's text in that turn.
        """
        run = await self.get(run_id)
        if run.state is None:
            raise ValueError(f"The run {run_id!r} has not ended: it is {run.status}.")
        state = fork_run(run.state, turn, text=text, new_id=new_id)
        about = {"forked_from": run_id, "forked_at": state.turns}
        return await self._start(agent or run.agent, state, run.principal, run.metadata, **about)

    async def remove(self, run_id: str) -> None:
        """Remove a run, with everything belonging to it. An unfinished one is cancelled first."""
        await self._find(run_id)
        await self._removal.remove([run_id])

    async def prune(self, *, older_than: float, max_seconds: float | None = None) -> int:
        """Remove runs that ended more than ``older_than`` seconds ago, and return their number.

        With ``max_seconds``, it stops after the batch ending later than this.
        """
        return await self._removal.prune(time.time() - older_than, max_seconds)

    async def erase(self, principal: str) -> int:
        """Remove all runs on a principal's behalf, and return their number.

        The principal's conversations and files in ``handrail.web`` are removed, too, and remembered
        approvals. For each run, one row stays, under a digest of its id: how its chain ended, and
        when it was erased. Counts of budgets and rate limits stay.
        """
        return await self._removal.erase(principal)

    async def _stop(self, run_id: str) -> int:
        """Cancel a run unless it has ended, and return its last segment's number."""
        await self.cancel(run_id)
        return (await self._find(run_id)).segment

    async def adopt(self, version: str) -> int:
        """Let this version's workers continue another version's runs, whose workers have ended.

        Returns how many run parts were moved. A living worker of the other version keeps its own
        runs.
        """
        moving = {"old": version, "new": self._version}
        return await adopt_version(self._database, self._workflows, self._rows, **moving)

    @asynccontextmanager
    async def work(
        self, *, slots: int = 100, drain_seconds: float = 30.0, interval: float = 1.0
    ) -> AsyncGenerator[DurableWorker]:
        """Work on runs inside: ``async with runs.work(): ...``.

        The block ends after the last call here has ended, however long that takes: until then, no
        other worker continues its run. A plain function that has timed out, or whose run was
        cancelled, is still a call until it returns.

        Args:
            slots: How many runs this process works on at once. A waiting run takes none.
            drain_seconds: At the end, how long turns may begin more calls.
            interval: Seconds between two looks for workers that died.
        """
        async with self, self._work(slots, drain_seconds, interval) as worker:
            yield worker

    @asynccontextmanager
    async def _work(
        self,
        slots: int,
        drain_seconds: float,
        interval: float,
        end_process: Callable[[int], object] | None = None,
    ) -> AsyncGenerator[DurableWorker]:
        options: dict[str, Any] = {"slots": slots, "poll": self._poll, "interval": interval}
        segments = await self._open_engine()
        parts = (self._database, self._engine, self._worked, segments)
        worker = Worker(*parts, version=self._version, end_process=end_process, **options)
        async with worker.running(drain_seconds):
            yield DurableWorker(worker)

    async def serve(
        self,
        *,
        slots: int = 100,
        drain_seconds: float = 30.0,
        interval: float = 1.0,
        health: tuple[str, int] | None = None,
        on_start: Callable[[DurableWorker, int], None] | None = None,
    ) -> None:
        """Work on runs until the process gets SIGTERM or SIGINT. For the program of a worker.

        If calls outlast ``drain_seconds`` and five seconds more, it ends the process with exit code
        75: what still runs in a thread must not outlive the worker. This includes a plain function
        whose call has timed out.

        Args:
            slots: How many runs this process works on at once.
            drain_seconds: At the end, how long to wait for the turns that run.
            interval: Seconds between two looks for workers that died.
            health: Host and port where ``/healthz``, ``/readyz`` and ``/metrics`` answer.
            on_start: Gets the worker, and the port of ``health`` (0 without one).
        """
        from handrail.runs._serving.ending import end_process
        from handrail.runs._serving.health import serve_until_signal

        async with self, self._work(slots, drain_seconds, interval, end_process) as worker:
            await serve_until_signal(worker, health, on_start)
