"""Selects the tools each principal may know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import anyio.to_thread

from handrail import Access, Executor, Exposure, Spec, Tool, Toolset
from handrail.policy import Rulebook

RulesOf: TypeAlias = Callable[[str | None], Rulebook]
"""Returns a principal's rules. Gets None for a client without one."""
_OWN = "handrail"
"""Origin of the tools an executor adds for searches."""


class _Selected(NamedTuple):
    """The tools some rules leave."""

    among: Toolset
    version: str
    tools: Toolset


class PrincipalTools:
    """An executor's tools, without those a principal's rules always deny."""

    def __init__(self, executor: Executor, rules_of: RulesOf | None) -> None:
        self._executor = executor
        self._rules_of = rules_of
        self._selected: dict[Rulebook, _Selected] = {}

    def may_know(self, server: str, principal: str | None) -> bool:
        """Return whether a principal may know a server without tools: its rules do not deny all."""
        if self._rules_of is None:
            return True
        spec = Spec(name=f"mcp__{server}__", description="", input_schema={})
        return not self._rules_of(principal).denies_all(spec, None)

    async def select(self, tools: Toolset, principal: str | None) -> Toolset:
        """Return those a principal may know. Many tools do not block the loop."""
        if self._rules_of is None:
            return tools
        rules = self._rules_of(principal)
        known = self._selected.get(rules)
        if known is None or known.among is not tools or known.version != rules.version:
            version = rules.version
            selected = await anyio.to_thread.run_sync(self._select, tools, rules)
            self._selected[rules] = known = _Selected(tools, version, selected)
        return known.tools

    def _select(self, tools: Toolset, rules: Rulebook) -> Toolset:
        denied = [tool for tool in tools if _denies_all(rules, tool)]
        if not denied:
            return tools
        left = tools.without(*(tool.spec.name for tool in denied))
        if all(tool.spec.exposure is not Exposure.DEFERRED for tool in denied):
            return left
        return self._describe_search(left)

    def _describe_search(self, tools: Toolset) -> Toolset:
        """Return the tools with a search tool naming only what it can find."""
        deferred = [tool.spec.name for tool in tools if tool.spec.exposure is Exposure.DEFERRED]
        if not deferred:
            return tools.without(*(tool.spec.name for tool in tools if tool.origin == _OWN))
        found = self._executor.restrict(*deferred).tools
        text = next(tool.spec.description for tool in found if _searches(tool))

        def describe(tool: Tool[..., Any]) -> Tool[..., Any]:
            spec = replace(tool.spec, description=text)
            return replace(tool, spec=spec) if _searches(tool) else tool

        return tools.map(describe)


def _searches(tool: Tool[..., Any]) -> bool:
    """Return whether a tool is an executor's search, not one from your application."""
    return tool.spec.exposure is Exposure.SEARCH and tool.origin == _OWN


def _denies_all(rules: Rulebook, tool: Tool[..., Any]) -> bool:
    accesses = (Access(tool.spec.effect, "*"),) if tool.touches is None else None
    return rules.denies_all(tool.spec, accesses)
