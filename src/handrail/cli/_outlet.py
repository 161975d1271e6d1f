"""Where data goes while other people's code runs: what that code prints is none of it.

Tools print, and so does what they start. From here on stdout is stderr for all of them; data goes
to a duplicate of stdout that nobody else has.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TextIO

import click

from handrail.cli._app import App, as_json


class Outlet:
    """Stdout for data alone, until the process ends."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._stream = _kept()

    @property
    def at_terminal(self) -> bool:
        """Whether somebody looks at it."""
        return self._stream is not None and self._stream.isatty()

    def text(self, words: str = "", *, ends: str = "\n", color: bool | None = None) -> None:
        """Give words for people."""
        if self._stream is None:  # it was closed from the beginning
            return
        try:
            click.echo(f"{words}{ends}", file=self._stream, nl=False, color=color)
        except OSError:
            _give_up(self._stream)
            raise

    def document(self, document: Mapping[str, Any]) -> None:
        """Give data for a program."""
        self.text(as_json(document, indent=2 if self._app.output == "json" else None))


def _kept() -> TextIO | None:
    """A stdout of our own; that of everybody else is stderr."""
    stdout: Any = sys.stdout
    try:
        number = os.dup(stdout.fileno())  # no program that is started has this one
    except (AttributeError, OSError):  # there is none; or whoever runs us put another thing there
        sys.stdout = sys.stderr
        if not _is_open(1):  # or the next file that is opened would be what others print to
            _lead_to_stderr(1)
        found: TextIO | None = stdout
        return found
    stdout.flush()
    _lead_to_stderr(1)
    # a line editor wants it to be the real one
    sys.stdout = open(1, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    return open(number, "w", encoding=stdout.encoding, errors="backslashreplace")  # noqa: PTH123


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _lead_to_stderr(number: int) -> None:
    try:
        os.dup2(sys.stderr.fileno(), number)
    except (AttributeError, OSError):  # there is none
        _lead_nowhere(number)


def _lead_nowhere(number: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)


def _give_up(stream: TextIO) -> None:
    """Have nothing left to write that cannot be written: Python would complain of it at the end."""
    with suppress(OSError):  # it may be no file
        _lead_nowhere(stream.fileno())
