"""Modes: decisions for calls no rule matches."""

from __future__ import annotations

from enum import IntEnum

from handrail import DESTROY, READ, WRITE, Effect
from handrail.permissions import Verdict
from handrail.policy._rules.errors import InvalidRule


class Mode(IntEnum):
    """The decision for calls no rule matches. Ordered from strict to permissive."""

    PLAN = 1
    """Allow reading; deny every change."""
    ASK = 2
    """Allow reading; every change needs approval."""
    EDITS = 3
    """Allow reading, changes and commands in a sandbox; losing something needs approval."""
    OPEN = 4
    """Allow everything not stopped by a rule or a safeguard."""

    def __str__(self) -> str:
        return self.name.lower()

    @classmethod
    def of(cls, mode: Mode | str) -> Mode:
        """Return the mode with this name, in lower case as in files and on the command line."""
        if isinstance(mode, Mode):
            return mode
        try:
            return cls[mode.upper()] if mode == mode.lower() else cls[""]
        except KeyError:
            names = ", ".join(map(str, cls))
            raise InvalidRule(f"unknown mode {mode!r}; use one of {names}") from None


_TABLE: dict[Mode, dict[Effect, Verdict]] = {
    Mode.PLAN: {READ: "allow", WRITE: "deny", DESTROY: "deny"},
    Mode.ASK: {READ: "allow", WRITE: "ask", DESTROY: "ask"},
    Mode.EDITS: {READ: "allow", WRITE: "allow", DESTROY: "ask"},
    Mode.OPEN: {READ: "allow", WRITE: "allow", DESTROY: "allow"},
}


def verdict(mode: Mode, effect: Effect) -> Verdict:
    """Return a mode's decision for an effect."""
    return _TABLE[mode][effect]


def check_available(mode: Mode, ceiling: Mode, *, confined: bool) -> None:
    """Raise InvalidRule if a mode is above the ceiling, or too permissive for the process."""
    if mode > ceiling:
        raise InvalidRule(f'mode "{mode}" is not available; the managed rules allow "{ceiling}"')
    if mode is Mode.OPEN and not confined:
        raise InvalidRule(
            'mode "open" is not available as root without a sandbox; run as another user, or '
            "in a sandbox (`sandboxed=True`)"
        )


def strictest(*modes: Mode | str) -> Mode:
    """Return the mode allowing least, such as the one for a child process or agent."""
    return min(Mode.of(mode) for mode in modes)
