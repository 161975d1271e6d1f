"""Limits of a run, and other reasons why it ends before the model is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from handrail.agent._history.state import Spent

LimitName: TypeAlias = Literal["turns", "calls", "tokens", "seconds"]
StoppedBy: TypeAlias = Literal["interrupted"] | LimitName
"""Why a run ends before the model is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a run, from its prompt on. None means no limit.

    A run that is resumed without a prompt continues to count. A new prompt counts from zero.
    """

    turns: int | None = 50
    """Replies of the model."""
    calls: int | None = None
    """Tool calls."""
    tokens: int | None = None
    """Input and output tokens."""
    seconds: float | None = None
    """Time since the run was started or last resumed."""
    last_word: bool = True
    """At a limit of turns, calls or tokens, whether the model gets one more turn without tools to
    answer with what it has."""

    def over(self, spent: Spent, before: Spent) -> LimitName | None:
        """Return the limit that is reached, or None."""
        if self.turns is not None and spent.turns - before.turns >= self.turns:
            return "turns"
        if self.calls is not None and spent.calls - before.calls >= self.calls:
            return "calls"
        tokens = spent.usage.total - before.usage.total
        return "tokens" if self.tokens is not None and tokens >= self.tokens else None

    def describe(self, limit: LimitName) -> str:
        """Return a message that a limit is reached."""
        number = getattr(self, limit)
        value = f"{number:g}" if limit == "seconds" else f"{number:,}"
        return f"reached the limit of {value} {limit if number != 1 else limit.removesuffix('s')}"


class CallBudget:
    """The number of calls of one reply that can run."""

    def __init__(self, limits: Limits, calls_before: int) -> None:
        self._left = None if limits.calls is None else limits.calls - calls_before
        self.refused: set[str] = set()
        """The ids of the calls over the limit."""

    def take(self, call_id: str, *, nothing_left: bool) -> bool:
        """Return whether a call can run, and count it."""
        if nothing_left or (self._left is not None and self._left <= 0):
            self.refused.add(call_id)
            return False
        if self._left is not None:
            self._left -= 1
        return True
