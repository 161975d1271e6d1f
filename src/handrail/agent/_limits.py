"""Limits of a run, and other reasons why it ends before the model is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from handrail.messages import Usage

LimitName: TypeAlias = Literal["turns", "calls", "tokens", "seconds"]
StoppedBy: TypeAlias = Literal["interrupted"] | LimitName
"""Why a run ends before the model is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a run, including the parts before it was resumed. None means no limit."""

    turns: int | None = 50
    """Replies of the model."""
    calls: int | None = None
    """Tool calls."""
    tokens: int | None = None
    """Input and output tokens."""
    seconds: float | None = None
    """Time since the run was started or last resumed."""

    def over(self, turns: int, calls: int, usage: Usage) -> LimitName | None:
        """Return the limit that is reached, or None."""
        if self.turns is not None and turns >= self.turns:
            return "turns"
        if self.calls is not None and calls >= self.calls:
            return "calls"
        if self.tokens is not None and usage.input_tokens + usage.output_tokens >= self.tokens:
            return "tokens"
        return None

    def describe(self, limit: LimitName) -> str:
        """Return a message that a limit is reached."""
        number = getattr(self, limit)
        value = f"{number:g}" if limit == "seconds" else f"{number:,}"
        return f"reached the limit of {value} {limit if number != 1 else limit.removesuffix('s')}"
