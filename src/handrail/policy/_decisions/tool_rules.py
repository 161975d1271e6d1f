"""The rules for one tool, indexed once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from handrail import Call, CheckedCall, Decision, Effect, Spec
from handrail._support import is_object
from handrail.permissions import Origin
from handrail.policy._decisions.opinions import Opinion, opinion_of
from handrail.policy._decisions.recursion import GuardedFiles
from handrail.policy._rules.index import AccessIndex, CommandIndex
from handrail.policy._rules.parse import parse
from handrail.policy._rules.rule import Level, Rule
from handrail.policy._rules.shell_command import Usable
from handrail.policy._rules.source import SourceRules
from handrail.sources import ValueSource

SHELL_TAG = "shell"
"""A tool with this tag runs its argument ``command`` in a shell."""
FILTERED_TAG = "filtered"
"""A tool with this tag silently skips files the policy denies reading."""
FETCH_TAG = "fetch"
"""A tool with this tag only reads the web: plan mode allows it where a rule does."""
_MAX_QUICK_CHARS, _MAX_QUICK_ACCESSES = 10_000, 100

NO_ARGS: Mapping[str, Any] = {}


def make_shell_spec(name: str) -> Spec:
    """Return the known facts about a tool for shell commands, if it is not at hand."""
    tags = frozenset((SHELL_TAG,))
    return Spec(name=name, description="", input_schema={}, effect=Effect.DESTROY, tags=tags)


class ToolRules:
    """The rules for one tool, indexed once."""

    __slots__ = (
        "_remembered",
        "_schemes",
        "by_source",
        "commands",
        "defaults",
        "denies",
        "filtered",
        "guarded",
        "lines",
        "needs_args",
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
        self.by_source = [rule for rule in mine if rule.source]
        """Rules about who named a call's values."""
        self._schemes = [_find_schemes(rule) for rule in self.by_source]
        mine = [rule for rule in mine if not rule.source]
        self.spec = spec
        self.shell = shell
        self.filtered = spec.effect == Effect.READ and FILTERED_TAG in spec.tags
        self.rules = AccessIndex(rule for rule in mine if not (rule.commands or rule.line))
        self.commands = CommandIndex(rule for rule in mine if rule.commands)
        self.guarded = [one for rule in mine if (one := GuardedFiles.of(rule)) is not None]
        """Rules denying or asking about reading files."""
        self.lines = [rule for rule in mine if rule.line]
        """Rules allowing one shell command, character for character."""
        self.defaults = {
            name: about["default"]
            for name, about in spec.input_schema.get("properties", {}).items()
            if is_object(about) and "default" in about
        }
        """Argument defaults."""
        self.denies = any(rule.decide == "deny" for rule in (*mine, *self.by_source))
        self.needs_args = any(rule.args for rule in (*mine, *self.by_source))
        any_call = any(not rule.source.is_about_names for rule in self.by_source)
        by_access = timeless and not (shell or self.needs_args or any_call)
        self._remembered: tuple[dict[str, Decision], ...] | None = None
        if by_access:
            self._remembered = ({}, {}, {}, {})

    @staticmethod
    def find_ready(wanted: SourceRules, *, alone: bool) -> tuple[Rule, ...]:
        """Return the ready rules about sources: with an allow for other calls if they are alone."""
        return _read_ready(wanted, alone=alone)

    def find_remembered(self, call: CheckedCall) -> tuple[dict[str, Decision], ...] | None:
        """Return decisions by verb and resource, if a call's depends on nothing else.

        With rules about sources, this holds only for calls that name nothing.
        """
        if len(call.accesses) != 1:
            return None
        is_named = self.by_source and (call.spec.effect is not Effect.READ or call.sources)
        return None if is_named else self._remembered

    def is_quick(self, call: CheckedCall) -> bool:
        """Return whether a call has no command to read, and little text."""
        is_short = len(call.parsed.text) <= _MAX_QUICK_CHARS
        return is_short and not self.shell and len(call.accesses) <= _MAX_QUICK_ACCESSES

    def object_to_sources(
        self, call: CheckedCall, usable: Usable, *, in_workspace: bool
    ) -> list[Opinion]:
        """Return denies and asks based on who named a call's values.

        In a workspace, its files are material to work on, no matter who named them.
        """
        if not self.by_source:
            return []
        sources = call.find_sources(in_workspace=in_workspace)
        names = {one.name for one in sources}
        after: Mapping[str, str] | None = None
        opinions: list[Opinion] = []
        for rule, schemes in zip(self.by_source, self._schemes, strict=True):
            found: list[ValueSource] = []
            if rule.source.is_about_names:
                if schemes is None or not schemes.isdisjoint(names):
                    found = rule.source.find(sources, rule.touches)
                is_met = bool(found)
            else:
                is_met = not sources if rule.source.kind else rule.meets(call.accesses)
            if not is_met or not usable(rule):
                continue
            if rule.source.after and after is None:
                after = call.after
            if rule.source.after <= (after or {}).keys():
                read = tuple((after or {})[kind] for kind in sorted(rule.source.after))
                opinions.append(_source_opinion(rule, found, read))
        return opinions

    def read_args(self, call: Call) -> Mapping[str, Any]:
        """Return a call's arguments with their defaults, if a rule needs them."""
        return {**self.defaults, **_read_args(call)} if self.needs_args else NO_ARGS

    def read_command(self, call: Call) -> str | None:
        """Return the command in a shell tool's call, or None."""
        if not self.shell:
            return None
        command = _read_args(call).get("command", self.defaults.get("command"))
        return command if isinstance(command, str) else None


def _source_opinion(rule: Rule, found: Sequence[ValueSource], after: Sequence[str]) -> Opinion:
    opinion = opinion_of(rule)
    if after and not found:
        opinion = opinion._replace(reason=f"{rule.reason}: {', '.join(after)}".removeprefix(": "))
    return opinion._replace(sources=tuple(found))


def _find_schemes(rule: Rule) -> frozenset[str] | None:
    """Return the schemes of the names that a rule is about, or None for any."""
    schemes = frozenset(touch.pattern.partition(":")[0] for touch in rule.touches)
    return None if not schemes or "*" in schemes else schemes


def _read_args(call: Call) -> Mapping[str, Any]:
    args: Any = json.loads(str(call.args) or "{}")  # a checked call has them as text
    return args if is_object(args) else NO_ARGS


_OTHERS = Origin("sources: other calls", kind="built-in")
_EFFECTS = frozenset(Effect)
_FILES: Mapping[SourceRules, int] = {False: 0, True: 1, "strict": 2, "unattended": 3}
"""How many of the files apply."""
_NAMES = ("sources.toml", "sources_strict.toml", "sources_unattended.toml")


@cache
def _read_ready(wanted: SourceRules, *, alone: bool) -> tuple[Rule, ...]:
    """Return the ready rules about sources. Their examples are checked by tests.

    If they are ``alone``, they allow what they do not ask about, except for shell commands.
    """
    if not wanted:
        return ()
    rules: list[Rule] = []
    for file in _NAMES[: _FILES[wanted]]:
        text = files("handrail.policy").joinpath(file).read_text(encoding="utf-8")
        rules += parse(text, file=file, level=Level.BUILT_IN, check=False).rules
    if alone:
        rules.append(Rule(decide="allow", origin=_OTHERS, level=Level.BUILT_IN, effects=_EFFECTS))
    return tuple(rules)
