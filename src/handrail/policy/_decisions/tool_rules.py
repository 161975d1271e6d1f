"""The rules that concern one tool, indexed once."""

from __future__ import annotations

from collections.abc import Sequence

from handrail import Decision, Effect, Spec
from handrail._support.tables import is_table
from handrail.policy._decisions.recursion import GuardedFiles
from handrail.policy._rules.index import AccessIndex, CommandIndex
from handrail.policy._rules.rule import Rule

FILTERED_TAG = "filtered"
"""A tool with this tag silently skips files that the policy denies reading."""


class ToolRules:
    """The rules that concern one tool, indexed once."""

    __slots__ = (
        "commands",
        "defaults",
        "denies",
        "filtered",
        "guarded",
        "lines",
        "needs_args",
        "remembered",
        "rules",
        "shell",
        "spec",
    )

    def __init__(self, spec: Spec, rules: Sequence[Rule], *, shell: bool, timeless: bool) -> None:
        mine = [rule for rule in rules if rule.concerns(spec)]
        self.spec = spec
        self.shell = shell
        self.filtered = spec.effect == Effect.READ and FILTERED_TAG in spec.tags
        self.rules = AccessIndex(rule for rule in mine if not (rule.commands or rule.line))
        self.commands = CommandIndex(rule for rule in mine if rule.commands)
        self.guarded = [one for rule in mine if (one := GuardedFiles.of(rule)) is not None]
        """Rules that deny reading files, or ask about it."""
        self.lines = [rule for rule in mine if rule.line]
        """Rules that allow one shell command, character for character."""
        self.defaults = {
            name: about["default"]
            for name, about in spec.input_schema.get("properties", {}).items()
            if is_table(about) and "default" in about
        }
        """The defaults of arguments."""
        self.denies = any(rule.decide == "deny" for rule in mine)
        self.needs_args = any(rule.args for rule in mine)
        by_access = timeless and not shell and not self.needs_args
        self.remembered: tuple[dict[str, Decision], ...] | None = None
        """Decisions by verb and resource, if they depend on nothing else."""
        if by_access:
            self.remembered = ({}, {}, {}, {})
