"""The rules that concern one tool, indexed once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from handrail import Call, CheckedCall, Decision, Effect, Spec
from handrail._support import is_table
from handrail.policy._decisions.recursion import GuardedFiles
from handrail.policy._rules.index import AccessIndex, CommandIndex
from handrail.policy._rules.rule import Rule

SHELL_TAG = "shell"
"""A tool with this tag runs its argument ``command`` in a shell."""
FILTERED_TAG = "filtered"
"""A tool with this tag silently skips files that the policy denies reading."""
FETCH_TAG = "fetch"
"""A tool with this tag only reads the web: plan mode allows it where a rule does."""
_MAX_QUICK_CHARS, _MAX_QUICK_ACCESSES = 10_000, 100

NO_ARGS: Mapping[str, Any] = {}


def make_shell_spec(name: str) -> Spec:
    """Return what is known about a tool that runs shell commands, if it is not at hand."""
    tags = frozenset((SHELL_TAG,))
    return Spec(name=name, description="", input_schema={}, effect=Effect.DESTROY, tags=tags)


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
        mine = [
            rule
            for rule in rules
            if (shell or not (rule.commands or rule.line)) and rule.concerns(spec)
        ]
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

    def is_quick(self, call: CheckedCall) -> bool:
        """Return whether a call has no command to read, and little text."""
        is_short = len(call.parsed.text) <= _MAX_QUICK_CHARS
        return is_short and not self.shell and len(call.accesses) <= _MAX_QUICK_ACCESSES

    def read_args(self, call: Call) -> Mapping[str, Any]:
        """Return the arguments of a call with their defaults, if a rule needs them."""
        return {**self.defaults, **_read_args(call)} if self.needs_args else NO_ARGS

    def read_command(self, call: Call) -> str | None:
        """Return the command of a call of a shell tool; None if there is none."""
        if not self.shell:
            return None
        command = _read_args(call).get("command", self.defaults.get("command"))
        return command if isinstance(command, str) else None


def _read_args(call: Call) -> Mapping[str, Any]:
    args: Any = json.loads(str(call.args) or "{}")  # a checked call has them as text
    return args if is_table(args) else NO_ARGS
