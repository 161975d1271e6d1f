"""The sender of a request, as your application knows them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from handrail import Json
from handrail.permissions import Pending


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Who sends a request, and what they may do. They see only their own conversations.

    Args:
        principal: The person or service, with the tenant if names repeat: ``acme:ada``.
        metadata: More facts for policies, hooks and tools.
        labels: Labels on the visitor's runs, which say who sees them in a console.
        answers: Which requests the visitor may answer: none, or those a function accepts. True
            means all requests, of every principal.
        groups: The groups the visitor is in, for rules that name approvers.
    """

    principal: str
    metadata: Mapping[str, Json] = field(default_factory=dict[str, Json])
    labels: tuple[str, ...] = ()
    answers: bool | Callable[[Pending], bool] = False
    groups: tuple[str, ...] = ()

    def may_answer(self, pending: Pending) -> bool:
        """Return whether the visitor may answer a request."""
        return self.answers if isinstance(self.answers, bool) else self.answers(pending)


Identify: TypeAlias = Callable[[Any], Visitor | Awaitable[Visitor | None] | None]
"""Returns the visitor who sent a Starlette request, or None for a stranger."""
