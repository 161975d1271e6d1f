"""Chats whose runs are durable: workers run them, in any process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, cast

from anyio import to_thread

from handrail.messages import Message, Prompt
from handrail.runs.durable import DurableRuns
from handrail.runs.statuses import LIVE
from handrail.web._serving import Place
from handrail.web._visitor import Visitor
from handrail.web._wire import WireEvent, from_line
from handrail.web.conversations import ConversationBusy, ConversationHead, Conversations


class WorkerChats:
    """Starts durable runs, and watches them."""

    def __init__(
        self, runs: DurableRuns, agent: str, conversations: Conversations, *, details: bool
    ) -> None:
        self._runs = runs
        self._agent = agent
        self._conversations = conversations
        self._details = details

    def open(self) -> None:
        """Do nothing: workers look."""

    async def start(
        self, head: ConversationHead, visitor: Visitor, messages: Sequence[Message]
    ) -> None:
        """Start a run, and leave it to the workers."""
        *history, prompt = messages
        try:
            await self._runs.start(
                self._agent,
                *cast("Prompt", prompt).parts,
                history=history,
                run_id=head.run,
                principal=visitor.principal,
                metadata=visitor.metadata,
                labels=visitor.labels,
            )
        except Exception:
            await self._conversations.settle(head, ())
            raise
        try:
            await self._conversations.park(head)
        except ConversationBusy:  # it took too long: the claim has lapsed
            await self._runs.cancel(head.run)
            raise

    async def place(self, head: ConversationHead) -> Place:
        """Return the place behind the journal's last line."""
        return await to_thread.run_sync(partial(self._read_place, head.run))

    def _read_place(self, run: str) -> Place:
        store = self._runs.store
        found, lines = store.head(run), store.read(run, kinds=("requested",))
        calls = frozenset(str(line.content.get("call_id")) for line in lines)
        return Place(str(found.entries if found else 0), calls)

    async def watch(self, head: ConversationHead, after: str) -> AsyncGenerator[list[WireEvent]]:
        """Yield the run's events, then add its messages to the conversation."""
        prefix = prefix_of(head)
        updates: Any = self._runs.watch(head.run, after=after)
        async with aclosing(updates) as found:
            async for place, fields in found:
                event = from_line(fields, f"{prefix}{place}", details=self._details)
                if event is not None:
                    if event.kind == "end":
                        await self.settle(await self._conversations.head(head.principal, head.id))
                    yield [event]

    async def resume(self, run: str) -> None:
        """Do nothing: a worker continues the run."""

    async def settle(self, head: ConversationHead) -> ConversationHead:
        """Add an ended run's messages."""
        if not head.lease or (head.lease > 0 and not self._conversations.has_lapsed(head)):
            return head
        try:
            run = await self._runs.get(head.run)
        except LookupError:  # its start has failed, or it was removed
            return await self._settle(head, ())
        if run.status in LIVE:
            return head if head.lease < 0 else await self._conversations.park(head)
        state = run.state
        new = () if state is None else state.transcript()[head.entries :]
        return await self._settle(head, new)

    async def _settle(
        self, head: ConversationHead, messages: Sequence[Message]
    ) -> ConversationHead:
        try:
            return await self._conversations.settle(head, messages)
        except ConversationBusy:  # another process has just done so
            return await self._conversations.head(head.principal, head.id)

    async def cancel(self, head: ConversationHead) -> bool:
        """Cancel the run."""
        return await self._runs.cancel(head.run)


def prefix_of(head: ConversationHead) -> str:
    """Return what the ids of a run's events begin with."""
    return f"{head.run[:12]}:"
