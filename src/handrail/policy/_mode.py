"""Modes: what happens to a call that no rule speaks of."""

from __future__ import annotations

from enum import IntEnum

from handrail import DESTROY, READ, WRITE, Effect
from handrail.judgement import Verdict
from handrail.policy._errors import Unusable


class Mode(IntEnum):
    """How much may happen without a question. Ordered, the strictest first."""

    PLAN = 1
    """Look, and change nothing."""
    ASK = 2
    """Ask before anything is changed."""
    EDITS = 3
    """Ask before anything is destroyed."""
    OPEN = 4
    """Ask only for what is protected, and where a rule asks."""

    def __str__(self) -> str:
        return self.name.lower()

    @classmethod
    def of(cls, mode: Mode | str) -> Mode:
        """A mode from its name, as files and command lines spell it."""
        if isinstance(mode, Mode):
            return mode
        try:
            return cls[mode.upper()] if mode == mode.lower() else cls[""]
        except KeyError:
            names = ", ".join(one.name.lower() for one in cls)
            raise Unusable(f"{mode!r} is no mode; there are {names}") from None


_TABLE: dict[Mode, dict[Effect, Verdict]] = {
    Mode.PLAN: {READ: "allow", WRITE: "deny", DESTROY: "deny"},
    Mode.ASK: {READ: "allow", WRITE: "ask", DESTROY: "ask"},
    Mode.EDITS: {READ: "allow", WRITE: "allow", DESTROY: "ask"},
    Mode.OPEN: {READ: "allow", WRITE: "allow", DESTROY: "allow"},
}


def verdict(mode: Mode, effect: Effect) -> Verdict:
    """What a mode says to an effect."""
    return _TABLE[mode][effect]


def strictest(*modes: Mode | str) -> Mode:
    """The mode that allows least: what a child gets, whatever it asks for."""
    return min(Mode.of(one) for one in modes)
