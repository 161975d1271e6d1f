"""Rules: data allowing, asking for or denying the calls they match."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from typing import Any

from handrail import Access, Effect, Spec
from handrail._support import is_object
from handrail.permissions import Approvers, Origin, Verdict
from handrail.policy._rules.command import Command
from handrail.policy._rules.glob import is_glob, literal_prefix, name_glob, path_glob
from handrail.policy._rules.source import SourceMatch
from handrail.policy._shell.words import GLOB
from handrail.policy._shell.wrappers import may_expand

REMEMBERED_PREFIX = "remembered-"
"""Id prefix for remembered approvals."""
STRENGTH: dict[Verdict, int] = {"deny": 0, "ask": 1, "allow": 2}
"""Verdicts by strength, the strongest first."""


class Level(IntEnum):
    """Who wrote a rule. A deny at any level overrides an allow at every other level."""

    BUILT_IN = 0
    MANAGED = 1
    USER = 2
    PROJECT = 3
    RUN = 4


_STARTS_LITERALLY = re.compile(r"[^*?\[]{3}")


@dataclass(frozen=True, slots=True)
class Touch:
    """An ``access`` entry in a rule: verbs, and a glob over resources."""

    verbs: frozenset[Effect]
    pattern: str
    """``scheme:glob`` in normal form, or ``*``."""
    fits: Callable[[str], bool] = field(init=False, repr=False, compare=False)
    """Whether the glob matches a resource."""
    fixed: str = field(init=False, repr=False, compare=False)
    """The literal segments before the first wildcard, with a slash at the end."""
    name: str = field(init=False, repr=False, compare=False)
    """The name, if it is about all files or folders with one; the shortest if there are more."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "fits", _resource_glob(self.pattern))
        object.__setattr__(self, "fixed", f"{literal_prefix(self.pattern)}/")
        object.__setattr__(self, "name", _only_name(self.pattern))

    def covers(self, access: Access) -> bool:
        """Return whether an allow covers an access completely.

        A glob inside the workspace never covers a resource outside it.
        """
        return self.meets(access) and (
            self.pattern == "*" or steps_up(access.resource) == steps_up(self.pattern)
        )

    def meets(self, access: Access) -> bool:
        """Return whether a deny or an ask certainly matches an access."""
        return access.verb in self.verbs and self.fits(access.resource)

    def may_meet(self, access: Access) -> bool:
        """Return whether an access is so wide it may include a match."""
        if access.verb not in self.verbs or self.pattern == "*":
            return False
        above = whole_scheme(access.resource)
        if above:  # everything, or a whole scheme
            return above == "*" or self.pattern.startswith(above)
        return self.fixed.startswith(f"{access.resource}/") and not self.fits(access.resource)

    def may_name(self, word: str) -> bool:
        """Return whether a shell pattern, such as ``.e*``, may be a name this is about.

        The file need not exist. So a pattern counts if it starts with a dot, or with three letters.
        """
        return bool(self.name) and any(
            (part.startswith(".") or _STARTS_LITERALLY.match(part)) and may_expand(part, self.name)
            for part in word.split("/")
            if GLOB.search(part)
        )

    def reaches(self, folder: str) -> bool:
        """Return whether something in or below a workspace folder may match."""
        if not self.pattern.startswith(("file:", "*")):
            return False
        here = Access(Effect.READ, f"file:{folder}").resource
        if steps_up(here):
            return True  # it may contain anything
        below = here if here.endswith(":") else f"{here}/"
        globs = is_glob(self.pattern)
        return self.fixed.startswith(below) or (globs and below.startswith(self.fixed.lstrip("/")))


def _only_name(pattern: str) -> str:
    """Return the name in a pattern such as ``file:**/.env*`` or ``file:**/.ssh/**``; else empty."""
    names = [name for name in pattern.partition(":")[2].split("/") if name != "**"]
    is_name = pattern.startswith("file:**/") and len(names) == 1 and not names[0].startswith("*")
    return names[0].replace("*", "") if is_name else ""


def _resource_glob(pattern: str) -> Callable[[str], bool]:
    if pattern == "*":
        return lambda _: True
    scheme, _, glob = pattern.partition(":")
    head, inner, whole = f"{scheme}:", path_glob(glob), glob in ("", "**")

    def fits(resource: str) -> bool:
        path = resource[len(head) :]
        return resource.startswith(head) and (inner(path) if path else whole)

    return fits


def whole_scheme(resource: str) -> str:
    """Return the scheme completely included in a resource, or ``*``. Empty for anything narrower.

    A path made only from ``..`` includes the workspace too.
    """
    scheme, colon, path = resource.partition(":")
    if not colon:
        return resource
    return "" if path.strip("/.") or "..." in path else f"{scheme}:"


def steps_up(resource: str) -> int:
    """Return how many levels above the workspace a resource is; -1 for an absolute path."""
    path = resource.partition(":")[2]
    return -1 if path.startswith("/") else path.split("/").count("..")


@dataclass(frozen=True, slots=True)
class Example:
    """A call to test a rule with. ``text`` alone is a shell command, an access or a tool name."""

    text: str
    tool: str = ""
    args: Mapping[str, Any] = field(default_factory=dict[str, Any])
    accesses: tuple[Access, ...] = ()
    tags: frozenset[str] = frozenset()
    effect: Effect = Effect.WRITE

    def __str__(self) -> str:
        if self.text:
            return repr(self.text)
        call = f"a call to {self.tool}" if self.tool else "a call"
        args = f" with {dict(self.args)}" if self.args else ""
        touching = f" touching {', '.join(map(str, self.accesses))}" if self.accesses else ""
        return f"{call}{args}{touching}"


Condition = Callable[[Any], bool]
"""Whether an argument's value matches."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rule:
    """One rule. Every key it has must match. For a key with several values, one is enough."""

    decide: Verdict
    origin: Origin
    level: Level = Level.RUN
    reason: str = ""
    tools: tuple[str, ...] = ()
    tags: frozenset[str] = frozenset()
    effects: frozenset[Effect] = frozenset()
    touches: tuple[Touch, ...] = ()
    commands: tuple[Command, ...] = ()
    line: str = ""
    """For an allow: a whole shell command, character for character."""
    sandboxed: bool = False
    """For an allow: whether it applies only to commands in a sandbox."""
    args: Mapping[str, Condition] = field(default_factory=dict[str, Condition])
    expires: datetime | None = None
    once: bool = False
    """For an ask: whether an approval can never be remembered."""
    approvers: Approvers = field(default_factory=Approvers)
    """For an ask: who may answer."""
    text: str = ""
    """The rule as TOML, without its examples. Also tells two rules apart."""
    source: SourceMatch = field(default_factory=SourceMatch)
    """For an ask or a deny: who must have named the call's values."""
    review: bool = False
    """For an ask: whether a second model may answer: see ``approvals.reviewed_by``."""
    examples: tuple[tuple[Example, bool], ...] = ()
    """Calls, each with whether the rule must match it."""

    def is_active(self, now: datetime) -> bool:
        """Return whether the rule has not expired."""
        return self.expires is None or now < self.expires

    def names(self, tool: str) -> bool:
        """Return whether the rule includes the tool with this name."""
        return not self.tools or any(name_glob(name)(tool) for name in self.tools)

    def concerns(self, spec: Spec) -> bool:
        """Return whether the rule can match this tool's calls."""
        return (
            self.names(spec.name)
            and (not self.tags or bool(self.tags & spec.tags))
            and (not self.effects or spec.effect in self.effects)
        )

    def fits(self, args: Mapping[str, Any]) -> bool:
        """Return whether the arguments meet the rule's conditions."""
        return all(
            (value := find_argument(args, name)) is not None and test(value)
            for name, test in self.args.items()
        )

    def meets(self, accesses: Iterable[Access]) -> bool:
        """Return whether the rule is about one of these accesses, if it names any."""
        if not self.touches:
            return True
        return any(touch.meets(access) for touch in self.touches for access in accesses)

    @property
    def remembered(self) -> bool:
        """Whether the rule is a remembered approval, which does not change the policy's version."""
        return self.decide == "allow" and self.origin.rule.startswith(REMEMBERED_PREFIX)

    @property
    def rank(self) -> tuple[int, int, str, str]:
        """The sort key for picking the deciding rule, independent from the order in files."""
        # not by file or precision, so each rule can be read alone: decision 014
        return (STRENGTH[self.decide], self.level, self.origin.rule, self.text)


def find_argument(args: Mapping[str, Any], name: str) -> Any:
    """Return an argument by its name or by a path such as ``address.city``; None if missing."""
    value: Any = dict(args)
    for step in name.split("."):
        if not is_object(value):
            return None
        value = value.get(step)
    return value
