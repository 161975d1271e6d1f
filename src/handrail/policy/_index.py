"""Which of many rules may speak of what a call touches: found by a few look-ups, not by trying all.

It may find too many, never too few.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeAlias

from handrail import Access
from handrail.policy._command import Command
from handrail.policy._glob import fixed_part, is_glob
from handrail.policy._rule import Rule, Touch, whole
from handrail.policy._wrappers import base, matches

_SUFFIX = re.compile(r"\*\.[^.*?]+")
_Pair: TypeAlias = tuple[Rule, Touch]
Speaking: TypeAlias = dict[Rule, list[tuple[Touch, Access]]]
"""Rules, each with what of it may mean which access; with nothing, where it names no resource."""


class Index:
    """Rules by the resources that they name."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._always: list[Rule] = []
        """Those that name no resource."""
        self._any: list[_Pair] = []
        """Those that name every resource."""
        self._first: dict[str, list[_Pair]] = defaultdict(list)
        """By the scheme and the first segment of what they name."""
        self._last: dict[str, list[_Pair]] = defaultdict(list)
        """By the last segment, or by what follows its last dot, where the rest may be anything."""
        self._scheme: dict[str, list[_Pair]] = defaultdict(list)
        """By the scheme, where nothing else is fixed."""
        self._above: dict[str, list[_Pair]] = defaultdict(list)
        """By what lies above the things that they name."""
        for rule in rules:
            if not rule.touches:
                self._always.append(rule)
            for touch in rule.touches:
                self._put(rule, touch)

    def _put(self, rule: Rule, touch: Touch) -> None:
        scheme, _, path = touch.pattern.partition(":")
        fixed, last = fixed_part(touch.pattern), path.rpartition("/")[2]
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

    def speaking(self, accesses: Sequence[Access]) -> Speaking:
        """Every rule that may mean any of these, with those that it may mean."""
        found: Speaking = {rule: [] for rule in self._always}
        for access in accesses:
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
                found.setdefault(rule, []).append((touch, access))
        return found

    def below(self, accesses: Sequence[Access]) -> Speaking:
        """Every rule that may mean something below any of these."""
        found: Speaking = {}
        for access in accesses:
            for rule, touch in self._above.get(whole(access.resource) or access.resource, ()):
                found.setdefault(rule, []).append((touch, access))
        return found


class Commands:
    """Rules by the commands that they name."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.tightens = False
        """Whether any of them denies or asks."""
        self._allows: dict[tuple[str, ...], list[tuple[Rule, Command]]] = defaultdict(list)
        self._longest = 0
        self._others: dict[str, list[tuple[Rule, Command]]] = defaultdict(list)
        for rule in rules:
            self.tightens |= rule.decide != "allow"
            for command in rule.commands:
                if rule.decide == "allow":
                    self._allows[command.words].append((rule, command))
                    self._longest = max(self._longest, len(command.words))
                else:
                    self._others[command.words[0]].append((rule, command))

    def allowing(self, argv: tuple[str, ...]) -> Iterator[tuple[Rule, Command]]:
        """Those that may allow a command."""
        for length in range(1, min(len(argv), self._longest) + 1):
            yield from self._allows.get(argv[:length], ())

    def naming(self, line: Sequence[tuple[str, ...]]) -> dict[Rule, Command]:
        """Those that deny, or ask about, a command that a line may run."""
        found: dict[Rule, Command] = {}
        for rule, command in self._others.get("*", ()):
            found.setdefault(rule, command)
        for argv in line if self.tightens else ():
            for rule, command in self._possible(argv[0]):
                if rule not in found and matches(argv, command.words):
                    found[rule] = command
        return found

    def _possible(self, program: str) -> Iterable[tuple[Rule, Command]]:
        name = base(program)
        if is_glob(name) or "[" in name:
            return chain.from_iterable(self._others.values())
        return self._others.get(name, ())


def _ancestors(fixed: str) -> list[str]:
    """A resource and what lies above it, below its scheme."""
    segments = fixed.split("/")
    return ["/".join(segments[:end]) for end in range(1, len(segments) + 1)]
