"""A terminal's keys, without its answer about its background, and with a line typed ahead."""

from __future__ import annotations

import re
import select
import threading
from contextlib import AbstractContextManager
from typing import TextIO

from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding.key_processor import KeyPress

from handrail.cli._screen.theme import Ground

QUESTION = "\x1b]11;?\x1b\\\x1b[c"
"""Asks for the color, then for the terminal's kind. Every terminal answers it, and in order."""
_COLOR = re.compile(r"\x1b\]11;([^\x07\x1b]*)(?:\x07|\x1b\\)")
_KIND = re.compile(r"\x1b\[\?[\d;]*c")
_BEGUN = re.compile(r"\x1b(?:\]1[^\x07\x1b]{0,40}\x1b?|\[\?[\d;]{0,40})\Z")
"""An answer's start, before its end has come."""
_RGB = re.compile(r"rgba?:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)")
_WEIGHTS = (0.299, 0.587, 0.114)
"""How much red, green and blue add to a color's brightness."""


class AskingInput(Vt100Input):
    """A terminal's keys, without its answers."""

    def __init__(self, stdin: TextIO) -> None:
        super().__init__(stdin)
        self.ground: Ground | None = None
        """What the terminal said; None if it has not said it."""
        self.answered = threading.Event()
        """Set when no more answers come."""
        self._begun = ""
        self._ahead = False
        """Whether the first text was typed while the terminal collected whole lines."""

    def read_keys(self) -> list[KeyPress]:
        """Return the pressed keys, consuming the answers."""
        text = self._take_answers(self.stdin_reader.read())
        if self._ahead and text.endswith("\n") and text.count("\n") == 1:
            text = f"{text[:-1]}\r"
        self._ahead = False
        self.vt100_parser.feed(text)
        pressed, self._buffer = self._buffer, []
        return pressed

    def raw_mode(self) -> AbstractContextManager[None]:
        """Hand over single keys. Note whether a line was typed before: its end is an Enter."""
        self._ahead = bool(select.select([self.fileno()], [], [], 0)[0])
        return super().raw_mode()

    def _take_answers(self, text: str) -> str:
        if self.answered.is_set():
            return text
        text = self._begun + text
        if color := _COLOR.search(text):
            self.ground = read_ground(color[1])
        if _KIND.search(text):
            self.answered.set()
        rest = _KIND.sub("", _COLOR.sub("", text))
        begun = _BEGUN.search(rest)
        self._begun = begun[0] if begun else ""
        return rest.removesuffix(self._begun)


def read_ground(color: str) -> Ground | None:
    """Return whether a color such as ``rgb:1e1e/1e1e/2e2e`` is dark or light; None if unknown."""
    found = _RGB.match(color)
    if found is None:
        return None
    parts = [int(part, 16) / (16 ** len(part) - 1) for part in found.groups()]
    bright = sum(weight * part for weight, part in zip(_WEIGHTS, parts, strict=True))
    return "light" if bright > 1 / 2 else "dark"
