"""Foresight: what rules and a mode decide about a tool, whatever a call's arguments are."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace

from handrail import Access, Spec
from handrail.policy._decisions.opinions import mode_effect
from handrail.policy._decisions.tool_rules import FETCH_TAG, SHELL_TAG, ToolRules
from handrail.policy._rules.mode import Mode, verdict
from handrail.policy._rules.rule import Rule


class Foresight:
    """The rules deciding every call to a tool. Expiring ones do not last."""

    def __init__(self, rules: tuple[Rule, ...], mode: Mode, shell: Container[str]) -> None:
        self.rules = rules
        self.mode = mode
        self._shell = shell
        lasting = [rule for rule in rules if rule.expires is None]
        whole = [rule for rule in lasting if not (rule.args or rule.commands or rule.line)]
        self._denies = [rule for rule in whole if rule.decide == "deny"]
        self._asks = [rule for rule in whole if rule.decide == "ask" and not rule.touches]
        self._allows = [rule for rule in rules if rule.decide == "allow"]
        self._lenient = [
            *(replace(rule, args={}) for rule in self._allows),
            *(rule for rule in rules if rule.decide == "ask" and not rule.args),
            *self._denies,
        ]

    def denies_all(self, spec: Spec, accesses: tuple[Access, ...] | None) -> bool:
        """Return whether a rule or the mode denies every call to a tool.

        ``accesses`` belong to every call, or None if they depend on it.
        """
        by_rule = any(
            (not rule.touches or _is_met(rule, accesses or ())) and rule.concerns(spec)
            for rule in self._denies
        )
        return by_rule or (accesses is not None and self._mode_denies(spec, accesses))

    def _mode_denies(self, spec: Spec, accesses: Iterable[Access]) -> bool:
        """Return whether the mode denies every call, overriding allowing rules."""
        effect = max(map(mode_effect, accesses), default=spec.effect)
        if verdict(self.mode, effect) != "deny" or self._is_shell(spec):
            return False
        may_fetch = FETCH_TAG in spec.tags and any(rule.concerns(spec) for rule in self._allows)
        return not may_fetch

    def _is_shell(self, spec: Spec) -> bool:
        """Return whether a tool runs commands: what they do depends on the command."""
        return spec.name in self._shell or SHELL_TAG in spec.tags

    def asks_always(self, spec: Spec) -> bool:
        """Return whether a rule asks about every call to a tool."""
        return any(rule.concerns(spec) for rule in self._asks)

    def find_lenient(self, spec: Spec) -> ToolRules:
        """Return the rules for the call with the best chance.

        Its arguments meet the conditions in allowing rules, and in no others.
        """
        return ToolRules(spec, self._lenient, shell=False, timeless=False)


def _is_met(rule: Rule, accesses: Iterable[Access]) -> bool:
    return any(touch.meets(access) for touch in rule.touches for access in accesses)
