"""Every exception and warning of the package: what people read, never what a model reads.

HandrailError
├── DefinitionError    a function cannot become a tool; says the line and the remedy
├── DuplicateName      two tools claim one name; says both origins
└── UnknownName        a name that no tool, alias or source has; says the closest ones

HandrailDeprecationWarning    a name that still works and will go
"""

from __future__ import annotations


class HandrailError(Exception):
    """Base of all exceptions that handrail raises on its own behalf."""


class DefinitionError(HandrailError):
    """A function, spec or option cannot make a tool. Raised where the tool is defined."""


class DuplicateName(HandrailError):
    """Two tools (or two sources) claim the same name."""


class UnknownName(HandrailError, KeyError):
    """No tool, alias or source has this name."""

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0])


class HandrailDeprecationWarning(UserWarning):
    """A name that still works and will go. A UserWarning, so that it is seen by default."""
