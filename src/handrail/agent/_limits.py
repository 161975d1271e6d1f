"""Limits of a run: what ends it before a model does."""

from __future__ import annotations

from dataclasses import dataclass

from handrail.messages import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The most that a run may take, all its parts together; None is no limit."""

    turns: int | None = 50
    calls: int | None = None
    tokens: int | None = None
    """Sent and received."""
    seconds: float | None = None
    """From one start or resumption to the next."""

    def over(self, turns: int, calls: int, usage: Usage) -> str:
        """Which limit is reached, in words; empty where none is."""
        if self.turns is not None and turns >= self.turns:
            return _REACHED.format(self.turns, "turns")
        if self.calls is not None and calls >= self.calls:
            return _REACHED.format(self.calls, "calls")
        if self.tokens is not None and usage.sent + usage.received >= self.tokens:
            return _REACHED.format(self.tokens, "tokens")
        return ""


_REACHED = "the limit of {:,} {} is reached"
