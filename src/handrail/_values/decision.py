"""Decisions about a call: allow it, ask for approval, or deny it; and the rule behind them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

OriginKind: TypeAlias = Literal["rule", "mode", "built-in"]
"""A rule in a file, the mode, or one of handrail's own safeguards."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a decision: a rule, and its file and line if it has any."""

    rule: str
    file: str = ""
    line: int = 0
    kind: OriginKind = field(default="rule", repr=False)

    def __str__(self) -> str:
        return f"{self.rule} ({self.file}:{self.line})" if self.file else self.rule


@dataclass(frozen=True, slots=True)
class Allow:
    """The call is allowed to run."""

    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """The call needs approval. The question is for the person who answers."""

    question: str
    origin: Origin | None = None
    once: bool = False
    """Whether an approval is for this call only, and must never be remembered."""

    def __post_init__(self) -> None:
        if not self.question:
            raise ValueError("Ask(question=''): must not be empty.")


@dataclass(frozen=True, slots=True)
class Deny:
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
        """Return the denial of a person, with their message for the model if they gave one."""
        rest = f"Their message: {message}" if message else "Continue without it, or tell the user."
        return cls(f"Not run: the user denied this call. Do not work around this. {rest}")


Decision: TypeAlias = Allow | Ask | Deny
"""A policy's decision about a call."""
