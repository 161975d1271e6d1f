"""The two ways to run chats: in this process, or by workers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple, Protocol

from handrail.messages import Message
from handrail.web._visitor import Visitor
from handrail.web._wire import WireEvent
from handrail.web.conversations import ConversationHead


class Place(NamedTuple):
    """A place in a run's events: where a stream begins."""

    after: str = ""
    calls: frozenset[str] = frozenset()
    """The calls before it, which clients know."""


class Serving(Protocol):
    """Starts a chat's runs, and follows them."""

    def open(self) -> None:
        """Begin to look for what other processes do."""
        ...

    async def start(
        self, head: ConversationHead, visitor: Visitor, messages: Sequence[Message]
    ) -> None:
        """Start a claimed conversation's run."""
        ...

    async def place(self, head: ConversationHead) -> Place:
        """Return where the latest run stands."""
        ...

    def watch(self, head: ConversationHead, after: str) -> AsyncGenerator[list[WireEvent]]:
        """Yield the latest run's events behind a place, until it ends."""
        ...

    async def resume(self, run: str) -> None:
        """Continue a run after an answer."""
        ...

    async def settle(self, head: ConversationHead) -> ConversationHead:
        """End a claim whose run has ended, or whose process has died."""
        ...

    async def cancel(self, head: ConversationHead) -> bool:
        """Stop the latest run. Returns False if it cannot be stopped here."""
        ...
