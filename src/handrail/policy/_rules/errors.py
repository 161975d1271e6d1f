"""Problems with rules: the error that stops reading, and the value for reporting a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from handrail import HandrailError

ProblemKind: TypeAlias = Literal["invalid", "untrusted", "unreadable", "exposed"]
"""The content is wrong, the file is not trusted, it cannot be read, or others can write to it."""


class InvalidRule(HandrailError, ValueError):
    """A rule, a rule file or a mode cannot be used. The message says where and why."""

    def __init__(self, reason: str, *, file: str = "", line: int = 0) -> None:
        self.reason = reason
        """The message without the position."""
        self.file = file
        self.line = line
        """0 if the error is about the whole file."""
        super().__init__(_with_position(reason, file, line))

    def at(self, file: str, line: int = 0) -> InvalidRule:
        """Return the same error with a position."""
        return InvalidRule(self.reason, file=file, line=line)


@dataclass(frozen=True, slots=True)
class RuleProblem:
    """A problem with a rule file or a trust file: what is wrong, and how to fix it."""

    kind: ProblemKind
    reason: str
    """Why, as a clause about the file."""
    file: str = ""
    line: int = 0
    """0 if the problem is about the whole file."""
    outcome: str = ""
    """Its outcome, as a phrase before the file: "ignoring"."""
    hint: str = ""
    """What to do, as an instruction."""

    def __str__(self) -> str:
        message = _with_position(self.reason, self.file, self.line)
        return f"{self.outcome} {message}".lstrip() + (f"; {self.hint}" if self.hint else "")


def _with_position(reason: str, file: str, line: int) -> str:
    if not file:
        return reason
    return f"{file}:{line}: {reason}" if line else f"{file}: {reason}"
