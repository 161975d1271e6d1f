"""The events of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from handrail.events import Asked, Finished, Progressed, Requested, Started, Yielded
from handrail.messages import ArgsDelta, Delta, Reply, Restart, ToolResults

CallEvent: TypeAlias = Requested | Asked | Started | Progressed | Yielded | Finished
"""A call was requested, needs approval, started, made progress, yielded text, has its result."""


ModelEvent: TypeAlias = Delta | ArgsDelta | Restart | Reply
"""A model sent a piece of text or of arguments, starts its reply again, or has completed it."""


@dataclass(frozen=True, slots=True)
class InnerEvent:
    """An event of a sub-agent."""

    call_id: str
    """The call that the sub-agent works for."""
    event: ModelEvent | CallEvent | InnerEvent


RunEvent: TypeAlias = ModelEvent | ToolResults | InnerEvent
"""An event of a run: pieces of a reply, then the reply, then the results of its calls."""
OnEvent: TypeAlias = Callable[[RunEvent], None]
"""A function that gets each event of a run. It must return quickly."""
