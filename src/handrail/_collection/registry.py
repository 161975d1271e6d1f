"""Registry: tool sources to add, change and remove."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from handrail._collection.source import Source
from handrail._collection.toolset import Toolset, duplicate_error
from handrail._definition.tool import AnyTool
from handrail._values.errors import DefinitionError, DuplicateName, UnknownName
from handrail._values.names import closest

if TYPE_CHECKING:
    from handrail.events import ToolsChanged

Tools: TypeAlias = Toolset | AnyTool | Callable[..., Any]
"""A tool set, a tool, or a function to turn into one."""
Watcher: TypeAlias = "Callable[[ToolsChanged], object]"

_MAX_LARGE_PARTS = 7  # joining all would copy each tool at each change: decision 008
"""Sources a snapshot searches one by one. The rest are merged, to keep lookups few."""


class Registry:
    """Tool sources, by name. Each change makes a new generation. Snapshots never change.

    Safe to use from several threads. The cost of a change depends only on the changed source, and a
    snapshot's cost does not depend on how many tools there are.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sources: dict[str, Toolset] = {}
        self._claims: dict[str, AnyTool] = {}
        self._watchers: list[Watcher] = []
        self._generation = 0
        self._snapshot: Toolset | None = Toolset()

    @property
    def generation(self) -> int:
        """The changes so far."""
        return self._generation

    def add(self, source: Tools, *, name: str = "") -> str:
        """Add a source, and return its name. A single tool's default is its own name."""
        tools = source if isinstance(source, Toolset) else Toolset(source)
        name = name or (next(iter(tools)).spec.name if len(tools) == 1 else "")
        with self._lock:
            event = self._claim_source(name, tools)
        self._notify(event)
        return name

    def replace(self, name: str, source: Tools) -> None:
        """Replace a source's tools, in one step."""
        tools = source if isinstance(source, Toolset) else Toolset(source)
        with self._lock:
            event = self._swap(name, self._source(name), tools)
        self._notify(event)

    def remove(self, name: str) -> None:
        """Remove a source and its tools."""
        with self._lock:
            event = self._swap(name, self._source(name), Toolset())
            del self._sources[name]
        self._notify(event)

    @asynccontextmanager
    async def connect(self, source: Source) -> AsyncGenerator[None]:
        """Open a source and offer its tools, with every change, until the block ends.

        An executor offers the new tools after ``refresh_tools``.
        """
        name, is_open = source.name, True

        def changed(tools: Toolset) -> None:
            if not is_open:  # another source may use its name now
                raise UnknownName(f"The source {name!r} is closed.")
            self.replace(name, tools)

        async with source.open(changed) as tools:
            with self._lock:
                event = self._claim_source(name, tools)
            try:
                self._notify(event)
                yield
            finally:
                is_open = False
                with suppress(UnknownName):  # already removed
                    self.remove(name)

    def snapshot(self) -> Toolset:
        """Return the current tools as a value unaffected by later changes."""
        with self._lock:
            if self._snapshot is None:
                self._snapshot = Toolset.join(self._parts())
            return self._snapshot

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Call a function after each change, in the thread making it.

        Returns a function to stop.
        """
        with self._lock:
            self._watchers.append(watcher)

        def stop() -> None:
            with self._lock:
                if watcher in self._watchers:
                    self._watchers.remove(watcher)

        return stop

    def _source(self, name: str) -> Toolset:
        if name not in self._sources:
            near = ", ".join(closest(name, self._sources))
            raise UnknownName(
                f"No source is named {name!r}." + (f" Closest: {near}." if near else "")
            )
        return self._sources[name]

    def _claim_source(self, name: str, tools: Toolset) -> ToolsChanged:
        if not name:
            raise DefinitionError(
                'A Toolset needs a source name: `registry.add(tools, name="...")`.'
            )
        if name in self._sources:
            raise DuplicateName(
                f"A source {name!r} already exists. Use `registry.replace({name!r}, ...)`, or "
                "remove it first."
            )
        return self._swap(name, Toolset(), tools)

    def _swap(self, name: str, old: Toolset, new: Toolset) -> ToolsChanged:
        """Claim the new tools' names and free the old ones', or change nothing."""
        freed = _claims(old)
        claimed = _claims(new)
        for claim, claimant in claimed.items():
            if claim not in freed and claim in self._claims:
                raise duplicate_error(claim, self._claims[claim], claimant)
        for claim in freed.keys() - claimed.keys():
            del self._claims[claim]
        self._claims.update(claimed)
        self._sources[name] = new
        self._snapshot = None
        self._generation += 1
        return _difference(self._generation, old, new)

    def _parts(self) -> tuple[Toolset, ...]:
        by_size = sorted(self._sources.values(), key=len, reverse=True)
        rest = by_size[_MAX_LARGE_PARTS:]
        small = (Toolset(*(tool for tools in rest for tool in tools)),) if rest else ()
        return (*by_size[:_MAX_LARGE_PARTS], *small) or (Toolset(),)

    def _notify(self, event: ToolsChanged) -> None:
        """Call every watcher, even if another one raises. Then raise to the change's caller."""
        failed: list[Exception] = []
        for watcher in tuple(self._watchers):
            try:
                watcher(event)
            except Exception as error:  # noqa: BLE001  the other watchers must still run
                failed.append(error)
        if failed:
            raise ExceptionGroup("The tools changed, but watchers failed.", failed)


def _claims(tools: Toolset) -> dict[str, AnyTool]:
    return {claim: tool for tool in tools for claim in (tool.spec.name, *tool.spec.aliases)}


def _difference(generation: int, old: Toolset, new: Toolset) -> ToolsChanged:
    # most programs never need this module
    from handrail.events import ToolsChanged

    before = {tool.spec.name: tool.spec for tool in old}
    after = {tool.spec.name: tool.spec for tool in new}
    both = before.keys() & after.keys()
    return ToolsChanged(
        generation=generation,
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        changed=tuple(sorted(name for name in both if before[name] != after[name])),
    )
