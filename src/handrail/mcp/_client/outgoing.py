"""One call, on its way to a server."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from handrail import Context, Json


class Listener(Protocol):
    """Progress callback for a call."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Receive progress, total, and message."""
        ...


class Outgoing(NamedTuple):
    """One call of a tool."""

    name: str
    args: dict[str, Json]
    heard: Listener
    context: Context
    repeatable: bool
