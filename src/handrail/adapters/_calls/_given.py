"""Calls' principal, deps and metadata: values, or functions taking the framework's object."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypedDict, TypeVar

from handrail import Executor, Json

H = TypeVar("H")


class Given(TypedDict, Generic[H], total=False):
    """Call options. A function gets the framework's object."""

    principal: str | Callable[[H], str | None] | None
    """The user on whose behalf calls are made."""
    deps: Callable[[H], object] | object
    """Objects for the tools, replacing the framework's."""
    metadata: Mapping[str, Json] | Callable[[H], Mapping[str, Json]]
    """More facts for policies, hooks and tools."""
    said: Sequence[str] | Callable[[H], Sequence[str]]
    """What people wrote, if the framework does not tell: for rules about sources."""


class Values(TypedDict, total=False):
    """Options for all calls, for a framework passing nothing."""

    principal: str | None
    """The user on whose behalf calls are made."""
    deps: object
    """Objects for the tools."""
    metadata: Mapping[str, Json]
    """More facts for policies, hooks and tools."""
    said: Sequence[str]
    """What people wrote, for rules about sources."""


class TurnFacts(Generic[H]):
    """Reads what a turn runs with. ``place`` is where your application passes it."""

    def __init__(self, executor: Executor, place: str, given: Mapping[str, Any]) -> None:
        check_names(place, given)
        asynchronous = [name for name in given if inspect.iscoroutinefunction(given[name])]
        if asynchronous:
            raise TypeError(f"{place}: {asynchronous[0]}= must not be an `async def` function.")
        self._executor, self._place, self._given = executor, place, dict(given)

    def read(self, passed: H | None, **defaults: Any) -> dict[str, Any]:
        """Return a turn's options. Raises DefinitionError if a tool needs deps without any.

        Outside a run, a framework may pass nothing. Then only values are read.
        """
        chosen = dict(defaults)
        for name, value in self._given.items():
            if not _is_function(value):
                chosen[name] = value
            elif passed is not None:
                chosen[name] = value(passed)
        if chosen.get("deps") is None:
            self._executor.tools.check_deps(None, self._place)
        return chosen


def _is_function(value: Any) -> bool:
    return inspect.isroutine(value) or isinstance(value, partial)


def check_values(executor: Executor, place: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what all calls run with. Raises DefinitionError if a tool needs deps without any."""
    check_names(place, given)
    executor.tools.check_deps(given.get("deps"), place)
    return dict(given)


def check_names(place: str, given: Mapping[str, Any]) -> None:
    """Reject unknown options."""
    if unknown := sorted(given.keys() - Values.__annotations__.keys()):
        raise TypeError(f"{place} has no option {unknown[0]!r}.")
