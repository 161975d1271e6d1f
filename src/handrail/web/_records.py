"""Records of a chat's runs: for commands, for answers, and for the next process after a crash."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import count
from urllib.parse import quote

import anyio
from anyio import to_thread

from handrail.agent import RunEvent, RunState
from handrail.events import Answered, Event, Started
from handrail.messages import Message, Prompt, Reply
from handrail.permissions import Answer, Pending
from handrail.runs import JournalError, RunRecord, RunStore
from handrail.runs.answers import load_answer
from handrail.runs.journal import STATUS
from handrail.runs.lines import (
    LineFields,
    answer_fields,
    event_lines,
    prompt_line,
    reply_line,
    turn_fields,
)
from handrail.runs.statuses import FAILED, RUNNING, WAITING, Standing
from handrail.web._visitor import Visitor
from handrail.web.conversations import ConversationHead, Conversations, make_title

_DIED = "its process died"
_FIRST_SECONDS = 5.0
"""Until a run without calls is recorded. Then a short answer is one write."""
_ANSWERED = (
    "SELECT DISTINCT q.run FROM handrail_question q JOIN handrail_run r ON r.id = q.run "
    "JOIN handrail_conversation c ON c.run = q.run "
    "WHERE q.answer IS NOT NULL AND q.used = 0 AND r.app IS NULL AND r.status = 'waiting' "
    "AND c.lease < 0"
)
_CANCELLED = "SELECT id FROM handrail_run WHERE status = 'cancelled' AND id IN "


class ChatRecord:
    """One run's rows. Its states have only its own messages: the conversation has the others.

    Args:
        store: The runs.
        head: The conversation, with the run's prompt as its last message.
    """

    def __init__(self, store: RunStore, head: ConversationHead) -> None:
        self._record = RunRecord(store, head.run, stays_removed=True)
        self._before = head.entries - 1
        self._turns = count(1)
        self._has_state = False
        """Whether a state was written: runs without calls have none."""
        self._used: Collection[str] = ()
        """The requests whose answers were noted."""

    def begin(self, visitor: Visitor, prompt: Prompt) -> None:
        """Note the beginning of a new run. The next write contains it."""
        self._record.after = 0
        labels = {"labels": sorted(visitor.labels)} if visitor.labels else {}
        about = {"command": "web", "agent": "web", "prompt": make_title(prompt), **labels}
        began = {"began": _now(), "principal": visitor.principal}
        now = time.time()
        status = {"event": STATUS, "at": now, **RUNNING._asdict(), **about, **began}
        self._record.put([status, prompt_line(now, prompt)])

    async def show_soon(self) -> None:
        """Write what was noted, unless the run has ended before."""
        await anyio.sleep(_FIRST_SECONDS)
        await self._flush()

    async def _flush(self) -> None:
        with suppress(JournalError):  # the next state reports it
            await to_thread.run_sync(self._record.flush)

    def note_event(self, event: RunEvent) -> None:
        """Note a reply, before its calls run."""
        if isinstance(event, Reply):
            self._record.put([reply_line(time.time(), event, next(self._turns))])

    async def write_events(self, events: AsyncIterator[Event]) -> None:
        """Note the events of calls. Before a call begins, they are written."""
        async for event in events:
            if isinstance(event, Answered) and event.pending_id in self._used:
                continue
            self._record.put(event_lines(event, self._record.id))
            if isinstance(event, Started):
                await self._flush()

    async def save(self, state: RunState) -> None:
        """Write a reply with calls before they run, and their results before the next reply."""
        if state.open or not isinstance(state.messages[-1], Reply):
            await to_thread.run_sync(self._keep, state)

    def _keep(self, state: RunState) -> None:
        self._has_state = True
        self._record.keep(self._own(state))

    def _own(self, state: RunState) -> RunState:
        return state._replace(messages=state.messages[self._before :])

    async def wait(self, state: RunState) -> bool:
        """Write that the run waits, and its questions for the inbox; not if it was cancelled."""
        self._has_state = True
        fields = {**WAITING._asdict(), "turns": state.turns, "calls": state.calls, "why": ""}
        return await to_thread.run_sync(self._record.keep_waiting, self._own(state), fields)

    async def end(
        self,
        state: RunState,
        standing: Standing,
        conversations: Conversations,
        head: ConversationHead,
    ) -> ConversationHead:
        """Write how the run ended, and its messages to its conversation, in one transaction.

        Raises ConversationBusy, and writes neither, if the conversation's claim was lost.
        """
        counts = {"turns": state.turns, "calls": state.calls}
        fields = {**standing._asdict(), **counts, "why": "", "ended": _now()}
        self._record.put([{"event": STATUS, "at": time.time(), **fields}])
        if self._has_state:
            self._record.put_state(self._own(state))
        new = state.messages[head.entries :]
        settled, guard, rest = conversations.plan_settling(head, new)
        if not await self._record.flush_with(guard, rest):
            settled = await conversations.settle(head, new)
            await to_thread.run_sync(self._record.flush)
        return settled

    async def take_answers(self, messages: Sequence[Message]) -> tuple[RunState, dict[str, Answer]]:
        """Return the run's whole state and its new answers, and note their use."""
        return await to_thread.run_sync(self._take_answers, messages)

    def _take_answers(self, messages: Sequence[Message]) -> tuple[RunState, dict[str, Answer]]:
        state, given = self._record.state(), self._record.answers
        asked = {one.id: one for one in state.questions if one.id in given}
        answers = {one: load_answer(given[one]["saved"]) for one in asked}
        now = time.time()
        self._has_state = True
        self._used = {*self._used, *answers}
        self._turns = count(state.turns + 1)
        if answers:
            lines = [
                {"event": "answered", "at": now, **_place(asked[one]), **answer_fields(answer)}
                for one, answer in answers.items()
            ]
            self._record.note([*lines, {"event": STATUS, "at": now, **RUNNING._asdict()}])
        whole = (*messages[: self._before], *state.messages)
        return state._replace(messages=whole), answers

    async def end_lost(self, *, by: Standing = FAILED) -> tuple[Message, ...] | None:
        """Return the messages of a run without a process; None if it waits for a person.

        Calls possibly begun have unknown results.
        """
        return await to_thread.run_sync(partial(self._end_lost, by))

    def _end_lost(self, by: Standing) -> tuple[Message, ...] | None:
        status = self._record.head.status
        if status == WAITING.status and by == FAILED:
            return None
        before = self._record.state()
        state = before.abandon(self._list_allowed())
        if status in (RUNNING.status, WAITING.status):
            why = {"why": _DIED} if by == FAILED else {}
            now = {"event": STATUS, "at": time.time(), "ended": _now()}
            self._record.put([{**now, **by._asdict(), **why}])
            self._record.keep(state)
        return state.messages[1:]

    def _list_allowed(self) -> set[str]:
        """Return the requests whose answers were in use, and let their calls run."""
        lines = self._record.journal.read(self._record.id, kinds=["answered"])
        given = [one.content for one in lines]
        return {str(one["pending"]) for one in given if one.get("answer") in {"allow", "edit"}}


def _place(pending: Pending) -> LineFields:
    """Return a request's call and turn as line fields."""
    turn = turn_fields(f"{quote(pending.run_id, safe='')}/{pending.turn_id}")
    return {"pending": pending.id, "call_id": pending.call.id, **turn}


def find_answered(store: RunStore) -> set[str]:
    """Return the answered runs of chats, without those a process continues."""
    return {str(run) for (run,) in store.select(_ANSWERED, {})}


def find_cancelled(store: RunStore, runs: Iterable[str]) -> set[str]:
    """Return which of these runs a command has cancelled."""
    sql = f"{_CANCELLED}{store.database.members}"
    return {str(run) for (run,) in store.select(sql, {"ids": json.dumps(list(runs))})}


def find_standing(store: RunStore, run: str) -> str:
    """Return a parked run's status: ``answered`` if it can continue; empty if it was removed."""
    if store.select(f"{_ANSWERED} AND q.run = :run", {"run": run}):
        return "answered"
    rows = store.select("SELECT status FROM handrail_run WHERE id = :run", {"run": run})
    return str(rows[0][0]) if rows else ""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
