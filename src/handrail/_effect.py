"""What a tool may do to the world, and how a model meets it: two closed sets."""

from __future__ import annotations

from enum import Enum, IntEnum


class Effect(IntEnum):
    """The most a tool may ever do. Ordered, so that a policy reads as a comparison."""

    READ = 1
    WRITE = 2
    DESTROY = 3


class Exposure(Enum):
    """How a model meets a tool."""

    DIRECT = "direct"
    """Its spec is in every request."""
    DEFERRED = "deferred"
    """Found by search, then callable."""
    HIDDEN = "hidden"
    """Callable by code, never shown to a model."""


READ = Effect.READ
WRITE = Effect.WRITE
DESTROY = Effect.DESTROY
