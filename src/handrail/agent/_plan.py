"""What a run is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

from handrail.agent._final import Final
from handrail.agent._limits import Limits
from handrail.agent._state import State
from handrail.messages import Delta, Model, Reply, Results

T = TypeVar("T")
Stopped: TypeAlias = Literal["answer", "pending", "limit", "interrupted"]
"""Why a run ended: with an answer, with open questions, at a limit, or since somebody said so."""
Save: TypeAlias = Callable[[State], Awaitable[None]]
"""Writes a state down; it is awaited before the run goes on."""
Happening: TypeAlias = Delta | Reply | Results
"""What a run tells while it goes on: pieces of words, then each reply, then its results."""
Watch: TypeAlias = Callable[[Happening], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Generic[T]):
    """What stays the same in all runs of an agent."""

    model: Model
    system: str
    limits: Limits
    final: Final[T] | None
    save: Save | None
    max_tokens: int | None


class Done(NamedTuple, Generic[T]):
    """How a run ended, for now; it can be gone on with from its state."""

    stop: Stopped
    state: State
    output: T | None = None
    """The final answer, where that has a type."""
    why: str = ""
    """Which limit was reached."""

    @property
    def text(self) -> str:
        """What the model said last."""
        said = (one for one in reversed(self.state.messages) if isinstance(one, Reply))
        return next((one.text for one in said), "")
