"""Chats whose runs this process runs, and records."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from typing import Any, cast

import anyio
from anyio import to_thread

from handrail._support.loop import spawn
from handrail.agent import Agent, EventStream, RunState
from handrail.messages import Message, Prompt
from handrail.permissions import Answer
from handrail.runs import translate_stop
from handrail.runs.statuses import CANCELLED, FAILED, WAITING, Standing
from handrail.web._live import LiveRun, LiveRuns
from handrail.web._records import ChatRecord, find_answered, find_cancelled, find_standing
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
        self._follower: object = None

    def open(self) -> None:
        """Begin to look for runs answered or cancelled elsewhere."""
        self._follower = spawn(copy_context(), self._follow)

    async def start(
        self, head: ConversationHead, visitor: Visitor, messages: Sequence[Message]
    ) -> None:
        """Start a run in a new task."""
        live = LiveRun(head, ChatRecord(self._store, head))
        live.record.begin(visitor, cast("Prompt", messages[-1]))
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
            standing = await self._keep(live, state, standing)
        except Exception:  # noqa: BLE001  nothing awaits this task
            _log.exception("a chat's run could not be kept")
            standing = FAILED
        finally:
            live.is_working, live.is_waiting = False, standing == WAITING
            live.put(from_standing(standing))
        if live.is_waiting:  # a stop or an answer may have come before
            await (self.cancel(live.head) if live.is_stopped else self.resume(live.head.run))

    async def _run(
        self, live: LiveRun, state: RunState, visitor: Visitor, answers: Mapping[str, Answer]
    ) -> tuple[RunState, Standing]:
        options: dict[str, Any] = {"principal": visitor.principal, "metadata": visitor.metadata}
        options |= {"save": live.record.save, "on_event": live.record.note_event}
        if self._deps is not None:
            options["deps"] = self._deps(visitor)
        events = self._agent.stream(history=state, answers=answers, **options)
        standing = FAILED
        async with anyio.create_task_group() as group, events:
            live.interrupt = events.interrupt
            if live.is_stopped:  # before it began
                live.interrupt()
            group.start_soon(live.record.write_events, events.call_events())
            standing = await self._show(live, events)
        return events.state, standing

    async def _show(self, live: LiveRun, events: EventStream[Any]) -> Standing:
        """Tell the watchers about events, and return how the run ended."""
        try:
            async for event in events:
                found = from_event(event, details=self._details)
                if found is not None:
                    live.put(found)
        except Exception:  # noqa: BLE001  the conversation continues
            _log.exception("a chat's run failed")
            return FAILED
        return CANCELLED if live.is_cancelled else translate_stop(events.result.stop_reason)

    async def _renew(self, live: LiveRun) -> None:
        """Record the run soon, and renew its claim until it ends. If that was lost, stop."""
        await live.record.show_soon()
        while True:
            await anyio.sleep(LEASE_SECONDS / 3)
            try:
                live.head = await self._conversations.renew(live.head)
            except ConversationBusy:
                live.interrupt()
                return

    async def _keep(self, live: LiveRun, state: RunState, standing: Standing) -> Standing:
        head = live.head
        if standing == WAITING:
            if await live.record.wait(state) and not live.is_stopped:
                live.head = await self._conversations.park(head)
                return WAITING
            standing = CANCELLED  # just before: no one is to answer it
        live.head = await live.record.end(state.abandon(), standing, self._conversations, head)
        return standing

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
                seen = len(live.events)
                if found:
                    yield found
                if found and found[-1].kind == "end":
                    return
                if live.is_waiting and await self._has_moved(live):
                    yield [_ELSEWHERE]
                    return
                if live.is_waiting and not found:
                    yield [from_standing(WAITING)]  # another process may ask
                await _wait(live, seen, joins=bool(found))
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
        if await to_thread.run_sync(find_standing, self._store, run) != "answered":
            return
        head = await self._conversations.find(run)
        if head is None or head.lease >= 0:
            return
        try:
            head = await self._conversations.renew(head)
        except ConversationBusy:
            return  # another process does it
        live = self._lives.find(run) or LiveRun(head, ChatRecord(self._store, head))
        live.head = head
        saved = await self._conversations.get(head.principal, head.id)
        state, answers = await live.record.take_answers(saved.messages)
        if not answers:  # another process has just used them
            await self._conversations.park(head)
            return
        self._lives.add(live)
        visitor = Visitor(principal=head.principal, metadata=head.metadata)
        self._spawn(live, state, visitor, answers)

    async def _follow(self) -> None:
        """Look for runs answered or cancelled elsewhere, as long as the process lives."""
        late, was_well = set[str](), True
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            try:
                late = await self._look(late)
                was_well = True
            except Exception:  # noqa: BLE001  the database may come back
                if was_well:
                    _log.exception("cannot look for answers to chats")
                was_well = False

    async def _look(self, late: set[str]) -> set[str]:
        """Continue and stop runs. Those of other processes are left to them for a moment."""
        answered = await to_thread.run_sync(find_answered, self._store)
        for run in answered:
            if run in late or self._lives.find(run) is not None:
                await self.resume(run)
        working = {one.head.run: one for one in self._lives.list_working()}
        if working:
            for run in await self._find_cancelled(working):
                working[run].is_cancelled = True
                working[run].interrupt()
        return answered

    async def _find_cancelled(self, runs: Iterable[str]) -> set[str]:
        return await to_thread.run_sync(find_cancelled, self._store, runs)

    async def settle(self, head: ConversationHead) -> ConversationHead:
        """Continue an answered run; end the claim of a dead process, or of an ended run."""
        if head.lease < 0:
            return await self._settle_parked(head)
        if not self._conversations.has_lapsed(head):
            return head
        return await self._end(head)

    async def _settle_parked(self, head: ConversationHead) -> ConversationHead:
        standing = await to_thread.run_sync(find_standing, self._store, head.run)
        if standing == WAITING.status:
            return head
        if standing != "answered":  # a command has cancelled or removed it
            return await self._end(head)
        await self.resume(head.run)
        return await self._conversations.head(head.principal, head.id)

    async def _end(self, head: ConversationHead) -> ConversationHead:
        """End a run without a process: results of calls begun before are unknown."""
        try:
            head = await self._conversations.renew(head)
            messages = await ChatRecord(self._store, head).end_lost()
            if messages is not None:
                return await self._conversations.settle(head, messages)
            await self._conversations.park(head)
        except ConversationBusy:
            pass  # another process has just done so
        else:
            await self.resume(head.run)
        return await self._conversations.head(head.principal, head.id)

    async def cancel(self, head: ConversationHead) -> bool:
        """Stop a run of this process, or a waiting one."""
        live = self._lives.find(head.run)
        if live is not None and live.is_working:
            live.is_stopped = True
            live.interrupt()
            return True
        if head.lease >= 0:
            return False
        try:
            head = await self._conversations.renew(head)
        except ConversationBusy:
            return False  # another process continues it
        new = await ChatRecord(self._store, head).end_lost(by=CANCELLED)
        await self._conversations.settle(head, new or ())
        if live is not None:
            live.is_waiting = False
            live.put(from_standing(CANCELLED))
        return True


async def _wait(live: LiveRun, seen: int, *, joins: bool) -> None:
    """Wait for another event; or check a waiting run again. Events near the last ones join."""
    if live.is_waiting:
        with anyio.move_on_after(_LOOK_SECONDS):
            await live.wait(seen)
        return
    if joins:  # first, since pieces mostly come faster: then nothing else is to wait for
        await anyio.sleep(_JOIN_SECONDS)
    await live.wait(seen)
