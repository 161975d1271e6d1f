"""Registry: the live place where sources of tools come and go."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from handrail._errors import DefinitionError, DuplicateName, UnknownName
from handrail._names import closest
from handrail._tool import AnyTool
from handrail._toolset import Toolset, duplicate

if TYPE_CHECKING:
    from handrail._event import ToolsChanged

Source: TypeAlias = Toolset | AnyTool | Callable[..., Any]
Watcher: TypeAlias = "Callable[[ToolsChanged], object]"

_LARGE_PARTS = 7
"""Sources that a snapshot looks into one by one; the rest are put together, so lookups stay few."""


class Registry:
    """Sources of tools, by name. Each change makes a new generation; snapshots never change.

    Safe to use from several threads. A change costs what the changed source costs, a snapshot
    nothing that grows with the number of tools.
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
        """How many changes there have been."""
        return self._generation

    def add(self, source: Source, *, name: str = "") -> str:
        """Add a source under a name (a single tool's own, if left out); the name is returned."""
        tools = source if isinstance(source, Toolset) else Toolset(source)
        name = name or (next(iter(tools)).spec.name if len(tools) == 1 else "")
        if not name:
            raise DefinitionError("a set of tools needs a name of its own: add(tools, name='...')")
        with self._lock:
            if name in self._sources:
                raise DuplicateName(f"there is a source {name!r} already: replace or remove it")
            event = self._swap(name, Toolset(), tools)
        self._tell(event)
        return name

    def replace(self, name: str, source: Source) -> None:
        """Put other tools in a source's place, in one step."""
        tools = source if isinstance(source, Toolset) else Toolset(source)
        with self._lock:
            event = self._swap(name, self._source(name), tools)
        self._tell(event)

    def remove(self, name: str) -> None:
        """Take a source and its tools away."""
        with self._lock:
            event = self._swap(name, self._source(name), Toolset())
            del self._sources[name]
        self._tell(event)

    def snapshot(self) -> Toolset:
        """All tools as they are now: a value that later changes do not touch."""
        with self._lock:
            if self._snapshot is None:
                self._snapshot = Toolset.joined(self._parts())
            return self._snapshot

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Call a function after each change, in the thread that made it; returns how to stop."""
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
            raise UnknownName(f"no source named {name!r}" + (f"; closest: {near}" if near else ""))
        return self._sources[name]

    def _swap(self, name: str, old: Toolset, new: Toolset) -> ToolsChanged:
        """Claim the names of the new tools and free those of the old; all of it, or nothing."""
        freed = _claims(old)
        claimed = _claims(new)
        for claim, one in claimed.items():
            if claim not in freed and claim in self._claims:
                raise duplicate(claim, self._claims[claim], one)
        for claim in freed.keys() - claimed.keys():
            del self._claims[claim]
        self._claims.update(claimed)
        self._sources[name] = new
        self._snapshot = None
        self._generation += 1
        return _difference(self._generation, old, new)

    def _parts(self) -> tuple[Toolset, ...]:
        by_size = sorted(self._sources.values(), key=len, reverse=True)
        rest = by_size[_LARGE_PARTS:]
        small = (Toolset(*(one for tools in rest for one in tools)),) if rest else ()
        return (*by_size[:_LARGE_PARTS], *small) or (Toolset(),)

    def _tell(self, event: ToolsChanged) -> None:
        """Every watcher is told, whatever another one does; then whoever made the change hears."""
        failed: list[Exception] = []
        for watcher in tuple(self._watchers):
            try:
                watcher(event)
            except Exception as error:  # noqa: BLE001  one watcher must not hide a change from the next
                failed.append(error)
        if failed:
            raise ExceptionGroup("the tools changed, but watchers failed", failed)


def _claims(tools: Toolset) -> dict[str, AnyTool]:
    return {claim: one for one in tools for claim in (one.spec.name, *one.spec.aliases)}


def _difference(generation: int, old: Toolset, new: Toolset) -> ToolsChanged:
    # a module of facts that most programs never look at
    from handrail._event import ToolsChanged  # noqa: PLC0415

    before = {one.spec.name: one.spec for one in old}
    after = {one.spec.name: one.spec for one in new}
    both = before.keys() & after.keys()
    return ToolsChanged(
        generation=generation,
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        changed=tuple(sorted(name for name in both if before[name] != after[name])),
    )
