"""A run's events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from handrail.events import Asked, Finished, Progressed, Requested, Started, Yielded
from handrail.messages import ArgsDelta, Delta, Reply, Restart, ToolResults

CallEvent: TypeAlias = Requested | Asked | Started | Progressed | Yielded | Finished
"""A call was requested, needs approval, started, made progress, yielded text, has its result."""


ModelEvent: TypeAlias = Delta | ArgsDelta | Restart | Reply
"""A model sent some text or arguments, starts its reply again, or has completed it."""


@dataclass(frozen=True, slots=True)
class InnerEvent:
    """A sub-agent's event."""

    call_id: str
    """The call the sub-agent works for."""
    event: ModelEvent | CallEvent | InnerEvent


RunEvent: TypeAlias = ModelEvent | ToolResults | InnerEvent
"""A run's event: pieces of a reply, then the reply, then its calls' results."""
OnEvent: TypeAlias = Callable[[RunEvent], None]
"""A listener for a run's events. It must return quickly."""
