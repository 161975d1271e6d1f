"""Lint tools: find definitions that models have trouble with."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from handrail._definition.tool import AnyTool
from handrail._schema.json_schema import subschemas
from handrail._values.content import estimate_tokens
from handrail._values.names import api_name
from handrail._values.spec import Spec

MAX_DEPTH = 5
"""Levels of schema, counting each property and each list item as one."""
MAX_TOKENS = 1000
"""Estimated tokens of one tool's definition."""

_VAGUE = frozenset(
    "action call data do execute func function get handle handler helper invoke main misc perform "
    "process run stuff task tool util".split()
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem: the tool, the rule, and a message with a fix."""

    tool: str
    rule: str
    message: str


def lint(tools: Iterable[AnyTool]) -> tuple[Finding, ...]:
    """Return the problems in the definitions of tools, as a model receives them."""
    return tuple(
        Finding(tool.spec.name, rule, message)
        for tool in tools
        for rule, check in _RULES.items()
        for message in check(tool.spec)
    )


def tokens(spec: Spec) -> int:
    """Return about how many tokens a tool's definition costs: a quarter of its characters."""
    sent = json.dumps([spec.name, spec.description, spec.input_schema], ensure_ascii=False)
    return estimate_tokens(sent)


def _no_description(spec: Spec) -> Iterator[str]:
    if not spec.description:
        yield "it has no description: write a docstring that says when to use it, and when not"


def _no_parameter_description(spec: Spec) -> Iterator[str]:
    for name, schema in spec.input_schema.get("properties", {}).items():
        if "description" not in schema:
            yield f"parameter {name!r} has no description: add it to the docstring's `Args:`"


def _vague_name(spec: Spec) -> Iterator[str]:
    words = [word.lower() for word in _WORDS.findall(spec.name)]
    if all(word in _VAGUE or word.isdigit() for word in words):
        yield f"the name {spec.name!r} is vague: use a verb and an object"


def _two_tools(spec: Spec) -> Iterator[str]:
    if "and" in (word.lower() for word in _WORDS.findall(spec.name)):
        yield f"the name {spec.name!r} suggests that it does two things: make two tools"


def _invalid_api_name(spec: Spec) -> Iterator[str]:
    if (sent := api_name(spec.name)) != spec.name:
        yield f"not every API accepts the name {spec.name!r}: models receive {sent!r}"


def _too_deep(spec: Spec) -> Iterator[str]:
    depth = max(depth for depth, _ in subschemas(spec.input_schema))
    if depth > MAX_DEPTH:
        yield f"its arguments are nested {depth} levels deep: use at most {MAX_DEPTH}"


def _too_long(spec: Spec) -> Iterator[str]:
    if (cost := tokens(spec)) > MAX_TOKENS:
        yield f"it costs about {cost} tokens in every request: shorten it, or make it deferred"


_RULES: dict[str, Callable[[Spec], Iterator[str]]] = {
    "no-description": _no_description,
    "no-parameter-description": _no_parameter_description,
    "vague-name": _vague_name,
    "and-in-name": _two_tools,
    "wire-name": _invalid_api_name,
    "schema-depth": _too_deep,
    "token-cost": _too_long,
}
