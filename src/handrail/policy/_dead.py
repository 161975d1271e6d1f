"""Dead rules: those that can never decide anything, so that their author hears of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from handrail import Spec
from handrail.policy._glob import name_glob
from handrail.policy._rule import STRENGTH, Rule


def dead(rules: Sequence[Rule], specs: Iterable[Spec], now: datetime) -> Iterator[str]:
    """Why each rule that can never fire cannot. Without specs, nothing is said of tools."""
    known = [spec.name for spec in specs]
    for rule in rules:
        if not rule.counts(now):
            yield f"{rule.origin} has expired"
        for name in rule.tools:
            if known and not any(name_glob(name)(one) for one in known):
                yield f"{rule.origin} names the tool {name!r}, and there is none"
        stronger = next((one for one in rules if _hides(one, rule)), None)
        if stronger is not None:
            yield f"{rule.origin} can never decide: {stronger.origin} always does"


def _hides(strong: Rule, weak: Rule) -> bool:
    """Whether one rule speaks, and more strictly, wherever the other does. False when in doubt."""
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
    return bool(weak) and all(any(one in ("*", name) for one in strong) for name in weak)


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
        return not weak.commands or not strong.touches
    return bool(weak.commands) and all(
        any(other.words in (("*",), command.words[: len(other.words)]) for other in strong.commands)
        for command in weak.commands
    )
