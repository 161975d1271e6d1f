"""How a command can end."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from enum import IntEnum

import click

from handrail import HandrailError
from handrail.approvals import displayed


class Exit(IntEnum):
    """Exit codes; they are public, and stay what they are."""

    DONE = 0
    FAILED = 1
    """The run, the tool or the check failed."""
    USAGE = 2
    """The command line, a setting or a file is not as it must be."""
    DENIED = 3
    """It came to its end, but calls were denied on the way."""
    SUSPENDED = 4
    """It waits for answers, and can be gone on with."""
    LIMIT = 5
    UNREACHABLE = 6
    """A model's provider or server cannot be reached, or takes no request of ours."""
    INTERRUPTED = 130
    TERMINATED = 143


class Halt(Exception):
    """Ends a command with words for a person, and a code for a program."""

    def __init__(
        self, message: str, *, code: str, hint: str = "", exits: Exit = Exit.USAGE
    ) -> None:
        super().__init__(message)
        self.code = code
        """A short stable name of what is wrong."""
        self.hint = hint
        """What to do about it."""
        self.exits = exits


EXTRAS = {"click": "cli", "rich": "cli"}
"""Packages that commands need, and the extra that brings each."""


def tell(error: BaseException, *, as_json: bool, debug: bool = False) -> int:
    """Say on stderr why a command ends: one line of JSON for programs, words for people.

    No traceback unless it was asked for. The exit code.
    """
    halt = _halt(alone(error))
    with suppress(OSError):  # nobody listens: the exit code says it still
        if debug:
            import traceback  # noqa: PLC0415  seldom needed

            click.echo(safe("".join(traceback.format_exception(error))), err=True, nl=False)
        click.echo(_envelope(halt) if as_json else _words(error, halt), err=True)
    _give_up_output()
    return halt.exits


def safe(words: str) -> str:
    """Words as a terminal may show them: what it would obey or hide is written out.

    Words with nothing of that, or with all of it written out already, stay as they are.
    """
    shown = displayed(words, most=4 * len(words))
    return shown.text if shown.hidden else words


def alone(error: BaseException) -> BaseException:
    """What was raised: tasks wrap it, also where it is one."""
    inside: tuple[BaseException, ...] = getattr(error, "exceptions", ())  # of a group
    return alone(inside[0]) if len(inside) == 1 else error


def _halt(error: BaseException) -> Halt:
    """Any error, as an end of a command."""
    match error:
        case Halt():
            return error
        case click.ClickException():
            return _misused(error)
        case click.Abort() | KeyboardInterrupt():
            return Halt("interrupted", code="interrupted", exits=Exit.INTERRUPTED)
        case ModuleNotFoundError() if error.name in EXTRAS:
            words = f"this command needs {error.name}"
            return Halt(words, code="extra", hint=f"pip install 'handrail[{EXTRAS[error.name]}]'")
        case HandrailError() | OSError():
            return Halt(_reason(error), code="failed", exits=Exit.FAILED)
        case _:
            words = f"{type(error).__name__}: {error}"
            hint = "this is a mistake in the program: --debug shows where"
            return Halt(words, code="bug", hint=hint, exits=Exit.FAILED)


def _reason(error: HandrailError | OSError) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def _misused(error: click.ClickException) -> Halt:
    """A command line that cannot be read."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return Halt(error.format_message(), code="usage", hint="see `handrail --help`")
    if isinstance(error, click.NoSuchOption) and isinstance(context.command, click.Group):
        hint = "options stand after the command, as in `handrail tools list --json`"
        return Halt(error.message, code="usage", hint=hint)
    return Halt(error.format_message(), code="usage", hint=f"see `{context.command_path} --help`")


def _envelope(halt: Halt) -> str:
    told = {"code": halt.code, "message": str(halt), "hint": halt.hint, "exit": int(halt.exits)}
    return json.dumps({"error": told})


def _words(error: BaseException, halt: Halt) -> str:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return str(halt)  # the help of a group, which was called without a command
    hint = f"\n  {displayed(halt.hint).text}" if halt.hint else ""
    return f"handrail: {displayed(str(halt)).text}{hint}"


def _give_up_output() -> None:
    """Have nothing left to write that cannot be written: Python would complain of it at the end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        except AttributeError:  # it was closed from the beginning, and is None
            continue
