"""Run limits, and other reasons for ending before the model is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias

from handrail.agent._history.state import Spent
from handrail.messages import Price

LimitName: TypeAlias = Literal["turns", "calls", "tokens", "cost", "seconds", "budget"]
StoppedBy: TypeAlias = Literal["interrupted"] | LimitName
"""Why a run ends before the model is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """A run's limits, from its prompt on. None means no limit.

    A resumed run without a prompt continues to count. A new prompt counts from zero.
    """

    turns: int | None = 50
    """Model replies."""
    calls: int | None = None
    """Tool calls."""
    tokens: int | None = None
    """Input and output tokens."""
    cost: Decimal | float | None = None
    """What the tokens cost, in US dollars or in the currency of ``prices``."""
    prices: Mapping[str, Price] | Price | None = None
    """Your own prices in place of the known ones: by a model's name, or one for all models."""
    seconds: float | None = None
    """Time since the run was started or last resumed."""
    last_word: bool = True
    """At a limit of turns, calls, tokens or cost, whether the model gets one more turn without
    tools, to answer with what it has."""

    def over(self, spent: Spent, before: Spent) -> LimitName | None:
        """Return the reached limit, or None."""
        if self.turns is not None and spent.turns - before.turns >= self.turns:
            return "turns"
        if self.calls is not None and spent.calls - before.calls >= self.calls:
            return "calls"
        return self.over_budget(spent, before)

    def over_budget(self, spent: Spent, before: Spent) -> LimitName | None:
        """Return the reached token or cost limit, or None."""
        tokens = spent.usage.total - before.usage.total
        if self.tokens is not None and tokens >= self.tokens:
            return "tokens"
        return "cost" if self.cost is not None and spent.cost - before.cost >= self.cost else None

    def describe(self, limit: LimitName) -> str:
        """Return the message for a reached limit."""
        if limit == "cost":
            return f"reached the cost limit of {self.cost}"
        number = getattr(self, limit)
        value = f"{number:g}" if limit == "seconds" else f"{number:,}"
        return f"reached the limit of {value} {limit if number != 1 else limit.removesuffix('s')}"


class CallBudget:
    """How many calls can run in one reply."""

    def __init__(self, limits: Limits, calls_before: int) -> None:
        self._left = None if limits.calls is None else limits.calls - calls_before
        self.refused: set[str] = set()
        """The ids for calls over the limit."""

    def take(self, call_id: str, *, nothing_left: bool) -> bool:
        """Return whether a call can run, and count it."""
        if nothing_left or (self._left is not None and self._left <= 0):
            self.refused.add(call_id)
            return False
        if self._left is not None:
            self._left -= 1
        return True
