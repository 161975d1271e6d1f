"""Lint tools: find definitions models have trouble with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from handrail._definition.tool import AnyTool
from handrail._schema.json_schema import subschemas
from handrail._values.effect import READ, Exposure
from handrail._values.names import api_name
from handrail._values.spec import Spec

MAX_DEPTH = 5
"""Schema levels, counting each property and each list item as one."""
MAX_TOKENS = 1000
"""Estimated tokens in one tool's definition."""

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
    """Return the problems in tool definitions, as a model receives them."""
    tools = list(tools)
    specs = [tool.spec for tool in tools]
    found = [
        Finding(spec.name, rule, message)
        for spec in specs
        for rule, check in _RULES.items()
        for message in check(spec)
    ]
    if any(spec.effect != READ for spec in specs):  # else no call waits for another
        found += [Finding(tool.spec.name, "no-touches", _UNDECLARED) for tool in _undeclared(tools)]
    deferred = [spec for spec in specs if spec.exposure is Exposure.DEFERRED]
    return (*found, *(_find_unfindable(deferred) if deferred else ()))


def _undeclared(tools: Iterable[AnyTool]) -> Iterator[AnyTool]:
    """Yield reading tools without declared accesses."""
    for tool in tools:
        spec = tool.spec
        if spec.effect == READ and tool.touches is None and spec.exposure is not Exposure.SEARCH:
            yield tool


_UNDECLARED = (
    "it only reads, but does not say what, so it waits for every call that writes: declare "
    "`touches`, or `touches=lambda **_: ()` if nothing can change what it returns"
)


def _find_unfindable(specs: list[Spec]) -> Iterator[Finding]:
    """Yield the deferred tools no search for their own words finds first."""
    # only deferred tools are searched for
    from handrail._search.index import ToolIndex
    from handrail._search.plain import first_sentence

    index = ToolIndex.of(specs)
    for spec in specs:
        sentence = first_sentence(spec.description)
        queries = spec.name, sentence, f"{spec.name} {sentence} {spec.search_hint}"
        first = [index.search(query, limit=1).names[:1] for query in queries]
        if (spec.name,) not in first:
            before = next(iter(first[-1]), "")
            why = f": {before} comes before it" if before else ""
            yield Finding(spec.name, "not-found-first", f"{_UNFINDABLE}{why}. {_SAY_MORE}")


_UNFINDABLE = "no search for the words of its name and its first sentence finds it first"
_SAY_MORE = "Say there what only this tool does, or add a search_hint"


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
    if (cost := spec.tokens) > MAX_TOKENS:
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
