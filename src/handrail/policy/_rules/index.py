"""Indexes for finding rules that may match a call, without trying every rule.

They can return rules that do not match. They never miss a matching one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeAlias

from handrail import Access
from handrail.policy._rules.command import Command
from handrail.policy._rules.glob import is_glob, literal_prefix
from handrail.policy._rules.rule import Level, Rule, Touch, whole_scheme
from handrail.policy._shell.wrappers import matches, program_name

_SUFFIX = re.compile(r"\*\.[^.*?]+")
_Pair: TypeAlias = tuple[Rule, Touch]
Candidates: TypeAlias = dict[Rule, list[tuple[Touch, Access]]]
"""Rules that may match, each with the touches and accesses involved."""


class AccessIndex:
    """Rules by resource."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._always: list[Rule] = []
        """Rules without ``access``."""
        self._any: list[_Pair] = []
        """Rules for every resource."""
        self._first: dict[str, list[_Pair]] = defaultdict(list)
        """By scheme and first segment, if both are literal."""
        self._last: dict[str, list[_Pair]] = defaultdict(list)
        """By the last segment, or its suffix, if the segments before it are wild."""
        self._scheme: dict[str, list[_Pair]] = defaultdict(list)
        """By scheme, if nothing else is literal."""
        self._above: dict[str, list[_Pair]] = defaultdict(list)
        """Pairs by every resource above the named ones."""
        for rule in rules:
            if not rule.touches:
                self._always.append(rule)
            for touch in rule.touches:
                self._put(rule, touch)

    def _put(self, rule: Rule, touch: Touch) -> None:
        scheme, _, path = touch.pattern.partition(":")
        fixed, last = literal_prefix(touch.pattern), path.rpartition("/")[2]
        if touch.pattern == "*":
            self._any.append((rule, touch))
            return
        if fixed:
            self._first[fixed.partition("/")[0]].append((rule, touch))
        elif not is_glob(last):
            self._last[last].append((rule, touch))
        elif _SUFFIX.fullmatch(last):
            self._last[last[1:]].append((rule, touch))
        else:
            self._scheme[scheme].append((rule, touch))
        for above in ("*", f"{scheme}:", *_ancestors(fixed)):
            self._above[above].append((rule, touch))

    def candidates(self, accesses: Sequence[Access]) -> Candidates:
        """Return every rule that may match one of these accesses, with the accesses."""
        candidates: Candidates = {rule: [] for rule in self._always}
        for access in dict.fromkeys(accesses):
            resource = access.resource
            scheme, _, path = resource.partition(":")
            last = path.rpartition("/")[2]
            _, dot, suffix = last.rpartition(".")
            for rule, touch in chain(
                self._any,
                self._first.get(resource.partition("/")[0], ()),
                self._last.get(last, ()),
                self._last.get(f".{suffix}", ()) if dot and f".{suffix}" != last else (),
                self._scheme.get(scheme, ()),
            ):
                candidates.setdefault(rule, []).append((touch, access))
        return candidates

    def candidates_below(self, accesses: Sequence[Access]) -> Candidates:
        """Return every rule that may match something below one of these accesses."""
        candidates: Candidates = {}
        for access in accesses:
            for rule, touch in self._above.get(
                whole_scheme(access.resource) or access.resource, ()
            ):
                candidates.setdefault(rule, []).append((touch, access))
        return candidates


class CommandIndex:
    """Rules by command."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.restricts = False
        """Whether any rule denies or asks."""
        self._allows: dict[tuple[str, ...], list[tuple[Rule, Command]]] = defaultdict(list)
        self._longest = 0
        self._others: dict[str, list[tuple[Rule, Command]]] = defaultdict(list)
        for rule in rules:
            self.restricts |= rule.decide != "allow"
            for command in rule.commands:
                if rule.decide == "allow":
                    self._allows[command.words].append((rule, command))
                    self._longest = max(self._longest, len(command.words))
                else:
                    self._others[command.words[0]].append((rule, command))

    def rules_allowing(self, argv: tuple[str, ...]) -> Iterator[tuple[Rule, Command]]:
        """Yield the rules that may allow a simple command."""
        for length in range(1, min(len(argv), self._longest) + 1):
            yield from self._allows.get(argv[:length], ())

    def rules_against(self, commands: Sequence[tuple[str, ...]]) -> dict[Rule, Command]:
        """Return the rules that deny, or ask for, one of these possible commands."""
        candidates: dict[Rule, Command] = {}
        for rule, command in self._others.get("*", ()):
            candidates.setdefault(rule, command)
        for argv in commands if self.restricts else ():
            for rule, command in self._possible(argv[0]):
                if rule not in candidates and matches(argv, command.words):
                    candidates[rule] = command
        return candidates

    def may_restrict(self, argv: tuple[str, ...]) -> bool:
        """Return whether a command with an unknown program may match a written rule."""
        return any(
            matches((command.words[0], *argv[1:]), command.words)
            for named in self._others.values()
            for rule, command in named
            if rule.level is not Level.BUILT_IN
        )

    def _possible(self, program: str) -> Iterable[tuple[Rule, Command]]:
        name = program_name(program)
        if is_glob(name) or "[" in name:
            return chain.from_iterable(self._others.values())
        return self._others.get(name, ())


def _ancestors(fixed: str) -> list[str]:
    """Return a resource and everything above it, without the scheme itself."""
    segments = fixed.split("/")
    return ["/".join(segments[:end]) for end in range(1, len(segments) + 1)]


class Version:
    """Computes a rulebook's version. Remembered approvals do not change it."""

    def __init__(self) -> None:
        self._rules: Sequence[Rule] = ()
        self._given: list[object] = []
        self._text = ""

    def of(self, rules: tuple[Rule, ...], given: list[object]) -> str:
        """Return the version of rules that never change, and of settings."""
        if self._text and rules is self._rules and given == self._given:
            return self._text
        lasting = [rule.text for rule in rules if not rule.remembered]
        text = hashlib.sha256(json.dumps([lasting, given]).encode()).hexdigest()
        self._rules, self._given, self._text = rules, list(given), text
        return text
