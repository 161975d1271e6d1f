"""Toolset: an immutable collection of tools in name order."""

from __future__ import annotations

import warnings
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from inspect import getattr_static
from typing import Any, TypeAlias

from handrail._define import tool
from handrail._effect import Exposure
from handrail._errors import DuplicateName, HandrailDeprecationWarning, UnknownName
from handrail._names import closest, wire_name
from handrail._spec import Spec
from handrail._tool import AnyTool, check_bound, is_tool

Names: TypeAlias = Mapping[str, AnyTool]
"""Tools by name, or by alias."""

_NEIGHBOURS = 500
"""How many names on either side are looked at, in a large set, for ones close to a wrong name."""


class Toolset:
    """An immutable collection of tools in name order.

    The same tools make an equal set and the same bytes, whatever order they were given in. Two
    tools with one name, or an alias that is another tool's name, are refused.
    """

    __slots__ = ("__dict__", "_aliases", "_parts")

    def __init__(self, *tools: AnyTool | Callable[..., Any]) -> None:
        named: dict[str, AnyTool] = {}
        aliases: dict[str, AnyTool] = {}
        for one in tools:
            made = check_bound(one) if is_tool(one) else tool(one)
            if named.setdefault(made.spec.name, made) != made:
                raise duplicate(made.spec.name, named[made.spec.name], made)
            for alias in made.spec.aliases:
                if aliases.setdefault(alias, made) != made:
                    raise duplicate(alias, aliases[alias], made)
        for alias in aliases.keys() & named.keys():
            raise duplicate(alias, named[alias], aliases[alias])
        self._parts: tuple[Names, ...] = (dict(sorted(named.items())),)
        self._aliases: tuple[Names, ...] = (aliases,)

    @classmethod
    def of(cls, owner: object) -> Toolset:
        """All tools among an object's methods, bound to it."""
        kind = type(owner)
        held = {name: getattr_static(kind, name) for name in dir(kind)}
        names = [name for name, one in held.items() if is_tool(getattr(one, "__func__", one))]
        return cls(*(getattr(owner, name) for name in names))

    @classmethod
    def joined(cls, parts: tuple[Toolset, ...]) -> Toolset:
        """Sets that are known to have no name in common, as one, without copying them."""
        whole = cls.__new__(cls)
        whole._parts = tuple(names for one in parts for names in one._parts)
        whole._aliases = tuple(names for one in parts for names in one._aliases if names)
        return whole

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __iter__(self) -> Iterator[AnyTool]:
        return iter(self._sorted.values())

    def __contains__(self, name: object) -> bool:
        return any(name in names for names in self._parts)

    def __getitem__(self, name: str) -> AnyTool:
        """The tool of that name; an alias works and warns, anything else raises UnknownName."""
        found = self.find(name)
        if found is None:
            near = ", ".join(self.closest(name))
            raise UnknownName(f"no tool named {name!r}" + (f"; closest: {near}" if near else ""))
        if found.spec.name != name:
            warnings.warn(
                f"the tool {name!r} is now called {found.spec.name!r}",
                HandrailDeprecationWarning,
                stacklevel=2,
            )
        return found

    def find(self, name: str) -> AnyTool | None:
        """The tool that a call by this name or alias would reach, if there is one."""
        for names in (*self._parts, *self._aliases):
            if name in names:
                return names[name]
        return None

    def closest(self, name: str) -> tuple[str, ...]:
        """At most five names that somebody who wrote this one may have meant."""
        known = list(self._sorted)
        here = bisect(known, name)
        near = (
            known
            if len(known) <= 2 * _NEIGHBOURS
            else known[max(0, here - _NEIGHBOURS) :][: 2 * _NEIGHBOURS]
        )
        return closest(name, near)

    @cached_property
    def specs(self) -> tuple[Spec, ...]:
        """What a model may be told, in name order: all but the hidden tools."""
        return tuple(one.spec for one in self if one.spec.exposure is not Exposure.HIDDEN)

    @cached_property
    def wire_names(self) -> Mapping[str, str]:
        """From the name that a provider is given to the tool's own."""
        return {wire_name(name): name for name in self._sorted}

    def __or__(self, other: Toolset) -> Toolset:
        """The tools of both; the same tool may be in both, another one of its name may not."""
        return Toolset(*self, *other)

    def only(self, *names: str) -> Toolset:
        """The tools of these names, each of which must be there."""
        return Toolset(*(self[name] for name in names))

    def without(self, *names: str) -> Toolset:
        """All tools but these, each of which must be there."""
        gone = {self[name].spec.name for name in names}
        return Toolset(*(one for one in self if one.spec.name not in gone))

    def prefixed(self, prefix: str) -> Toolset:
        """Every name and alias with a prefix, to tell two sources apart."""
        return self.map(
            lambda one: replace(
                one,
                spec=replace(
                    one.spec,
                    name=prefix + one.spec.name,
                    aliases=tuple(prefix + alias for alias in one.spec.aliases),
                ),
            )
        )

    def renamed(self, names: Mapping[str, str]) -> Toolset:
        """Some tools under new names; the old ones must be there, and go."""
        new = {self[old].spec.name: name for old, name in names.items()}
        return self.map(
            lambda one: replace(
                one, spec=replace(one.spec, name=new.get(one.spec.name, one.spec.name))
            )
        )

    def map(self, change: Callable[[AnyTool], AnyTool]) -> Toolset:
        """Each tool, changed."""
        return Toolset(*map(change, self))

    def __eq__(self, other: object) -> bool:
        return self._sorted == other._sorted if isinstance(other, Toolset) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self._sorted))

    def __repr__(self) -> str:
        return f"Toolset({', '.join(self._sorted)})"

    @cached_property
    def _sorted(self) -> Names:
        if len(self._parts) == 1:
            return self._parts[0]
        return dict(sorted((name, one) for names in self._parts for name, one in names.items()))


def duplicate(name: str, one: AnyTool, other: AnyTool) -> DuplicateName:
    """Two tools claim one name: say where both come from."""
    return DuplicateName(
        f"two tools claim the name {name!r}: {one.origin} and {other.origin}. "
        "Rename one, or give its set a prefix: tools.prefixed('other_')."
    )
