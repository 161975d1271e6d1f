"""How commands end: exit codes, errors and hints."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from contextlib import suppress
from enum import IntEnum

import click

from handrail import HandrailError
from handrail.approvals import make_printable
from handrail.cli._base.columns import columns
from handrail.cli._base.printable import safe

_MIN_COLUMNS = 20
"""Rows on narrower terminals are not wrapped here."""


class Exit(IntEnum):
    """Exit codes. They are public and do not change."""

    DONE = 0
    FAILED = 1
    """The run, the tool or the check failed."""
    USAGE = 2
    """The command line, a setting or a file is invalid."""
    DENIED = 3
    """The run finished, but calls were denied."""
    SUSPENDED = 4
    """Calls are waiting for approval; the run can be resumed."""
    LIMIT = 5
    UNREACHABLE = 6
    """The model's server is unreachable, or rejects requests."""
    INTERRUPTED = 130
    TERMINATED = 143


class Halt(Exception):
    """Ends a command with a message for a person and a code for a program."""

    def __init__(
        self, message: str, *, code: str, hint: str = "", exits: Exit = Exit.USAGE
    ) -> None:
        super().__init__(message)
        self.code = code
        """A short stable error name."""
        self.hint = hint
        """How to fix it."""
        self.exits = exits


EXTRAS = {"click": "cli", "prompt_toolkit": "cli", "rich": "cli"}
"""Packages needed by commands, and the extra for installing each."""
CONSOLE_PACKAGES = ("jinja2", "starlette", "uvicorn")


def need_packages(what: str, *packages: str, extra: str) -> None:
    """Halt if an extra's package is not installed, and say what to install."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        hint = f"install it: pip install 'handrail[{extra}]'"
        raise Halt(f"{what} needs the package `{missing[0]}`", code="extra", hint=hint)


def report_error(error: BaseException, *, as_json: bool, debug: bool = False) -> int:
    """Print an error to stderr and return the exit code.

    Programs get one JSON line, people get text. A traceback is printed only with ``debug``.
    """
    halt = _as_halt(unwrap_group(error))
    with suppress(OSError):  # no one reads stderr: the exit code still reports it
        if debug:
            import traceback  # rarely needed

            click.echo(safe("".join(traceback.format_exception(error))), err=True, nl=False)
        click.echo(_envelope(halt) if as_json else _format_error(error, halt), err=True)
    _discard_unwritable_output()
    return halt.exits


def unwrap_group(error: BaseException) -> BaseException:
    """Return the only error in an exception group, or the error itself."""
    inside: tuple[BaseException, ...] = getattr(error, "exceptions", ())  # from a group
    return unwrap_group(inside[0]) if len(inside) == 1 else error


def _as_halt(error: BaseException) -> Halt:
    """Convert any error to a command's end."""
    match error:
        case Halt():
            return error
        case click.ClickException():
            return _usage_halt(error)
        case click.Abort() | KeyboardInterrupt():
            return Halt("interrupted", code="interrupted", exits=Exit.INTERRUPTED)
        case ModuleNotFoundError() if error.name in EXTRAS:
            message = f"the package `{error.name}` is not installed"
            hint = f"run `pip install 'handrail[{EXTRAS[error.name]}]'`"
            return Halt(message, code="extra", hint=hint)
        case HandrailError() | OSError():
            return Halt(_reason(error), code="failed", exits=Exit.FAILED)
        case _:
            message = f"{type(error).__name__}: {error}"
            hint = "this is a bug in handrail; pass `--debug` to see where"
            return Halt(message, code="bug", hint=hint, exits=Exit.FAILED)


def _reason(error: HandrailError | OSError) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def _usage_halt(error: click.ClickException) -> Halt:
    """Convert an error in a command line."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    hint = f"see `{context.command_path if context else 'handrail'} --help`"
    if isinstance(error, click.NoSuchOption) and context is not None:
        return _unknown_option(error, context.command, hint)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return Halt(error.format_message(), code="usage", hint=hint)
    if isinstance(error, click.BadOptionUsage):  # click does not say for which command
        hint = f"pass `--help` to see how to use `{error.option_name}`"
    message = error.format_message()
    return Halt(f"{message[:1].lower()}{message[1:].rstrip('.')}", code="usage", hint=hint)


def _unknown_option(error: click.NoSuchOption, command: click.Command, see: str) -> Halt:
    message = f"unknown option `{error.option_name}`"
    if isinstance(command, click.Group):
        hint = "options go after the command, as in `handrail tools list --json`"
    elif error.possibilities:
        names = " or ".join(f"`{name}`" for name in sorted(error.possibilities))
        hint = f"did you mean {names}? {see}"
    else:
        hint = see
    return Halt(message, code="usage", hint=hint)


def _envelope(halt: Halt) -> str:
    fields = {"code": halt.code, "message": str(halt), "hint": halt.hint, "exit": int(halt.exits)}
    return json.dumps({"error": fields})


def _format_error(error: BaseException, halt: Halt) -> str:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return str(halt)  # the help for a group called without a command
    message, hint = (make_printable(text).text for text in (str(halt), halt.hint or ""))
    rows = _wrap(f"handrail: {message}", 0) + (_wrap(hint, 2) if hint else [])
    return "\n".join(rows)


def _wrap(text: str, margin: int) -> list[str]:
    """Return lines a terminal does not break within a word; lines in a pipe stay whole."""
    try:
        width = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError, AttributeError):  # it is no terminal, or not there
        width = 0
    blanks = " " * margin
    if width <= _MIN_COLUMNS:
        return [f"{blanks}{text}"]
    lines = text.split("\n")
    return [f"{blanks}{row}" for line in lines for row in columns([(line,)], width=width - margin)]


def _discard_unwritable_output() -> None:
    """Discard unwritable buffered output; Python would report it at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        except AttributeError:  # it was closed before the start, and is None
            continue
