"""Roles as terminal colors: on a dark background, on a light one, and on an unknown one.

Only this module knows colors. None of the sixteen colors is legible on every background, so without
a known one they are for signs, and weight does the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, TypeAlias

from handrail.cli._screen.rows import Row, plain

Ground: TypeAlias = Literal["dark", "light", "ansi", "none"]
_RESET = "\x1b[0m"
_BOLD = frozenset({"title", "path", "key", "added.word", "removed.word"})
_LAST_DARK = 6
"""The last dark color among the first eight in ``COLORFGBG``; 8 is dark too."""
_CUBE = (0, 95, 135, 175, 215, 255)
_COLORS: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {
        "muted": ("8d96a0", "5b6470", "2"),
        "accent": ("6cb6ff", "0a58b0", "36"),
        "ok": ("4ec9a5", "0b6b4f", "32"),
        "bad": ("ff6b6b", "9f1239", "1;31"),
        "warn": ("ffd479", "7a5c00", "1;33"),
        "ask": ("ff9bd2", "a3157a", "1;35"),
        "added.sign": ("", "", "1;32"),
        "removed.sign": ("", "", "1;31"),
        "code.word": ("d2a8ff", "7a2e9e", "1"),
        "code.text": ("a5d6a7", "0b6b4f", ""),
        "code.number": ("79c0ff", "0a58b0", ""),
        "code.name": ("e5c890", "855300", "1"),
        "code.note": ("a3acb7", "5b6470", "2"),
        "bar.runs": ("6cb6ff", "0a58b0", "36"),
        "bar.waits": ("8d96a0", "5b6470", "2"),
    }
)
"""A role's color on a dark and on a light ground, and its attributes among sixteen colors."""
_GROUNDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "added": ("0b3b45", "d3f3f5"),
        "removed": ("43200f", "ffe3d3"),
        "added.sign": ("0b3b45", "d3f3f5"),
        "removed.sign": ("43200f", "ffe3d3"),
        "added.fill": ("0b3b45", "d3f3f5"),
        "removed.fill": ("43200f", "ffe3d3"),
    }
)
"""A diff row's background."""
_LOOKS = {"muted": "muted", "ask": "ask", "warning": "warn", "bad": "bad"}
"""An approval request's parts, and their roles."""
_ON_ASK = ("#16181d", "#ffffff")
"""Text on the marked choice's background."""
ROLES = frozenset({"text", *_BOLD, *_COLORS, *_GROUNDS})


@dataclass(frozen=True)
class Theme:
    """How roles look in a terminal."""

    ground: Ground = "none"
    deep: bool = False
    """Whether the terminal has 24-bit colors; otherwise 256."""
    guessed: bool = False
    """Whether the terminal itself may know its ground better."""

    def paint(self, row: Row) -> str:
        """Return a row with its colors, if it has any."""
        if self.ground in {"none", "ansi"}:
            row = tuple([span for span in row if not span.role.endswith(".fill")])
        if self.ground == "none":
            return plain(row)
        painted = [
            f"\x1b[{code}m{text}{_RESET}" if (code := self._code(role)) else text
            for text, role in row
        ]
        return "".join(painted)

    @lru_cache(maxsize=256)  # noqa: B019  themes are few, and last as long as the program
    def _code(self, role: str) -> str:
        bold = ["1"] if role in _BOLD else []
        if self.ground == "ansi":
            return _COLORS[role][2] if role in _COLORS else ";".join(bold)
        which = 0 if self.ground == "dark" else 1
        color = _COLORS[role][which] if role in _COLORS else ""
        behind = _GROUNDS[role][which] if role in _GROUNDS else ""
        front = [f"38;{self._number(color)}"] if color else []
        back = [f"48;{self._number(behind)}"] if behind else []
        return ";".join([*bold, *front, *back])

    def question_styles(self) -> dict[str, str]:
        """Return styles for an approval request's parts, or none for an unknown background."""
        if self.ground not in {"dark", "light"}:
            return {}
        which, bold = 0 if self.ground == "dark" else 1, ("bold", "not bold")
        styles = {
            f"handrail.{look}": f"not dim {bold[look == 'muted']} #{_COLORS[role][which]}"
            for look, role in _LOOKS.items()
        }
        for look in ("ask", "warning", "bad"):  # the rail beside a changed row
            styles[f"handrail.{look}"] += " on default"
        for look in ("added", "removed"):
            styles[f"handrail.{look}"] = f"on #{_GROUNDS[look][which]}"
        styles["handrail.picked"] = f"bold {_ON_ASK[which]} on #{_COLORS['ask'][which]}"
        return styles

    def _number(self, color: str) -> str:
        red, green, blue = (int(color[at : at + 2], 16) for at in (0, 2, 4))
        if self.deep:
            return f"2;{red};{green};{blue}"
        r, g, b = (_nearest(part) for part in (red, green, blue))
        return f"5;{16 + 36 * r + 6 * g + b}"


def _nearest(part: int) -> int:
    return min(range(len(_CUBE)), key=lambda at: abs(_CUBE[at] - part))


def choose_theme(wanted: str, environ: Mapping[str, str], *, color: bool) -> Theme:
    """Return the theme for a terminal: the user's choice, or one for the ground if it is known."""
    if not color:
        return Theme()
    deep = environ.get("COLORTERM", "").lower() in {"truecolor", "24bit"}
    has_many = deep or "256color" in environ.get("TERM", "")
    ground: Ground = "ansi"
    if wanted in {"dark", "light"}:
        ground = "dark" if wanted == "dark" else "light"
    elif wanted != "ansi":
        ground = _read_ground(environ.get("COLORFGBG", ""))
    is_guessed = has_many and wanted == "auto"
    return Theme(ground if has_many else "ansi", deep, is_guessed)


def _read_ground(colors: str) -> Ground:
    """Return the ground that some terminals name: a number of the sixteen colors at the end."""
    last = colors.rpartition(";")[2]
    if not last.isascii() or not last.isdigit():
        return "ansi"
    return "dark" if int(last) <= _LAST_DARK or int(last) == _LAST_DARK + 2 else "light"
