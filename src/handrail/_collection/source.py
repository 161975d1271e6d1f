"""Source: tools to open, change and close, such as a server's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from handrail._collection.toolset import Toolset

Changed: TypeAlias = Callable[[Toolset], None]
"""Called with all of a source's tools after each change."""


class Source(Protocol):
    """Tools ``Registry.connect`` opens, keeps up to date, and closes."""

    @property
    def name(self) -> str:
        """The source's name in a registry."""
        ...

    def open(self, changed: Changed, /) -> AbstractAsyncContextManager[Toolset]:
        """Connect, and return the current tools. Closes when the block ends.

        Args:
            changed: Call it after each change while the source is open, not before.
        """
        ...
