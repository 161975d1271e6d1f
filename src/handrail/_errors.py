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


class Deliberate(HandrailError):
    """Raised by a tool on purpose: the message goes to the model, word for word."""


class ToolFailed(Deliberate):
    """The tool did its work, and the answer is no: the file is not there, the test failed."""


class Refused(Deliberate):
    """The tool will not do this, whoever asks."""


class Transient(Deliberate):
    """It could not be done now; later it may. Tried again where that repeats no effect."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds that whoever was asked wants to be left alone."""


class HandrailDeprecationWarning(UserWarning):
    """A name that still works and will go. A UserWarning, so that it is seen by default."""
