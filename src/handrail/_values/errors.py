"""All exceptions and warnings of the package.

HandrailError
├── DefinitionError    A function cannot become a tool. Names the line and the fix.
├── DuplicateName      Two tools claim one name. Names both origins.
├── UnknownName        No tool, alias or source has the name. Names the closest ones.
├── StopRun            A hook ends the run.
└── Deliberate         A tool reports a failure. The model receives the message.
    ├── ToolFailed     The tool did its work, and it failed.
    ├── Refused        The tool does not do this, or may not.
    ├── Transient      A temporary failure.
    ├── Unknown        The call may have taken effect.
    ├── NeedsLogin     A person must sign in first.
    └── Suspended      The call waits for something inside it.

HandrailDeprecationWarning    A name still works, and will be removed.
"""

from __future__ import annotations

from typing import Any, cast


class HandrailError(Exception):
    """Base of all exceptions handrail raises on its own behalf."""


class DefinitionError(HandrailError):
    """A function, spec or option cannot make a tool. Raised where the tool is defined."""


class DuplicateName(HandrailError):
    """Two tools (or two sources) claim the same name."""


class UnknownName(HandrailError, KeyError):
    """No tool, alias or source has this name."""

    def __str__(self) -> str:  # KeyError would show the message's repr
        return str(self.args[0])


class Deliberate(HandrailError):
    """Raised by a tool on purpose: the model receives the message unchanged."""


class ToolFailed(Deliberate):
    """The tool did its work and reports a failure: the file was not found, the test failed."""


class Refused(Deliberate):
    """The tool does not do this for anyone, or the policy denied what it asked for."""


class Transient(Deliberate):
    """A temporary failure. Retried if that cannot repeat a side effect."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds to wait before the next attempt, if the service asked for that."""


class Unknown(Deliberate):
    """The call may have taken effect, and the tool cannot tell. It is not retried."""


class NeedsLogin(Deliberate):
    """The call cannot run until a person has signed in. It is pending until then."""

    def __init__(self, message: str, *, url: str = "") -> None:
        super().__init__(message)
        self.url = url
        """The address where the person signs in. Not part of the message."""


class Suspended(Deliberate):
    """The call is not done: it waits for something inside it, such as a question of a sub-agent.

    It is pending without an own question. When it is resumed, the tool runs again.
    """


class StopRun(HandrailError):
    """Raised by a hook to end the run: its call is denied, and calls not begun are cancelled."""

    NO_REASON = "A check ended the run."
    """The reason if the hook gives none."""

    @classmethod
    def describe(cls, reason: str) -> str:
        """Return what a model reads about a call that did not run, for this reason."""
        text = "Not run: a check ended the run."
        return text if reason == cls.NO_REASON else f"{text} {reason}"


class HandrailDeprecationWarning(UserWarning):
    """A name still works, and will be removed. A UserWarning, so it is shown by default."""


def describe_error(error: BaseException) -> str:
    """Return an exception's repr, or its type's name if that raises."""
    try:
        return repr(error)
    except Exception:  # noqa: BLE001  its own code
        return type(error).__name__


def flatten(error: Any) -> list[BaseException]:
    """Return the exceptions in a group, at any depth, or a single exception in a list."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    group: Any = cast("Any", error)
    return [leaf for inner in group.exceptions for leaf in flatten(inner)]


def join_messages(errors: list[Any]) -> str:
    """Return what several exceptions say, each text once."""
    return " ".join(dict.fromkeys(_message_of(error) for error in errors))


def _message_of(error: Deliberate) -> str:
    try:
        return str(error) or _NO_REASON
    except Exception:  # noqa: BLE001  its own code
        return _NO_REASON


_NO_REASON = "The tool failed, and gave no reason."
