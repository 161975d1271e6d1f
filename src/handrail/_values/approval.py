"""Approvers, their answers, and the ledger that records which approvals were used."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from handrail._values.decision import Allow, Deny
from handrail._values.pending import Edit, Pending
from handrail._values.result import Result

Answer: TypeAlias = Allow | Deny | Edit | Result
"""Approve the call, deny it, replace its arguments (which are decided again), or its result."""
Approver: TypeAlias = Callable[[Pending], Awaitable[Answer | Pending]]
"""Answers an approval request, or returns the request to answer it later."""


class Ledger(Protocol):
    """Records which approvals were used, so that each works once, and which calls have ended."""

    async def claim(self, name: str, by: str, /) -> bool:
        """Use an approval. Returns False if another claimant has used it."""
        ...

    async def end(self, call_key: str, /) -> None:
        """Record that a pending call has its result."""
        ...

    async def ended(self, call_key: str, /) -> bool:
        """Return whether a pending call has its result."""
        ...


class MemoryLedger:
    """A ledger for one process."""

    def __init__(self) -> None:
        self._claims: dict[str, str] = {}
        self._ended: set[str] = set()

    async def claim(self, name: str, by: str, /) -> bool:
        """Use an approval. Returns False if another claimant has used it."""
        return self._claims.setdefault(name, by) == by

    async def end(self, call_key: str, /) -> None:
        """Record that a pending call has its result."""
        self._ended.add(call_key)

    async def ended(self, call_key: str, /) -> bool:
        """Return whether a pending call has its result."""
        return call_key in self._ended
