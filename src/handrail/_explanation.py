"""Explanation: the whole way that a call would take, told without taking a step of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from handrail._access import Access
from handrail._call import Call
from handrail._decision import Ask, Decision, Deny
from handrail._policy import Explains, Matched
from handrail._result import Result

if TYPE_CHECKING:
    from handrail._desk import Desk  # all of the executor, for a word of judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What would become of a call, and why."""

    call: Call
    """As it would be judged, repairs included."""
    refusal: Result | None = None
    """What the model would read at once, where the call does not come as far as a policy."""
    tool: str = ""
    """The tool's own name, where the call used an alias."""
    repairs: tuple[str, ...] = ()
    accesses: tuple[Access, ...] = ()
    matched: tuple[Matched, ...] = ()
    """Every rule that has something to say, the deciding one first."""
    decision: Decision | None = None
    hooks: tuple[str, ...] = ()
    """The hooks that would see the call first, and might change it. None was run."""
    waits_for: tuple[str, ...] = ()
    """The calls under way that it would have to wait for."""

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def explained(
    call: Call, desk: Desk, in_the_way: Callable[[tuple[Access, ...]], tuple[str, ...]]
) -> Explanation:
    """What would become of a call at this desk."""
    hooks = tuple(getattr(hook, "__qualname__", repr(hook)) for hook in desk.before)
    ready = desk.judged(call)
    if isinstance(ready, Result):
        return Explanation(call=call, refusal=ready, hooks=hooks)
    matched: tuple[Matched, ...] = ()
    spec = ready.tool.spec
    policy: object = desk.policy
    if isinstance(policy, Explains):
        matched = policy.explain(ready.call, spec, ready.accesses)
    return Explanation(
        call=ready.call,
        tool=spec.name,
        repairs=ready.args.repairs,
        accesses=ready.accesses,
        matched=matched,
        decision=ready.decision,
        hooks=hooks,
        waits_for=in_the_way(ready.accesses),
    )


def _lines(told: Explanation) -> list[str]:
    call = told.call
    lines = [f"call      {call.name} {call.args}"]
    if told.refusal is not None:
        return [*lines, *_named("hook", told.hooks), f"refused   {told.refusal.text}"]
    if told.tool != call.name:
        lines.append(f"tool      {told.tool}, by its alias")
    lines += _named("repair", told.repairs)
    lines += _named("hook", told.hooks)
    lines += _named("touches", map(str, told.accesses))
    lines += _named("rule", map(str, told.matched))
    lines += _named("waits for", told.waits_for)
    return [*lines, f"decision  {_words(told.decision)}"]


def _named(name: str, values: Iterable[str]) -> list[str]:
    return [f"{name:<9} {value}" for value in values]


def _words(decision: Decision | None) -> str:
    if decision is None:
        return "none"
    said = "allow"
    if isinstance(decision, Ask):
        said = f"ask: {decision.question}"
    elif isinstance(decision, Deny):
        said = f"deny: {decision.reason}"
    return f"{said} [{decision.origin}]" if decision.origin is not None else said
