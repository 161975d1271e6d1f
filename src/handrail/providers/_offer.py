"""Tools in a request: direct ones, the finder, and the ones it has found.

Never the whole catalogue: a deferred tool is sent once a search has found it, and from then on in
find order. So everything sent before a find is the beginning of everything sent after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from handrail import Call, Exposure, Result, Spec, Toolset
from handrail.messages import ToolResults, TruncatedCall
from handrail.providers._formats.history import PlacedMessage
from handrail.providers._schema.compile import compile_arguments
from handrail.providers._schema.limits import Load, load
from handrail.providers._tools import CompiledTool, ToolFormat, compile_tool

ToolSearch: TypeAlias = Literal["native", "hosted", "plain"]
"""How deferred tools get to a model.

With ``"native"``, the API loads what your search found. With ``"hosted"``, the provider searches.
With ``"plain"``, found tools are sent like all others.
"""


class Definitions(NamedTuple):
    """A request's tools in an API's format, in sending order."""

    direct: list[dict[str, Any]]
    finder: list[dict[str, Any]]
    """The tool for finding deferred ones, if any."""
    deferred: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class OfferedTools:
    """A set's tools, by how a model gets them.

    Without a finder, deferred tools are sent like all others. Without a deferred tool, there is
    nothing to find.
    """

    form: ToolFormat
    direct: tuple[Spec, ...] = ()
    finder: Spec | None = None
    deferred: Mapping[str, Spec] = field(default_factory=dict[str, Spec])

    def encode(self, loaded: Iterable[str]) -> Definitions:
        """Convert the direct tools, the finder, and deferred ones with these names in this order.

        Tools the API does not support are skipped. An API may limit how much it enforces in all
        tools together. Direct tools with ``strict="on"`` come first. A tool over the limit is sent
        without ``strict``.
        """
        first = (*self.direct, *(() if self.finder is None else (self.finder,)))
        later = [self.deferred[name] for name in dict.fromkeys(loaded) if name in self.deferred]
        definitions = {
            spec.name: tool.definition
            for spec in (*first, *later)
            if isinstance(tool := compile_tool(spec, self.form), CompiledTool)
        }
        self._limit_strict([*sorted(first, key=_strict_order), *later], definitions)
        groups = (self.direct, first[len(self.direct) :], later)
        sent = [[spec.name for spec in group if spec.name in definitions] for group in groups]
        return Definitions(*([definitions[name] for name in names] for names in sent))

    def _limit_strict(self, specs: list[Spec], definitions: dict[str, dict[str, Any]]) -> None:
        budget, used = self.form.strict_budget, Load(tools=0)
        if budget is None:
            return
        for spec in specs:
            if not definitions.get(spec.name, {}).get("strict"):
                continue
            more = used + load(definitions[spec.name]["input_schema"])
            if more.within(budget.requested if spec.strict == "on" else budget.automatic):
                used = more
            else:
                loose = compile_arguments(spec.input_schema, self.form.subset, strict=False)
                definitions[spec.name] = self.form.write(spec, loose).definition


def make_offer(
    tools: Toolset | Iterable[Spec], form: ToolFormat, search: ToolSearch = "native"
) -> OfferedTools:
    """Return how a set's tools are offered. A hosted search needs no finder."""
    hosted = search == "hosted"
    if isinstance(tools, Toolset):
        specs = tools.specs
    else:
        specs = tuple({spec.name: spec for spec in sorted(tools, key=_name)}.values())
    deferred = {spec.name: spec for spec in specs if spec.exposure is Exposure.DEFERRED}
    finder = next(_find_sent(specs, form), None) if deferred and not hosted else None
    unfindable = () if finder or hosted else deferred
    direct = (spec for spec in specs if spec.exposure is Exposure.DIRECT or spec.name in unfindable)
    return OfferedTools(form, tuple(direct), finder, {} if unfindable else deferred)


def _find_sent(specs: Iterable[Spec], form: ToolFormat) -> Iterator[Spec]:
    """Yield the finders an API supports."""
    for spec in specs:
        if spec.exposure is Exposure.SEARCH and isinstance(compile_tool(spec, form), CompiledTool):
            yield spec


class Found(NamedTuple):
    """Definitions for the tools a result has found."""

    new: list[dict[str, Any]]
    all: list[dict[str, Any]]
    """Includes those an earlier result had found."""


class Finds:
    """The deferred tools a history has found so far."""

    def __init__(self, offer: OfferedTools) -> None:
        self.loaded: set[str] = set()
        self.hosted: set[str] = set()
        """Names in the API for tools found by the provider's own search."""
        self._offer = offer
        self._searches: set[tuple[int, str]] = set()

    def note_searches(self, turns: Iterable[PlacedMessage]) -> None:
        """Note which calls of replies searched for tools, which their results show."""
        self._searches |= {
            (turn.at - 1, call.id)
            for turn in turns
            if isinstance(turn.message, ToolResults)
            for call, _, result in turn.pair_results(turn.message)
            if self._searched(call, result)
        }

    def _searched(self, call: Call | TruncatedCall, result: Result) -> bool:
        finder = self._offer.finder
        is_found = any(name in self._offer.deferred for name in result.found)
        return is_found or (finder is not None and call.name == finder.name)

    def is_search(self, at: int, call: Call | TruncatedCall) -> bool:
        """Whether a call in the reply at this index searched for tools."""
        return (at, call.id) in self._searches

    def take(self, result: Result) -> Found:
        """Return the definitions for a result's tools: new ones, and those found before."""
        deferred, taken = self._offer.deferred, dict[str, dict[str, Any]]()
        for name in () if result.failure else result.found:
            if name in deferred:
                tool = compile_tool(deferred[name], self._offer.form)
                taken |= {name: tool.definition} if isinstance(tool, CompiledTool) else {}
        new = [definition for name, definition in taken.items() if name not in self.loaded]
        self.loaded |= taken.keys()
        return Found(new, list(taken.values()))


def _name(spec: Spec) -> str:
    return spec.name


def _strict_order(spec: Spec) -> tuple[bool, str]:
    return spec.strict != "on", spec.name
