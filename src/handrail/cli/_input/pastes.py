"""Pasted text: one piece, without what a terminal would obey; a long one has a short name."""

from __future__ import annotations

import re

from handrail.cli._screen.rows import safe_line

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_UNKNOWN = re.compile("[\ud800-\udfff]")
"""Bytes that are not text."""
_MAX_ROWS = 10
_MAX_CHARS = 1_000
"""Longest paste to show in full."""


def clean_paste(text: str) -> str:
    """Return pasted text with line feeds only, and control characters written out."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(["\t".join(map(safe_line, line.split("\t"))) for line in lines])


def clean_typed(text: str) -> str:
    """Return a message without what no keyboard means to send: control characters, odd bytes."""
    return _CONTROL.sub("", _UNKNOWN.sub("\ufffd", text))


class Pastes:
    """Long pasted texts, by their names in the input."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def fold(self, text: str) -> str:
        """Return a short text unchanged, and a name for a long one."""
        rows = text.count("\n") + 1
        if rows <= _MAX_ROWS and len(text) <= _MAX_CHARS:
            return text
        size = f"{rows:,} lines" if rows > 1 else f"{len(text):,} characters"
        number = f", number {len(self._texts) + 1}" if self._texts else ""
        name = f"[pasted {size}{number}]"
        self._texts[name] = text
        return name

    def unfold(self, text: str) -> str:
        """Return a text with pasted texts replacing their names."""
        for name, pasted in self._texts.items():
            text = text.replace(name, pasted)
        return text

    def name_at_end(self, text: str) -> str:
        """Return the name at a text's end, if any."""
        return next((name for name in self._texts if text.endswith(name)), "")

    def clear(self) -> None:
        """Forget all texts: the message was sent."""
        self._texts = {}
