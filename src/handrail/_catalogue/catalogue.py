"""Catalogue: the tools one view can find, and their index."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from weakref import WeakKeyDictionary

import anyio

from handrail._catalogue.denied import find_denied
from handrail._collection.toolset import Toolset
from handrail._definition.tool import AnyTool
from handrail._permissions.checked_call import Policy
from handrail._permissions.foresee import asks_always, find_accesses
from handrail._search.index import ToolIndex
from handrail._search.namespaces import Namespace, list_namespaces
from handrail._values.effect import Exposure
from handrail._values.names import api_name
from handrail._values.spec import Spec


class _Entry:
    """One set's index, and the lock for those waiting for it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.index: ToolIndex | None = None


_entries: WeakKeyDictionary[Toolset, _Entry] = WeakKeyDictionary()
_lock = threading.Lock()


def index_of(tools: Toolset, before: Toolset | None = None) -> ToolIndex:
    """Return the index for a set's deferred tools. Call it in a worker thread.

    The index for ``before`` is used for unchanged tools. Threads needing one index make it once.
    """
    with _lock:
        entry = _entries.setdefault(tools, _Entry())
        old = None if before is None else _entries.get(before)
    with entry.lock:
        if entry.index is None:
            specs = [spec for spec in tools.specs if spec.exposure is Exposure.DEFERRED]
            entry.index = _make_index(specs, old.index if old is not None else None)
        return entry.index


def _make_index(specs: Sequence[Spec], old: ToolIndex | None) -> ToolIndex:
    if old is None:
        return ToolIndex.of(specs)
    return anyio.run(partial(ToolIndex.build, specs, reuse=old))


UNNAMED = "other"
"""How the namespace without a name is shown."""


class Catalogue:
    """A view's deferred tools, except those its policy always denies.

    The others are not found, not counted and not named. Checking many tools takes a while, and so
    does their index: use this in a worker thread. Views on one set share its index.
    """

    def __init__(
        self,
        view: Toolset,
        policy: Policy | None,
        *,
        whole: Toolset | None = None,
        before: Toolset | None = None,
    ) -> None:
        self.view = view
        self._policy = policy
        denied = find_denied(view, policy)
        self.tools: Mapping[str, AnyTool] = {
            tool.spec.name: tool
            for tool in view
            if tool.spec.exposure is Exposure.DEFERRED and tool.spec.name not in denied
        }
        """The searchable tools, by name."""
        gone = [name for name in denied if view[name].spec.exposure is Exposure.DEFERRED]
        self.visible = view.without(*gone) if gone else view
        """The view's tools, without deferred ones always denied."""
        self._whole = whole if whole is not None and self._is_part_of(whole) else view
        """The indexed set: it may have more tools than the view."""
        self._before = before

    def _is_part_of(self, whole: Toolset) -> bool:
        found = ((tool, whole.find(name)) for name, tool in self.tools.items())
        return all(other is not None and other.spec == tool.spec for tool, other in found)

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Each tool's name, by each name a model may use for it."""
        aliases = {alias: name for name, tool in self.tools.items() for alias in tool.spec.aliases}
        own = {name: name for name in self.tools}
        return {**aliases, **{api_name(name): name for name in own}, **own}

    @cached_property
    def spaces(self) -> tuple[Namespace, ...]:
        """The namespaces by name, each with its tools.

        A namespace named like the label for the unnamed one is part of the unnamed one.
        """
        spaces = list_namespaces({name: tool.spec for name, tool in self.tools.items()})
        same = [space for space in spaces if space.name.casefold() in ("", UNNAMED)]
        if len(same) <= 1:
            return spaces
        names = sorted(name for space in same for name in space.names)
        first = min(same, key=lambda space: space.names[0])
        both = Namespace("", len(names), first.sentence, tuple(names))
        return (both, *(space for space in spaces if space not in same))

    @cached_property
    def _spaces_by_name(self) -> Mapping[str, Namespace]:
        shown = {space.name or UNNAMED: space for space in self.spaces}
        return {**{name.casefold(): space for name, space in shown.items()}, **shown}

    def find_space(self, name: str) -> Namespace | None:
        """Return the namespace with this name, whatever its case."""
        return self._spaces_by_name.get(name) or self._spaces_by_name.get(name.casefold())

    @cached_property
    def index(self) -> ToolIndex:
        """The index for these tools, made from the whole set's."""
        whole = index_of(self._whole, self._before)
        return whole if len(self.tools) == len(whole) else whole.among(self.tools)

    def asks(self, name: str) -> bool:
        """Return whether every call of a tool needs approval, if the policy knows."""
        tool = self.tools[name]
        return asks_always(self._policy, tool.spec, find_accesses(tool))
