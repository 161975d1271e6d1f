"""What makes a tool hard for a model to use, found before a model does."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from handrail._compact import subschemas
from handrail._names import wire_name
from handrail._spec import Spec
from handrail._tool import AnyTool

MAX_DEPTH = 5
"""Levels of schema, counting each property and each list item as one."""
MAX_TOKENS = 1000
"""What one tool's definition may cost, by estimate."""

_CHARACTERS_PER_TOKEN = 4
_VAGUE = frozenset(
    "action call data do execute func function get handle handler helper invoke main misc perform "
    "process run stuff task tool util".split()
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to mend: in which tool, by which rule, and how."""

    tool: str
    rule: str
    message: str


def lint(tools: Iterable[AnyTool]) -> tuple[Finding, ...]:
    """Look at each tool as a model will see it; nothing found is an empty tuple."""
    return tuple(
        Finding(one.spec.name, rule, message)
        for one in tools
        for rule, look in _RULES.items()
        for message in look(one.spec)
    )


def tokens(spec: Spec) -> int:
    """About how many tokens a tool's definition costs in a request: a quarter of its characters."""
    told = json.dumps([spec.name, spec.description, spec.input_schema], ensure_ascii=False)
    return -(-len(told) // _CHARACTERS_PER_TOKEN)


def _no_description(spec: Spec) -> Iterator[str]:
    if not spec.description:
        yield "it has no description: say in a docstring when to use it, and when not"


def _no_parameter_description(spec: Spec) -> Iterator[str]:
    for name, schema in spec.input_schema.get("properties", {}).items():
        if "description" not in schema:
            yield f"parameter {name!r} has no description: add it to the docstring's `Args:`"


def _vague_name(spec: Spec) -> Iterator[str]:
    words = [word.lower() for word in _WORDS.findall(spec.name)]
    if all(word in _VAGUE or word.isdigit() for word in words):
        yield f"the name {spec.name!r} says nothing: name what it does and to what"


def _two_tools(spec: Spec) -> Iterator[str]:
    if "and" in (word.lower() for word in _WORDS.findall(spec.name)):
        yield f"the name {spec.name!r} says that it does two things: make two tools"


def _name_on_the_wire(spec: Spec) -> Iterator[str]:
    if (sent := wire_name(spec.name)) != spec.name:
        yield f"not every provider takes the name {spec.name!r}: models will see {sent!r}"


def _too_deep(spec: Spec) -> Iterator[str]:
    depth = max(depth for depth, _ in subschemas(spec.input_schema))
    if depth > MAX_DEPTH:
        yield f"its arguments are {depth} levels deep: models do well with {MAX_DEPTH} or fewer"


def _too_dear(spec: Spec) -> Iterator[str]:
    if (cost := tokens(spec)) > MAX_TOKENS:
        yield f"it costs about {cost} tokens in every request: say less, or make it deferred"


_RULES: dict[str, Callable[[Spec], Iterator[str]]] = {
    "no-description": _no_description,
    "no-parameter-description": _no_parameter_description,
    "vague-name": _vague_name,
    "and-in-name": _two_tools,
    "wire-name": _name_on_the_wire,
    "schema-depth": _too_deep,
    "token-cost": _too_dear,
}
