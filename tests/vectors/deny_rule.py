"""Ways around a rule that denies: none runs, in a strict mode nor in one that lets all else pass."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

from handrail import Allow, Call, CheckedCall, Decision, Deny, Hook, Result
from handrail.policy import Rule, Rulebook, builtin_rules
from vectors.stage import Outcome, bash, line, rules, save

SHIPPED = builtin_rules("read_only", "development")
WRITTEN = re.compile(r"(\w+)\((.*?)\)(?: (deny|allow))?(?:, |$)")
"""A rule as the vectors write it: ``bash(git push:*)``, and what it decides if not to deny."""
COMMANDS = {
    "deny-rule-001": "; ".join([*["true"] * 51, "curl x"]),
    "deny-rule-025": "curl x",
    "deny-rule-026": "echo x",
    "deny-rule-030": "echo '[a]' b",
}
"""Vectors that are described rather than spelled out; 030 as the rule means it."""

Policy = Callable[[CheckedCall], Decision]
Make = Callable[[str, str], Policy]
"""From a rule as it is written, and a mode, to what judges."""


def translated(text: str) -> tuple[Rule, ...]:
    """A rule of the vectors as one of ours."""
    return rules("\n".join(_table(*one.groups()) for one in WRITTEN.finditer(text)))


def _table(tool: str, what: str, decide: str | None) -> str:
    name, star, _ = what.partition(":*")
    lines = ["[[rule]]", f"decide = {json.dumps(decide or 'deny')}"]
    if tool == "read":
        path = what if what.startswith("~") else f"**/{what}"
        return "\n".join([*lines, f"access = {json.dumps(f'read file:{path}')}", ""])
    lines.append(f"tools = {json.dumps(tool)}")
    lines.append(f"command = [{json.dumps(name.split(' '))}]")
    if star and decide == "allow":
        lines += ['flags = "any"', 'operands = "any"']
    return "\n".join([*lines, ""])


def ours(rule: str, mode: str) -> Policy:
    return Rulebook([*SHIPPED, *translated(rule)], mode=mode, sandboxed=mode == "open")


def by_prefix(rule: str, _mode: str) -> Policy:
    """The control: a deny of what the whole line begins with; all else passes."""
    [(_, what, _), *_] = WRITTEN.findall(rule)
    start = what.removesuffix(":*")

    def judge(call: CheckedCall) -> Decision:
        return Deny("no") if str(call.args["command"]).startswith(start) else Allow()

    return judge


Before = Callable[[CheckedCall], Awaitable[Any]]


async def allows(_call: CheckedCall) -> Any:
    return Allow()


async def passes(call: CheckedCall) -> CheckedCall:
    return call


async def answers(call: CheckedCall) -> Result:
    return Result(call.id, "allowed by a hook")


async def rewrites(call: CheckedCall) -> Call:
    return call.with_args(command="curl x")


HOOKS: dict[str, tuple[Before, ...]] = {
    "deny-rule-025": (allows, passes, answers),
    "deny-rule-026": (rewrites,),
}


def holds(vector: dict[str, Any], make: Make = ours) -> bool:
    """Whether the rule holds, however the line is written."""
    name, rule = vector["id"], vector["policy"]["rule"]
    command = COMMANDS.get(name, vector["input"]["command"])
    if name in HOOKS:
        return _holds_against_hooks(make(rule, "open"), command, HOOKS[name])
    if name == "deny-rule-028":
        return _is_told(rule) and line(make(rule, "ask"), command).asked
    if name == "deny-rule-029":
        policy = make(rule, "ask")
        return line(policy, "git log -3").allowed and line(policy, command).asked
    if name == "deny-rule-030":
        return _is_literal(make, rule, command)
    if vector["expected"] == "deny" or name == "deny-rule-001":
        return all(line(make(rule, mode), command).denied for mode in ("ask", "open"))
    return line(make(rule, "ask"), command).held  # the sandbox hides the file, where there is one


def _holds_against_hooks(policy: Policy, command: str, hooks: tuple[Before, ...]) -> bool:
    """No hook lets run what a rule denies; what it rewrites is judged as it is then."""
    outcomes = [line(policy, command, hooks=[Hook(before=hook)]) for hook in hooks]
    return not any(one.ran for one in outcomes)


def _is_told(rule: str) -> bool:
    """A rule for a tool that nobody has is reported."""
    book = Rulebook(translated(rule))
    return any(one.kind == "unknown_tool" for one in book.unreachable_rules([bash.spec, save.spec]))


def _is_literal(make: Make, rule: str, command: str) -> bool:
    """Brackets mean brackets: they deny just that, and are no set of letters."""
    other: Outcome = line(make(rule, "ask"), "echo a")
    alone: Outcome = line(Rulebook(translated(rule)), "echo a")
    literal = line(make(rule, "ask"), command).denied and not isinstance(other.decision, Deny)
    return literal and alone.held  # with this rule alone nothing lets it run


def control_caught(vectors: list[dict[str, Any]]) -> int:
    """How many ways lead around a rule that looks at how a line begins."""
    return sum(not holds(vector, by_prefix) for vector in vectors)
