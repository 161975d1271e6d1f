"""Rules: data that says allow, ask or deny of the calls that it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from typing import Any

from handrail import Access, Effect, Spec
from handrail.judgement import Origin, Verdict
from handrail.policy._command import Command
from handrail.policy._glob import fixed_part, is_glob, name_glob, path_glob
from handrail.policy._shapes import is_table

REMEMBERED = "remembered-"
"""How the ids of rules begin that an answer left behind."""
STRENGTH: dict[Verdict, int] = {"deny": 0, "ask": 1, "allow": 2}
"""The strongest first."""


class Level(IntEnum):
    """Who wrote a rule. A deny of any level holds against an allow of any other."""

    BUILT_IN = 0
    MANAGED = 1
    USER = 2
    PROJECT = 3
    RUN = 4


@dataclass(frozen=True, slots=True)
class Touch:
    """What a call touches, as a rule names it: verbs, and a glob over resources."""

    verbs: frozenset[Effect]
    pattern: str
    """In normal form: ``scheme:glob``, or ``*``."""
    fits: Callable[[str], bool] = field(init=False, repr=False, compare=False)
    """Whether a resource is what the glob means."""
    fixed: str = field(init=False, repr=False, compare=False)
    """What lies above everything that it means, with a slash."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "fits", _resource_glob(self.pattern))
        object.__setattr__(self, "fixed", f"{fixed_part(self.pattern)}/")

    def covers(self, access: Access) -> bool:
        """Whether all of an access is meant: what an allow needs.

        A glob from the workspace never covers what lies outside of it.
        """
        return self.meets(access) and (
            self.pattern == "*" or climb(access.resource) == climb(self.pattern)
        )

    def meets(self, access: Access) -> bool:
        """Whether an access is certain to be meant: what a deny or an ask needs."""
        return access.verb in self.verbs and self.fits(access.resource)

    def may_meet(self, access: Access) -> bool:
        """Whether an access is so wide that what is meant may lie below it."""
        if access.verb not in self.verbs or self.pattern == "*":
            return False
        above = whole(access.resource)
        if above:  # everything, or all of a scheme
            return above == "*" or self.pattern.startswith(above)
        return self.fixed.startswith(f"{access.resource}/") and not self.fits(access.resource)

    def reaches(self, folder: str) -> bool:
        """Whether something in or below a folder of the workspace may be meant."""
        if not self.pattern.startswith(("file:", "*")):
            return False
        here = Access(Effect.READ, f"file:{folder}").resource
        if climb(here):
            return True  # it may lie above anything
        below = here if here.endswith(":") else f"{here}/"
        globs = is_glob(self.pattern)
        return self.fixed.startswith(below) or (globs and below.startswith(self.fixed.lstrip("/")))


def _resource_glob(pattern: str) -> Callable[[str], bool]:
    if pattern == "*":
        return lambda _: True
    scheme, _, glob = pattern.partition(":")
    head, inner, whole = f"{scheme}:", path_glob(glob), glob in ("", "**")

    def fits(resource: str) -> bool:
        path = resource[len(head) :]
        return resource.startswith(head) and (inner(path) if path else whole)

    return fits


def whole(resource: str) -> str:
    """A scheme that a resource holds all of, or ``*``; empty, where it is something in it.

    What is nothing but a way up holds the workspace too.
    """
    scheme, colon, path = resource.partition(":")
    if not colon:
        return resource
    return "" if path.strip("/.") or "..." in path else f"{scheme}:"


def climb(resource: str) -> int:
    """How far outside of the workspace a resource lies: -1 from the root, else steps up."""
    path = resource.partition(":")[2]
    return -1 if path.startswith("/") else path.split("/").count("..")


@dataclass(frozen=True, slots=True)
class Example:
    """A call to hold a rule against: a text alone is a command line, or an access."""

    text: str
    tool: str = ""
    args: Mapping[str, Any] = field(default_factory=dict[str, Any])
    accesses: tuple[Access, ...] = ()
    tags: frozenset[str] = frozenset()
    effect: Effect = Effect.WRITE

    def __str__(self) -> str:
        if self.text:
            return repr(self.text)
        return f"{self.tool} {dict(self.args)} {[str(one) for one in self.accesses]}"


Condition = Callable[[Any], bool]
"""Whether the value of an argument is meant."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rule:
    """One rule. What it names must all hold; of several things of one kind, one is enough."""

    decide: Verdict
    origin: Origin
    level: Level = Level.RUN
    reason: str = ""
    tools: tuple[str, ...] = ()
    tags: frozenset[str] = frozenset()
    effects: frozenset[Effect] = frozenset()
    touches: tuple[Touch, ...] = ()
    commands: tuple[Command, ...] = ()
    args: Mapping[str, Condition] = field(default_factory=dict[str, Condition])
    expires: datetime | None = None
    once: bool = False
    """For an ask: whether a yes must never be remembered."""
    text: str = ""
    """The rule as it is written, for whoever wants to see it, and to tell one from another."""
    examples: tuple[tuple[Example, bool], ...] = ()
    """Calls that it means, and calls that it does not."""

    def counts(self, now: datetime) -> bool:
        """Whether the rule has not expired."""
        return self.expires is None or now < self.expires

    def names(self, tool: str) -> bool:
        """Whether the rule is for a tool of this name, among others."""
        return not self.tools or any(name_glob(one)(tool) for one in self.tools)

    def concerns(self, spec: Spec) -> bool:
        """Whether the rule may ever speak of calls of this tool."""
        return (
            self.names(spec.name)
            and (not self.tags or bool(self.tags & spec.tags))
            and (not self.effects or spec.effect in self.effects)
        )

    def fits(self, args: Mapping[str, Any]) -> bool:
        """Whether the arguments are those that the rule means."""
        return all(
            (value := found(args, name)) is not None and test(value)
            for name, test in self.args.items()
        )

    @property
    def remembered(self) -> bool:
        """Whether an answer left it behind: somebody's yes, not a change of what is judged."""
        return self.decide == "allow" and self.origin.rule.startswith(REMEMBERED)

    @property
    def rank(self) -> tuple[int, int, str, str]:
        """Which of two rules is named as the deciding one: it does not depend on their order."""
        return (STRENGTH[self.decide], self.level, self.origin.rule, self.text)


def found(args: Mapping[str, Any], name: str) -> Any:
    """An argument by its name, or by a path such as ``address.city``; None if it is not there."""
    value: Any = dict(args)
    for step in name.split("."):
        if not is_table(value):
            return None
        value = value.get(step)
    return value
