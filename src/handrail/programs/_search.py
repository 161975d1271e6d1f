"""The function that finds functions, for programs with too many to describe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from handrail import READ, Exposure, Spec, Tool, Toolset, tool
from handrail.programs._stubs import Function, Stubs, make_functions

FIND = "find_functions"
_MAX_FOUND = 20
_MAX_NAMES_CHARS = 2_600
"""Characters of names in the description: less than 1,000 tokens."""


def make_search(tools: Toolset) -> Tool[..., Any]:
    """Return the tool that searches these."""
    indexed = tools.map(_defer)
    functions = {one.spec.name: one for one in make_functions(tools.specs).values()}

    @tool(name=tools.free_name(FIND), effect=READ, touches=lambda **_: ())
    def find_functions(query: str, limit: int = 5) -> str:
        """Find functions by what they do. Print the result.

        Args:
            query: A few words about what you need.
            limit: How many to return.
        """
        found = indexed.search(query, limit=max(1, min(limit, _MAX_FOUND)))
        if not found:
            return f"No function fits {query[:_MAX_QUOTED_CHARS]!r}. Use other words."
        return Stubs([functions[name] for name in found]).text

    return find_functions


_MAX_QUOTED_CHARS = 60


def _defer(one: Tool[..., Any]) -> Tool[..., Any]:
    return replace(one, spec=replace(one.spec, exposure=Exposure.DEFERRED))


def describe_search(functions: Mapping[str, Function], search: Spec) -> str:
    """Return the model's text about functions it has to search for."""
    own = next(one for one in functions.values() if one.spec is search)
    names = [name for name, one in functions.items() if one is not own]
    shown, room = list[str](), _MAX_NAMES_CHARS
    for name in names:
        room -= len(name) + 2
        if room < 0:
            break
        shown.append(name)
    more = f" and {len(names) - len(shown)} more" if len(shown) < len(names) else ""
    how = _HOW.format(count=len(names), find=own.name)
    return f"{Stubs([own]).text}\n\n{how}\n{', '.join(shown)}{more}"


_HOW = (
    "It finds the {count} others, by what they do. Write a first program that prints what you "
    'need, and call these in the next one: `print(await {find}(query="..."))`. Their names:'
)
