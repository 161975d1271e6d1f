"""Facts, as values: what happened, for whoever wants to know."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsChanged:
    """A registry's tools are no longer what they were; the names are sorted."""

    generation: int
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
