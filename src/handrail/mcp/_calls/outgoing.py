"""One call, on its way to a server."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol, TypeAlias

from handrail import Context, Json


class Listener(Protocol):
    """Progress callback for a call."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Receive progress, total, and message."""
        ...


Kind: TypeAlias = Literal["call", "read", "list"]


class Outgoing(NamedTuple):
    """One tool call."""

    name: str
    args: dict[str, Json]
    heard: Listener
    context: Context
    repeatable: bool
    kind: Kind = "call"
    """What to ask for: a tool's result, or a resource."""
