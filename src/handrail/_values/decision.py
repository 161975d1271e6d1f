"""Decisions about a call: allow it, ask for approval, or deny it; and the rule behind them.

A question about a call has a grade, which says how grave the call is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, TypeAlias

OriginKind: TypeAlias = Literal["rule", "mode", "built-in"]
"""A rule in a file, the mode, or one of handrail's own safeguards."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A decision's origin: a rule, and its file and line if it has any."""

    rule: str
    file: str = ""
    line: int = 0
    kind: OriginKind = field(default="rule", repr=False)
    digest: str = field(default="", repr=False, compare=False)
    """The SHA-256 of the file's content when the rule was read; empty if it is in no file."""

    def __str__(self) -> str:
        return f"{self.rule} ({self.file}:{self.line})" if self.file else self.rule


class Grade(IntEnum):
    """How grave a call is that needs approval, by what it would do. The highest grade decides."""

    UNKNOWN = 1
    """What it does is not known, and nothing graver is. A sandbox contains it, or it only reads."""
    CHANGE = 2
    """It changes files whose old content is kept."""
    UNCONFINED = 3
    """What it does is not known, and no sandbox contains it."""
    LEAVES = 4
    """It reaches another machine."""
    LOSES = 5
    """It can lose something for good."""


@dataclass(frozen=True, slots=True)
class CommandPart:
    """One command of a shell command: its place in the text, and its grade."""

    start: int
    end: int
    grade: Grade
    removes: tuple[str, ...] | None = None
    """The paths it can delete, if that is all that it can lose."""


@dataclass(frozen=True, slots=True)
class Approvers:
    """Who may answer a request. Rules set it; the claim of an answer checks it."""

    groups: tuple[tuple[str, ...], ...] = ()
    """Lists of people and groups. Who answers must be in each list; without a list, all may."""
    not_requester: bool = False
    """Whether the person on whose behalf the call runs must not approve it."""
    count: int = 1
    """How many different people must approve it. One denial is enough."""

    def __or__(self, other: Approvers) -> Approvers:
        """Return who may answer if both apply: the strictest of each."""
        return Approvers(
            tuple(dict.fromkeys((*self.groups, *other.groups))),
            self.not_requester or other.not_requester,
            max(self.count, other.count),
        )


ANYONE = Approvers()
"""Anyone may answer."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AnswerFacts:
    """Who gave an answer. These fields are ignored when answers are compared."""

    by: str = field(default="", compare=False, repr=False)
    """The person or service that answered."""
    via: str = field(default="", compare=False, repr=False)
    """Where it was answered, such as ``terminal``."""
    seen: str = field(default="", compare=False, repr=False)
    """The SHA-256 of the text that was shown."""


@dataclass(frozen=True, slots=True)
class Allow(AnswerFacts):
    """The call is allowed to run."""

    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """The call needs approval. The question is for the person who answers."""

    question: str
    origin: Origin | None = None
    once: bool = False
    """Whether an approval is for this call only, and must never be remembered."""
    parts: tuple[CommandPart, ...] = field(default=(), compare=False, repr=False)
    """The commands of a shell command. A policy that does not read commands gives none."""
    approvers: Approvers = field(default=ANYONE, repr=False)
    """Who may answer."""
    review: bool = field(default=False, repr=False)
    """Whether a second model may allow it: see ``approvals.reviewed_by``."""
    in_workspace: bool = field(default=False, compare=False, repr=False)
    """Whether the files of a workspace are material, no matter who named them."""

    def __post_init__(self) -> None:
        if not self.question:
            raise ValueError("Ask(question=''): must not be empty.")


@dataclass(frozen=True, slots=True)
class Review:
    """A second model's opinion on an approval request."""

    verdict: Literal["allow", "ask"]
    """``ask`` if a person must answer: it says so, or its answer cannot be used."""
    reason: str = ""
    model: str = ""
    """The model's name."""
    seconds: float = field(default=0.0, compare=False)
    """How long it took."""


class SignIn(Ask):
    """A person must sign in before the call can run."""

    __slots__ = ()


class FillIn(Ask):
    """A person must fill in a form, whose values are the call's result."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Deny(AnswerFacts):
    """The call must not run. The model receives the reason.

    If the denial has an origin, such as a rule, handrail adds that the call did not run, and what
    to do now. Otherwise the model receives the reason unchanged.
    """

    reason: str
    origin: Origin | None = None
    detail: str = field(default="", repr=False)
    """Diagnostic detail for logs, if an error is the reason. Never sent to a model."""

    @classmethod
    def by_user(cls, message: str = "") -> Deny:
        """Return a person's denial, with their message for the model if they gave one."""
        rest = f"Their message: {message}" if message else "Continue without it, or tell the user."
        return cls(f"Not run: the user denied this call. Do not work around this. {rest}")


Decision: TypeAlias = Allow | Ask | Deny
"""A policy's decision about a call."""
