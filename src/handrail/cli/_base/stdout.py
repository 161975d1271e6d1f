"""Keep tools' prints out of the data on stdout.

Tools and programs started by them may print. An Outlet makes stdout the same as stderr for all of
them, and writes data to a private duplicate of the real stdout.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TextIO

import click

from handrail.cli._base.app import App, as_json


class Outlet:
    """The real stdout, for data only, until the process ends."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._stream = _take_over_stdout()

    @property
    def at_terminal(self) -> bool:
        """Whether it is a terminal."""
        return self._stream is not None and self._stream.isatty()

    def text(self, text: str = "", *, ends: str = "\n", color: bool | None = None) -> None:
        """Write text for people."""
        if self._stream is None:  # it was closed before the start
            return
        try:
            click.echo(f"{text}{ends}", file=self._stream, nl=False, color=color)
        except OSError:
            _give_up(self._stream)
            raise

    def document(self, document: Mapping[str, Any]) -> None:
        """Write data for a program."""
        self.text(as_json(document, indent=2 if self._app.output == "json" else None))


def _take_over_stdout() -> TextIO | None:
    """Return a private stdout, and lead the public one to stderr."""
    stdout: Any = sys.stdout
    try:
        number = os.dup(stdout.fileno())  # child processes do not inherit it
    except (AttributeError, OSError):  # there is none, or it was replaced
        sys.stdout = sys.stderr
        if not _is_open(1):  # or the next opened file would receive what tools print
            _lead_to_stderr(1)
        stream: TextIO | None = stdout
        return stream
    stdout.flush()
    _lead_to_stderr(1)
    # line editors need the real descriptor
    sys.stdout = os.fdopen(1, "w", buffering=1, errors="backslashreplace", closefd=False)
    return os.fdopen(number, "w", encoding=stdout.encoding, errors="backslashreplace")


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _lead_to_stderr(number: int) -> None:
    try:
        os.dup2(sys.stderr.fileno(), number)
    except (AttributeError, OSError):  # there is no stderr
        _lead_nowhere(number)


def _lead_nowhere(number: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)


def _give_up(stream: TextIO) -> None:
    """Discard unwritable output; Python would report it at exit."""
    with suppress(OSError):  # it may not be a file
        _lead_nowhere(stream.fileno())
