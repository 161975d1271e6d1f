"""Source: tools that are opened, change and are closed, such as those of a server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from handrail._collection.toolset import Toolset

Changed: TypeAlias = Callable[[Toolset], None]
"""Called with all tools of a source, whenever they change."""


class Source(Protocol):
    """Tools that ``Registry.connect`` opens, keeps up to date, and closes."""

    @property
    def name(self) -> str:
        """The source's name in a registry."""
        ...

    def open(self, changed: Changed, /) -> AbstractAsyncContextManager[Toolset]:
        """Connect, and return the current tools. Closes at the end of the block.

        Args:
            changed: Call it after each change while the source is open, not before.
        """
        ...
