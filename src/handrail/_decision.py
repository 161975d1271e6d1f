"""What a policy says of a call: allow it, ask somebody, or deny it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Allow:
    """The call may run."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Somebody must answer first; the question is for them."""

    question: str


@dataclass(frozen=True, slots=True)
class Deny:
    """The call may not run; the reason is for the model."""

    reason: str


Decision: TypeAlias = Allow | Ask | Deny
