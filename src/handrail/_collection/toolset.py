"""Toolset: an immutable collection of tools in name order."""

from __future__ import annotations

import warnings
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from inspect import getattr_static
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from handrail._definition.decorator import tool
from handrail._definition.tool import AnyTool, check_bound, check_deps, is_tool, needs_deps
from handrail._values.effect import Exposure
from handrail._values.errors import DuplicateName, HandrailDeprecationWarning, UnknownName
from handrail._values.names import api_name, closest
from handrail._values.spec import Spec

if TYPE_CHECKING:
    from handrail._search.index import ToolIndex

Names: TypeAlias = Mapping[str, AnyTool]
"""Tools by name, or by alias."""

_SEARCH_CALL = "<tool_search_call>"
"""The search tool's key: a provider may call it without a name."""
_MAX_NEIGHBOURS = 500
"""Names compared with a wrong one on either side, in a large set."""
_MAX_JUDGED = 40
"""The closest names to check for visibility. A check takes a while."""
_LIKE = 0.8
"""How similar a misspelled name is to the tool's it means, from 0 to 1."""
_MAX_CLOSE = 5
"""Close names returned."""


class Toolset:
    """An immutable collection of tools in name order.

    The same tools make an equal set and the same bytes, in whatever order you pass them. Raises
    DuplicateName for two tools with one name, or an alias equal to another tool's name.
    """

    __slots__ = ("__dict__", "__weakref__", "_aliases", "_parts")

    def __init__(self, *tools: AnyTool | Callable[..., Any]) -> None:
        named: dict[str, AnyTool] = {}
        aliases: dict[str, AnyTool] = {}
        for given in tools:
            member = check_bound(given) if is_tool(given) else tool(given)
            if named.setdefault(member.spec.name, member) != member:
                raise duplicate_error(member.spec.name, named[member.spec.name], member)
            for alias in member.spec.aliases:
                if aliases.setdefault(alias, member) != member:
                    raise duplicate_error(alias, aliases[alias], member)
        for alias in aliases.keys() & named.keys():
            raise duplicate_error(alias, named[alias], aliases[alias])
        self._parts: tuple[Names, ...] = (dict(sorted(named.items())),)
        self._aliases: tuple[Names, ...] = (aliases,)

    @classmethod
    def from_object(cls, owner: object) -> Toolset:
        """Return all tools among an object's methods, bound to it."""
        kind = type(owner)
        held = {name: getattr_static(kind, name) for name in dir(kind)}
        names = [
            name for name, member in held.items() if is_tool(getattr(member, "__func__", member))
        ]
        return cls(*(getattr(owner, name) for name in names))

    @classmethod
    def join(cls, parts: tuple[Toolset, ...]) -> Toolset:
        """Join sets without common names, without copying them."""
        whole = cls.__new__(cls)
        whole._parts = tuple(names for part in parts for names in part._parts)
        whole._aliases = tuple(names for part in parts for names in part._aliases if names)
        return whole

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __iter__(self) -> Iterator[AnyTool]:
        return iter(self._sorted.values())

    def __contains__(self, name: object) -> bool:
        return any(name in names for names in self._parts)

    def __getitem__(self, name: str) -> AnyTool:
        """Return the tool with this name. An alias warns, and any other name raises UnknownName."""
        member = self.find(name)
        if member is None:
            near = ", ".join(self.closest(name))
            raise UnknownName(
                f"No tool is named {name!r}." + (f" Closest: {near}." if near else "")
            )
        if member.spec.name != name:
            warnings.warn(
                f"The tool {name!r} is now called {member.spec.name!r}.",
                HandrailDeprecationWarning,
                stacklevel=2,
            )
        return member

    def find(self, name: str) -> AnyTool | None:
        """Return the tool with this name or alias, or None."""
        for names in self._parts:
            member = names.get(name)
            if member is not None:
                return member
        for names in self._aliases:
            if name in names:
                return names[name]
        return None

    def closest(
        self, name: str, *, visible: Callable[[AnyTool], bool] | None = None
    ) -> tuple[str, ...]:
        """Return at most five visible names close to this one.

        By default, all are visible.
        """
        known = list(self._sorted)
        here = bisect(known, name)
        most = len(known) if len(known) <= 2 * _MAX_NEIGHBOURS else _MAX_NEIGHBOURS
        near = [*reversed(known[max(0, here - most) : here]), *known[here : here + most]]
        if visible is None:
            return closest(name, near, _MAX_CLOSE)
        seen = (at for at in closest(name, near, _MAX_JUDGED) if visible(self._sorted[at]))
        return tuple(islice(seen, _MAX_CLOSE))

    def meant_by(self, name: str) -> str:
        """Return the tool that a misspelled name means; empty if it has a tool, or none is clear.

        Such a name differs little, or has two letters swapped.
        """
        if name in self:
            return ""
        near = self.closest(name)
        alike = closest(name, near, 1, _LIKE)
        return next(iter([*alike, *(one for one in near if sorted(one) == sorted(name))]), "")

    @cached_property
    def specs(self) -> tuple[Spec, ...]:
        """The specs a model may receive, in name order: all but those for hidden tools."""
        return tuple(member.spec for member in self if member.spec.exposure is not Exposure.HIDDEN)

    @cached_property
    def has_deferred(self) -> bool:
        """Whether a model has to search for some tools."""
        return any(member.spec.exposure is Exposure.DEFERRED for member in self)

    @cached_property
    def has_background(self) -> bool:
        """Whether an agent continues while some tools run."""
        return any(member.spec.background for member in self)

    @cached_property
    def has_search_tool(self) -> bool:
        """Whether a tool finds deferred ones."""
        return any(member.spec.exposure is Exposure.SEARCH for member in self)

    def check_deps(self, deps: object, place: str) -> None:
        """Raise DefinitionError if deps are None and a tool takes ``Context[Shop]`` or similar.

        ``place`` is where to pass deps, for the message. Call it before a model gets the tools: a
        call would only fail because None has no such attribute.
        """
        for member in self._needs_deps if deps is None else ():
            check_deps(member, place)

    def free_name(self, name: str) -> str:
        """Return a name free in this set: this one, if possible."""
        while self.find(name) is not None:
            name += "_"
        return name

    @cached_property
    def api_names(self) -> Mapping[str, str]:
        """Each tool's own name, by its API name.

        The search tool is also below a key no API name has: calls to a provider's ``tool_search``
        have no name.
        """
        named = {api_name(name): name for name in self._sorted}
        for member in self:
            if member.spec.exposure is Exposure.SEARCH:
                named.setdefault(_SEARCH_CALL, member.spec.name)
        return named

    def __or__(self, other: Toolset) -> Toolset:
        """Return both sets' tools. Raises DuplicateName if one name means two tools."""
        return Toolset(*self, *other)

    def only(self, *names: str) -> Toolset:
        """Return only the tools with these names. Raises UnknownName if one does not exist."""
        return Toolset(*(self[name] for name in names))

    def without(self, *names: str) -> Toolset:
        """Return all tools but these. Raises UnknownName if one does not exist."""
        gone = {self[name].spec.name for name in names}
        return Toolset(*(member for member in self if member.spec.name not in gone))

    def prefixed(self, prefix: str) -> Toolset:
        """Return the tools with a prefix before every name and alias."""
        return self.map(
            lambda member: replace(
                member,
                spec=replace(
                    member.spec,
                    name=prefix + member.spec.name,
                    aliases=tuple(prefix + alias for alias in member.spec.aliases),
                ),
            )
        )

    def renamed(self, names: Mapping[str, str]) -> Toolset:
        """Return the tools with some renamed. Raises UnknownName for an unknown old name."""
        new = {self[old].spec.name: name for old, name in names.items()}
        return self.map(
            lambda member: replace(
                member, spec=replace(member.spec, name=new.get(member.spec.name, member.spec.name))
            )
        )

    def deferred(self, *, keep: Iterable[str] = (), over: int = 10_000) -> Toolset:
        """Return the tools, all but some deferred, if their definitions cost too many tokens.

        A set costing at most ``over`` tokens in each request stays unchanged. Raises UnknownName if
        a tool to keep does not exist.
        """
        kept = {self[name].spec.name for name in keep}
        direct = {member.spec.name for member in self if member.spec.exposure is Exposure.DIRECT}
        if sum(self[name].spec.tokens for name in direct) <= over:
            return self
        changed = direct - kept
        return self.map(
            lambda member: (
                replace(member, spec=replace(member.spec, exposure=Exposure.DEFERRED))
                if member.spec.name in changed
                else member
            )
        )

    def search(self, query: str, *, limit: int = 5) -> tuple[str, ...]:
        """Return the names of deferred tools that fit a query, the best first."""
        return self._index.search(query, limit=limit).names

    def explain_search(self, query: str, name: str) -> Mapping[str, float]:
        """Return a deferred tool's score for a query, by definition field."""
        return self._index.explain(query, name)

    @cached_property
    def _index(self) -> ToolIndex:
        # few programs search
        from handrail._search.index import ToolIndex

        return ToolIndex.of(spec for spec in self.specs if spec.exposure is Exposure.DEFERRED)

    def map(self, change: Callable[[AnyTool], AnyTool]) -> Toolset:
        """Return a set with each tool changed by a function."""
        return Toolset(*map(change, self))

    def __eq__(self, other: object) -> bool:
        return self._sorted == other._sorted if isinstance(other, Toolset) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self._sorted))

    def __repr__(self) -> str:
        return f"Toolset({', '.join(self._sorted)})"

    @cached_property
    def _needs_deps(self) -> tuple[AnyTool, ...]:
        return tuple([member for member in self if needs_deps(member)])

    @cached_property
    def _sorted(self) -> Names:
        if len(self._parts) == 1:
            return self._parts[0]
        return dict(sorted(item for names in self._parts for item in names.items()))


def duplicate_error(name: str, first: AnyTool, second: AnyTool) -> DuplicateName:
    """Return the error for two tools claiming one name, with both origins."""
    return DuplicateName(
        f"Two tools claim the name {name!r}: {first.origin} and {second.origin}. "
        'Rename one, or add a prefix: `tools.prefixed("other_")`.'
    )
