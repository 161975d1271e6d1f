"""Chats whose runs this process runs. A run waiting for a person is recorded."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextvars import copy_context
from datetime import UTC, datetime
from functools import partial
from typing import Any

import anyio
from anyio import to_thread

from handrail._support.loop import spawn
from handrail.agent import Agent, RunState
from handrail.messages import Message
from handrail.permissions import Answer
from handrail.runs import RunRecord, translate_stop
from handrail.runs.lines import answer_fields
from handrail.runs.record import read_saved_answer
from handrail.runs.statuses import CANCELLED, FAILED, RUNNING, WAITING, Standing
from handrail.web._live import LiveRun, LiveRuns
from handrail.web._serving import Place
from handrail.web._visitor import Visitor
from handrail.web._wire import WireEvent, from_event, from_standing
from handrail.web._workers import prefix_of
from handrail.web.conversations import (
    LEASE_SECONDS,
    ConversationBusy,
    ConversationHead,
    Conversations,
)

_log = logging.getLogger("handrail.web")
_JOIN_SECONDS = 0.02
"""Pieces of text arriving within this time are sent together; the first one at once."""
_LOOK_SECONDS = 1.0
"""Between two checks for a run that waits, or runs in another process."""
_ELSEWHERE = WireEvent("end", {"status": "done", "reason": "", "reload": True})
"""The end of a run whose events are in another process. Its messages are in the store."""


class ProcessChats:
    """Runs an agent here, and tells all who watch.

    Args:
        agent: The agent.
        conversations: Their messages.
        deps: Returns the objects for a visitor's tools.
        linger: Seconds a run continues when no one watches it.
        details: Whether pages see arguments and results.
    """

    def __init__(
        self,
        agent: Agent[Any],
        conversations: Conversations,
        *,
        deps: Callable[[Visitor], Any] | None,
        linger: float,
        details: bool,
    ) -> None:
        self._agent = agent
        self._conversations = conversations
        self._store = conversations.store
        self._deps = deps
        self._linger = linger
        self._details = details
        self._lives = LiveRuns()

    async def start(
        self, head: ConversationHead, visitor: Visitor, messages: Sequence[Message]
    ) -> None:
        """Start a run in a new task."""
        live = LiveRun(head)
        self._lives.add(live)
        self._spawn(live, RunState(messages=tuple(messages), run_id=head.run), visitor, {})

    def _spawn(
        self, live: LiveRun, state: RunState, visitor: Visitor, answers: Mapping[str, Answer]
    ) -> None:
        live.is_working, live.is_waiting = True, False
        live.task = spawn(copy_context(), self._work, live, state, visitor, answers)

    async def _work(
        self, live: LiveRun, state: RunState, visitor: Visitor, answers: Mapping[str, Answer]
    ) -> None:
        """Run to the end, or to a question."""
        standing = FAILED
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._renew, live)
                if not answers:  # an answered call runs, whoever watches
                    group.start_soon(live.stop_unwatched, self._linger)
                state, standing = await self._run(live, state, visitor, answers)
                group.cancel_scope.cancel()
            await self._keep(live, state, visitor, standing)
        except Exception:  # noqa: BLE001  nothing awaits this task
            _log.exception("a chat's run could not be kept")
            standing = FAILED
        finally:
            live.is_working, live.is_waiting = False, standing == WAITING
            live.put(from_standing(standing))
        if live.is_waiting:
            await self.resume(live.head.run)  # an answer may have come before

    async def _run(
        self, live: LiveRun, state: RunState, visitor: Visitor, answers: Mapping[str, Answer]
    ) -> tuple[RunState, Standing]:
        options: dict[str, Any] = {"principal": visitor.principal, "metadata": visitor.metadata}
        if self._deps is not None:
            options["deps"] = self._deps(visitor)
        async with self._agent.stream(history=state, answers=answers, **options) as events:
            live.interrupt = events.interrupt
            try:
                async for event in events:
                    found = from_event(event, details=self._details)
                    if found is not None:
                        live.put(found)
            except Exception:  # noqa: BLE001  the conversation continues
                _log.exception("a chat's run failed")
                return events.state, FAILED
            return events.state, translate_stop(events.result.stop_reason)

    async def _renew(self, live: LiveRun) -> None:
        """Renew the claim until the run ends. If it was lost, stop."""
        while True:
            await anyio.sleep(LEASE_SECONDS / 3)
            try:
                live.head = await self._conversations.renew(live.head)
            except ConversationBusy:
                live.interrupt()
                return

    async def _keep(
        self, live: LiveRun, state: RunState, visitor: Visitor, standing: Standing
    ) -> None:
        head = live.head
        if standing == WAITING:
            live.is_recorded = True
            await to_thread.run_sync(self._record, head, state, visitor, standing)
            live.head = await self._conversations.park(head)
            return
        live.head = await self._conversations.settle(head, state.transcript()[head.entries :])
        if live.is_recorded:
            await to_thread.run_sync(self._record, head, state, visitor, standing)

    def _record(
        self, head: ConversationHead, state: RunState, visitor: Visitor, standing: Standing
    ) -> None:
        """Write where a run stands. Its questions are then in the inbox."""
        record = RunRecord(self._store, head.run)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        about: dict[str, Any] = {"began": now} if not record.head.entries else {}
        about |= {"labels": sorted(visitor.labels)} if visitor.labels else {}
        ended = {"ended": now} if standing != WAITING else {}
        record.keep(state)
        record.set_status(
            status=standing.status,
            reason=standing.reason,
            command="web",
            prompt=head.title,
            agent="chat",
            principal=visitor.principal,
            **about,
            **ended,
        )

    async def place(self, head: ConversationHead) -> Place:
        """Return the place behind the events so far."""
        live = self._lives.find(head.run)
        if live is None:
            return Place()
        calls = frozenset(one.data["id"] for one in live.events if one.kind == "call")
        return Place(str(len(live.events)), calls)

    async def watch(self, head: ConversationHead, after: str) -> AsyncGenerator[list[WireEvent]]:
        """Yield the run's events. In another process, only where it stands."""
        live = self._lives.find(head.run)
        seen = int(after) if after.isdecimal() else 0
        if live is None:
            async for events in self._watch_elsewhere(head):
                yield events
            return
        live.join()
        prefix = prefix_of(head)
        try:
            while True:
                found = live.read(seen, prefix)
                seen, until = len(live.events), anyio.current_time() + _JOIN_SECONDS
                if found:
                    yield found
                if found and found[-1].kind == "end":
                    return
                if live.is_waiting and await self._has_moved(live):
                    yield [_ELSEWHERE]
                    return
                if live.is_waiting and not found:
                    yield [from_standing(WAITING)]  # another process may ask
                await _wait(live, seen, until)
        finally:
            live.leave()

    async def _has_moved(self, live: LiveRun) -> bool:
        """Return whether another process has continued a run waiting here."""
        now = await self._conversations.head(live.head.principal, live.head.id)
        return live.is_waiting and (now.run != live.head.run or not now.lease)

    async def _watch_elsewhere(self, head: ConversationHead) -> AsyncGenerator[list[WireEvent]]:
        while head.lease:
            if head.lease < 0:
                yield [from_standing(WAITING)]
            await anyio.sleep(_LOOK_SECONDS)
            head = await self.settle(await self._conversations.head(head.principal, head.id))
        yield [_ELSEWHERE]

    async def resume(self, run: str) -> None:
        """Continue a run whose questions were answered, in this process."""
        head = await self._conversations.find(run)
        if head is None or head.lease >= 0:
            return
        state, answers = await to_thread.run_sync(self._read_answers, run)
        if not answers:
            return
        try:
            head = await self._conversations.renew(head)
        except ConversationBusy:
            return  # another process does it
        live = self._lives.find(run) or LiveRun(head)
        live.head, live.is_recorded = head, True
        self._lives.add(live)
        visitor = Visitor(principal=head.principal, metadata=head.metadata)
        await to_thread.run_sync(self._note_answers, run, answers, state)
        self._spawn(live, state, visitor, answers)

    def _read_answers(self, run: str) -> tuple[RunState, dict[str, Answer]]:
        record = RunRecord(self._store, run)
        state, given = record.state(), record.answers
        open_ = [one.id for one in state.questions if one.id in given]
        return state, {one: read_saved_answer(given[one]["saved"]) for one in open_}

    def _note_answers(self, run: str, answers: Mapping[str, Answer], state: RunState) -> None:
        record, now = RunRecord(self._store, run), time.time()
        calls = {pending.id: pending.call.id for pending in state.questions}
        record.put(
            {
                "event": "answered",
                "at": now,
                "pending": pending,
                "call_id": calls[pending],
                **answer_fields(answer),
            }
            for pending, answer in answers.items()
        )
        record.set_status(status=RUNNING.status)

    async def settle(self, head: ConversationHead) -> ConversationHead:
        """End the claim of a process that died: results of its calls are unknown."""
        if not self._conversations.has_lapsed(head):
            return head
        new = await to_thread.run_sync(self._read_new, head)
        try:
            return await self._conversations.settle(head, new)
        except ConversationBusy:
            return await self._conversations.head(head.principal, head.id)

    def _read_new(self, head: ConversationHead) -> tuple[Message, ...]:
        record = RunRecord(self._store, head.run)
        if not record.head.entries:
            return ()
        state = record.state()
        record.set_status(status=FAILED.status, reason=FAILED.reason)
        return state.transcript()[head.entries :]

    async def cancel(self, head: ConversationHead) -> bool:
        """Stop a run of this process, or a waiting one."""
        live = self._lives.find(head.run)
        if live is not None and live.is_working:
            live.interrupt()
            return True
        if head.lease >= 0:
            return False
        head = await self._conversations.renew(head)
        await to_thread.run_sync(self._note_cancel, head.run)
        new = await to_thread.run_sync(partial(self._read_state, head))
        await self._conversations.settle(head, new)
        if live is not None:
            live.is_waiting = False
            live.put(from_standing(CANCELLED))
        return True

    def _note_cancel(self, run: str) -> None:
        RunRecord(self._store, run).set_status(status=CANCELLED.status, reason=CANCELLED.reason)

    def _read_state(self, head: ConversationHead) -> tuple[Message, ...]:
        return RunRecord(self._store, head.run).state().transcript()[head.entries :]


async def _wait(live: LiveRun, seen: int, until: float) -> None:
    """Wait for another event, and then for those near it; or check a waiting run again."""
    if live.is_waiting:
        with anyio.move_on_after(_LOOK_SECONDS):
            await live.wait(seen)
        return
    await live.wait(seen)
    await anyio.sleep(max(0.0, until - anyio.current_time()))
