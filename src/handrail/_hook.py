"""Hooks and approvers: code of the host's that sees calls, results and questions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from handrail._call import Call
from handrail._decision import Allow, Deny
from handrail._pending import Edit, Pending
from handrail._result import Result

Before: TypeAlias = Callable[[Call], Awaitable[Call | Result]]
"""Passes a call on, as it is or rewritten; or answers it, and then it does not run."""
After: TypeAlias = Callable[[Call, Result], Awaitable[Result]]
"""Passes a result on, as it is or rewritten. Sees every result, refused calls' too."""
Answer: TypeAlias = Allow | Deny | Edit | Result
"""Run it; do not, and why; run it with other arguments, which are judged again; or take this."""
Approver: TypeAlias = Callable[[Pending], Awaitable[Answer | Pending]]
"""Answers a question that a policy asked; or hands it back, for somebody to answer later."""


class Ledger(Protocol):
    """Remembers which questions were answered, so that each answer counts once."""

    async def claim(self, pending_id: str, /) -> bool:
        """Take this answer as used; False where it was used before."""
        ...

    async def claimed(self, pending_id: str, /) -> bool:
        """Whether it was used."""
        ...


class MemoryLedger:
    """A ledger for one process."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    async def claim(self, pending_id: str, /) -> bool:
        """Take this answer as used; False where it was used before."""
        unused = pending_id not in self._used
        self._used.add(pending_id)
        return unused

    async def claimed(self, pending_id: str, /) -> bool:
        """Whether it was used."""
        return pending_id in self._used
