"""Effect: the worst a tool can do; and Exposure: how a model finds it."""

from __future__ import annotations

from enum import Enum, IntEnum


class Effect(IntEnum):
    """The worst a tool can do. Ordered, so a policy can compare effects."""

    READ = 1
    WRITE = 2
    DESTROY = 3


class Exposure(Enum):
    """How a model finds a tool."""

    DIRECT = "direct"
    """The spec is in every request."""
    DEFERRED = "deferred"
    """The model finds the tool by searching, and can then call it."""
    SEARCH = "search"
    """The tool that finds deferred ones. It is sent only if there are any."""
    HIDDEN = "hidden"
    """Your code can call the tool. It is never sent to a model."""


READ = Effect.READ
"""The tool changes nothing."""
WRITE = Effect.WRITE
"""The tool can change things."""
DESTROY = Effect.DESTROY
"""The tool can delete things, or do what cannot be undone."""
