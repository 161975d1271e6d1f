"""Explanation: what would happen to a call, and why, without running it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from handrail._labels.sources import ValueSource
from handrail._labels.text import describe_source
from handrail._permissions.decide import Matched
from handrail._values.access import Access
from handrail._values.call import Call
from handrail._values.decision import Ask, Decision, Deny
from handrail._values.pending import Pending
from handrail._values.result import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Describes what would happen to a call, and why."""

    call: Call
    """The call as it would be decided, after repairs."""
    refusal: Result | None = None
    """The result, if the call fails before it reaches the policy."""
    tool: str = ""
    """The tool's own name. The call may have used an alias."""
    repairs: tuple[str, ...] = ()
    accesses: tuple[Access, ...] = ()
    sources: tuple[ValueSource, ...] = ()
    """Who named the call's destinations, and the links in its texts."""
    matched: tuple[Matched, ...] = ()
    """Every matching rule, the deciding one first."""
    decision: Decision | None = None
    pending: Pending | None = None
    """The approval request. Your application can show it itself, and pass it to ``Turn.answer``."""
    hooks: tuple[str, ...] = ()
    """Hooks that would see the call first, and could change it. None was run."""
    waits_for: tuple[str, ...] = ()
    """Ids of running calls it would have to wait for."""

    def __str__(self) -> str:
        return "\n".join(_format_lines(self))


def _format_lines(explanation: Explanation) -> list[str]:
    call = explanation.call
    lines = [f"call      {call.name} {call.args}"]
    if explanation.refusal is not None:
        return [*lines, f"refused   {explanation.refusal.text}"]
    if explanation.tool != call.name:
        lines.append(f"tool      {explanation.tool}, by its alias")
    lines += _format_values("repair", explanation.repairs)
    lines += _format_values("hook", explanation.hooks)
    lines += _format_values("touches", map(_describe_access, explanation.accesses))
    lines += _format_values("source", map(describe_source, explanation.sources))
    lines += _format_values("rule", map(str, explanation.matched))
    lines += _format_values("waits for", explanation.waits_for)
    return [*lines, f"decision  {_describe_decision(explanation.decision)}"]


def _describe_access(access: Access) -> str:
    return f"{access} (anything)" if access.resource == "*" else str(access)


def _format_values(name: str, values: Iterable[str]) -> list[str]:
    return [f"{name:<9} {value}" for value in values]


def _describe_decision(decision: Decision | None) -> str:
    if decision is None:
        return "none"
    text = "allow"
    if isinstance(decision, Ask):
        text = f"ask: {decision.question}"
    elif isinstance(decision, Deny):
        text = f"deny: {decision.reason}"
    return f"{text} [{decision.origin}]" if decision.origin is not None else text
