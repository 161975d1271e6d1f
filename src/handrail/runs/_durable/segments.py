"""Run segments: each continues where the one before it stopped, in any process."""

from __future__ import annotations

import json
import logging
import time
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

import anyio

from handrail.agent import (
    OnEvent,
    Run,
    RunArgs,
    RunEvent,
    RunResult,
    RunState,
    dump_state,
    load_state,
)
from handrail.messages import ModelError
from handrail.permissions import Pending, read_answer
from handrail.runs._durable.journal import MakeRow, RunJournal
from handrail.runs._durable.orders import Order
from handrail.runs._durable.questions import Questions, next_deadline
from handrail.runs._durable.queues import QueuedCalls
from handrail.runs._durable.reading import read_run
from handrail.runs._durable.recorder import SegmentFull, SegmentRecorder
from handrail.runs._durable.rows import Rows, RunRow, end_row, head_row, reopen_row, take_row
from handrail.runs._engine.port import Engine, segment_id
from handrail.runs._live.sending import Sender
from handrail.runs._store.claims import PAUSES
from handrail.runs._store.points import reach
from handrail.runs._store.port import DatabaseError, Step
from handrail.runs._store.writes import StepRecord
from handrail.runs.journal import JournalEntry, RunHead
from handrail.runs.states import STATE, count_shared, read_states, state_line
from handrail.runs.statuses import FAILED, WAITING, RunStatus, Standing, translate_stop
from handrail.telemetry import continue_trace, read_trace

log = logging.getLogger("handrail.runs")

_End: TypeAlias = tuple[Standing, str, RunState]
"""The run's status after a segment, why it ended, and its state."""
_KEPT = 64
"""States a worker keeps for segments it has queued."""


def _tell_both(first: OnEvent, other: OnEvent, event: RunEvent) -> None:
    first(event)
    other(event)


def questions_of(state: RunState) -> list[Pending]:
    """Return a state's calls waiting for a person, and not only for other calls."""
    return [pending for pending in state.pending if pending.kind != "waiting"]


class Segments:
    """Runs segments: the body for the engine's one durable function."""

    def __init__(
        self,
        engine: Engine,
        rows: Rows,
        questions: Questions,
        calls: QueuedCalls,
    ) -> None:
        self._engine = engine
        self.rows = rows
        self.questions = questions
        self.turns = 20
        """How many turns a segment has: what a restart reads again."""
        self.is_draining = False
        """Whether the worker stops. Its segments end before their next reply."""
        self.is_clearing = False
        """Whether the worker lets its segments end in the same way, to run one alone."""
        self.calls = calls
        self.live = Sender(rows.database)
        """Sends replies while they arrive."""
        self._next: dict[str, RunState] = {}
        """States for segments following local ones, which need no read."""

    async def start(self, order: Order, row: Step, state: RunState, **about: Any) -> None:
        """Start a run from a state. A second start with the same id joins the first.

        Its row, its state and its first segment are written in one transaction.
        """
        first = StepRecord(order.number, None, state_line(state, 0, time.time()).body)
        await self._queueing(order).begin(row, first, state.messages, **about)
        reach("run.started")

    def _queueing(self, order: Order) -> RunJournal:
        """Return a run's journal, whose writes also queue a segment."""
        text = json.dumps(order._replace(trace=read_trace()))
        return self.rows.journal(order.run, self._engine.starting(order.id, order.agent, text))

    async def resume(self, row: RunRow) -> None:
        """Continue a failed run. Raises ValueError if it has not failed, or cannot continue.

        A run given up continues in its segment. Any other one has a state: a new segment.
        """
        run, number = read_run(row), row.segment + 1
        saved = run.state if run.status == "failed" else None
        if saved is not None:
            order = Order(run.id, number, run.agent, run.principal, run.metadata)
            journal = self._queueing(order._replace(state=dump_state(saved)))
            continues = await journal.requeue(reopen_row(run.id, number))
        elif continues := await self._engine.retry(run.id, row.segment, run.agent):
            await self.rows.journal(run.id).note_resume()
        if not continues and run.status == "failed":
            raise ValueError(f"The run {run.id!r} cannot continue: {run.why}")
        if not continues:
            raise ValueError(f"The run {run.id!r} has not failed: it is {run.status}.")

    async def _add_state(self, order: Order, before: RunState, state: RunState) -> None:
        """Write a segment's state: the messages added since the one before it."""
        line = state_line(state, count_shared(before, state), time.time())
        await self.rows.add_state(order.run, order.number, line.body)

    async def _find_state(self, order: Order, body: str | None = None) -> RunState:
        """Return a segment's initial state, which may have been read."""
        known = self._next.pop(order.id, None)
        if known is not None:
            return known
        if order.state is not None:
            return load_state(order.state)
        bodies = [body] if body else await self.rows.states_of(order.run, order.number)
        entries = [JournalEntry(order.run, at, STATE, one, "") for at, one in enumerate(bodies)]
        return list(read_states(entries))[-1]

    async def run(self, text: str) -> str:
        """Run one segment, and return the run's status after it."""
        order = Order(*json.loads(text))
        # if the block ends early, it was cancelled
        status: RunStatus = "cancelled"
        with self.calls.active.running(order.run, order.id), continue_trace(order.trace or {}):
            status = await self._run_again(order)
        return status  # noqa: RET504  the block may end early

    async def _run_again(self, order: Order) -> RunStatus:
        """Run a segment, and again after a pause if the database refuses to write."""
        for pause in PAUSES:
            try:
                return await self._run(order)
            except DatabaseError:
                log.exception("the run %s continues in %d seconds", order.run, pause)
            await anyio.sleep(pause)
        # the last try: a run that can never be written must not come back for ever
        try:
            return await self._run(order)
        except DatabaseError as error:
            state = await self._find_state(order)
            return await self._fail(order, self.rows.journal(order.run), state, error)

    async def _run(self, order: Order) -> RunStatus:
        journal = self.rows.journal(order.run)
        body = await journal.read_opening(order.number)
        state, taken_row = await self._find_state(order, body), take_row(order.run)
        if not await journal.open(state.turns, state.calls, order.number, taken_row):
            return "cancelled"  # by a process that died before it told the engine
        recorder = SegmentRecorder(
            self.rows,
            journal,
            order,
            self.calls,
            turns=self.turns,
            is_draining=lambda: self.is_draining or self.is_clearing,
        )
        options, live = self._make_options(order), self.live.begin(order.run, state.turns)
        options["on_event"] = partial(_tell_both, journal.on_event, live.on_event)
        taken = "{}"
        if state.waiting:
            # a step, as a restart must take the same answers though more may have come
            taken = await recorder.step(partial(self._take_answers, order, state))
        try:
            given: dict[str, str] = json.loads(taken)
            options["answers"] = {id_: read_answer(json.loads(one)) for id_, one in given.items()}
            run = self.calls.served[order.agent].agent.run_recorded(state, recorder, **options)
        except Exception as error:  # noqa: BLE001  the run ends as failed
            return await self._fail(order, journal, state, error)
        # a state in the order is in no row: all its messages are written
        before = state if order.state is None else RunState()
        status = await self._finish(order, journal, before, run)
        live.end()
        return status

    async def _finish(
        self, order: Order, journal: RunJournal, before: RunState, run: Run[Any]
    ) -> RunStatus:
        """Run the agent, and record how the segment ended."""
        try:
            done = await run
        except SegmentFull:  # no failure: the model continues in another segment
            return await self._continue(order.next, before, run.state)
        except ModelError as error:
            return await self._fail(order, journal, run.state, error)
        except DatabaseError:
            raise
        except Exception as error:
            log.exception("the run %s failed", order.run)
            return await self._fail(order, journal, run.state, error)
        if done.stop_reason == "pending":
            return await self._park(order, journal, before, done.state)
        return await self._end(order, journal, done)

    def _make_options(self, order: Order) -> RunArgs:
        served = self.calls.served.get(order.agent)
        options: RunArgs = {"metadata": order.metadata}
        if order.principal is not None:
            options["principal"] = order.principal
        if served is not None and served.deps is not None:
            options["deps"] = served.deps
        return options

    async def _take_answers(self, order: Order, state: RunState) -> str:
        """Return the answers to the run's questions. Expired ones are denied."""
        open_ = questions_of(state)
        await self.questions.expire(open_, time.time())
        taken = await self.questions.take(order.run, open_)
        await self.rows.wake_run(order.run, order.number)
        reach("answers.taken")
        return json.dumps(taken)

    # What follows is repeated after a crash. It changes nothing then, so it is no step.

    async def _park(
        self, order: Order, journal: RunJournal, before: RunState, state: RunState
    ) -> RunStatus:
        """Let the run wait for a person: as one row, until an answer or the first deadline."""
        open_ = questions_of(state)
        following = order.next
        await self._add_state(following, before, state)
        head, is_kept = await self._seal(order, journal, (WAITING, "", state), head_row)
        if not is_kept:
            await self.rows.keep_head(head)
        text, seconds = json.dumps(following), next_deadline(open_)
        await self._engine.park(following.id, following.agent, text, seconds)
        reach("run.parked")
        # after it is parked: an answer wakes what is parked
        await self.questions.ask(following.run, following.number, open_)
        await self.rows.move_run(following.run, "waiting", following.number)
        reach("run.asked")
        if await self.questions.answered(following.run):  # while this segment still ran
            await self.wake(following.run, following.number)
        return "waiting"

    async def wake(self, run: str, number: int) -> None:
        """Let a waiting run continue."""
        await self._engine.wake(segment_id(run, number))

    async def _continue(self, following: Order, before: RunState, state: RunState) -> RunStatus:
        """Continue in another segment, bounding the steps a restart reads."""
        await self._add_state(following, before, state)
        # newest first: the oldest are dropped, and read from rows
        self._next = {following.id: state, **dict(islice(self._next.items(), _KEPT))}
        await self._engine.start(following.id, following.agent, json.dumps(following))
        await self.rows.move_run(following.run, "running", following.number)
        return "running"

    async def _end(self, order: Order, journal: RunJournal, done: RunResult[Any]) -> RunStatus:
        how = (translate_stop(done.stop_reason), done.stop_detail, done.state)
        return await self._record_end(order, journal, how)

    async def _fail(
        self, order: Order, journal: RunJournal, state: RunState, error: Exception
    ) -> RunStatus:
        how = (FAILED, f"{type(error).__name__}: {error}", state)
        self.calls.active.counts.failed += 1
        return await self._record_end(order, journal, how)

    async def give_up(self, run: str, number: int, why: str) -> None:
        """Record a run's failure because its segment cannot run.

        It has no state: its segment has more steps than the last one known.
        """
        log.error("the run %s failed: %s", run, why)
        self.calls.active.counts.failed += 1
        head = await self.rows.journal(run).note_failure(why)
        outcome = json.dumps(["error", why, None])
        guard = self._engine.failure(run, number)  # it may have been resumed in between
        await self.rows.end_run(head, "failed", number, outcome, guard)

    async def _record_end(self, order: Order, journal: RunJournal, how: _End) -> RunStatus:
        """Record how a run ended, with a state to continue from."""
        standing, why, state = how
        outcome = json.dumps([standing.reason, why, dump_state(state)])
        ending = (standing.status, order.number, outcome)
        head, is_kept = await self._seal(order, journal, how, lambda head: end_row(head, *ending))
        if not is_kept:
            await self.rows.end_run(head, *ending)
        reach("run.ended")
        return standing.status

    async def _seal(
        self, order: Order, journal: RunJournal, how: _End, make_row: MakeRow
    ) -> tuple[RunHead, bool]:
        """Write how a segment ended to the journal, with a row; see ``RunJournal.seal``."""
        standing, why, state = how
        ended = datetime.now(UTC).isoformat(timespec="seconds")
        counts: dict[str, Any] = {"turns": state.turns, "calls": state.calls}
        counts |= {"cost": str(state.cost)} if state.cost else {}
        about = {"why": why, "ended": ended, **counts}
        head, is_kept = await journal.seal(order.number, standing, make_row, **about)
        if journal.held is not None and not is_kept:  # perhaps the run is cancelled
            await self.rows.add_step(order.run, journal.held)
        reach("run.sealed")
        return head, is_kept
