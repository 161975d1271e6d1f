"""What a policy says of a call: allow it, ask somebody, or deny it; and which rule said so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a decision comes from: a rule, and the file and line that it stands in, if any."""

    rule: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.rule} ({self.file}:{self.line})" if self.file else self.rule


@dataclass(frozen=True, slots=True)
class Allow:
    """The call may run."""

    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """Somebody must answer first; the question is for them."""

    question: str
    origin: Origin | None = None
    once: bool = False
    """Whether a yes may count for this one call only, and must never be remembered."""


@dataclass(frozen=True, slots=True)
class Deny:
    """The call may not run; the reason is for the model."""

    reason: str
    origin: Origin | None = None


Decision: TypeAlias = Allow | Ask | Deny
