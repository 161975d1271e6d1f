"""Unreachable rules, which can never decide a call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from handrail import Spec
from handrail.permissions import Origin
from handrail.policy._rules.glob import is_glob, name_glob
from handrail.policy._rules.rule import STRENGTH, Level, Rule

UnreachableKind: TypeAlias = Literal["expired", "unknown_tool", "overridden"]


@dataclass(frozen=True, slots=True)
class UnreachableRule:
    """A rule that can never decide a call, and what to do about it."""

    rule: Rule
    kind: UnreachableKind
    reason: str
    """Why, as a clause about the rule."""
    hint: str
    """What to do, as an instruction."""

    def __str__(self) -> str:
        return f"{self.rule.origin}: {self.reason}"


def find_unreachable(
    rules: Sequence[Rule], specs: Iterable[Spec], now: datetime
) -> Iterator[UnreachableRule]:
    """Yield every unreachable rule. Tool names are checked only if there are specs."""
    known = [spec.name for spec in specs]
    for rule in rules:
        if not rule.is_active(now):
            hint = "delete it, or change `expires`"
            yield UnreachableRule(rule, "expired", "it has expired", hint)
        for name in rule.tools:
            if known and not any(name_glob(name)(tool) for tool in known):
                hint = "fix the name, or delete the rule"
                yield UnreachableRule(rule, "unknown_tool", f"no tool is named {name!r}", hint)
        stronger = next((other for other in rules if _hides(other, rule)), None)
        if stronger is not None:
            reason = f"it never decides, because {stronger.origin} always does"
            hint = "delete it, or make the other rule narrower"
            yield UnreachableRule(rule, "overridden", reason, hint)


def find_named(rules: Sequence[Rule]) -> dict[str, Origin]:
    """Return the tools named in full, each with its first rule, without built-in rules."""
    return {
        name: rule.origin
        for rule in reversed(rules)
        if rule.level is not Level.BUILT_IN
        for name in rule.tools
        if not is_glob(name)
    }


def _hides(strong: Rule, weak: Rule) -> bool:
    """Return whether a rule matches, and is stricter, wherever the other does. False if unsure."""
    return (
        STRENGTH[strong.decide] < STRENGTH[weak.decide]
        and strong.expires is None
        and (not strong.tools or _all_within(weak.tools, strong.tools))
        and (not strong.tags or (bool(weak.tags) and weak.tags <= strong.tags))
        and (not strong.effects or (bool(weak.effects) and weak.effects <= strong.effects))
        and (not strong.args or strong.args == weak.args)
        and _hides_touches(strong, weak)
        and _hides_commands(strong, weak)
    )


def _all_within(weak: tuple[str, ...], strong: tuple[str, ...]) -> bool:
    return bool(weak) and all(any(pattern in ("*", name) for pattern in strong) for name in weak)


def _hides_touches(strong: Rule, weak: Rule) -> bool:
    if not strong.touches:
        return True
    return bool(weak.touches) and all(
        any(
            touch.verbs <= other.verbs and other.pattern in ("*", touch.pattern)
            for other in strong.touches
        )
        for touch in weak.touches
    )


def _hides_commands(strong: Rule, weak: Rule) -> bool:
    if not strong.commands:
        return not (weak.commands or weak.line) or not strong.touches
    return bool(weak.commands) and all(
        any(other.words in (("*",), command.words[: len(other.words)]) for other in strong.commands)
        for command in weak.commands
    )
