"""Glob patterns, matched in time growing only with path length.

``*`` and ``?`` stay within a name, ``**`` matches any folders, ``[...]`` one of several
characters, ``{a,b}`` either text, and a backslash escapes the next character. A name with a
leading dot matches only if the pattern has that dot, or if hidden files are wanted.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from handrail import ToolFailed

_MAX_CHOICES: Final = 100
_MAX_PATTERN_CHARS: Final = 1_000
_TOKEN: Final = re.compile(r"\\(.)|(\*+)|(\?)|\[([!^]?)(\][^\]/]*|[^\]/]+)\]|(.)", re.DOTALL)
_BRACE: Final = re.compile(r"\\.|[{},]", re.DOTALL)
_PLAIN: Final = re.compile(r"[\w.*?-]+", re.ASCII)
_NO_DOT: Final = r"(?!\.)"


class GlobPattern:
    """A glob pattern for paths relative to a folder.

    With ``anywhere``, a pattern without a slash matches names in every folder. With ``hidden``,
    names with a leading dot match like others.
    """

    def __init__(self, text: str, *, anywhere: bool = False, hidden: bool = False) -> None:
        self.text = text
        _check_pattern(text)
        choices = [_steps(choice, anywhere=anywhere) for choice in _choices(text)]
        names = {name for steps in choices for name in steps}
        self.dotted = any(name.startswith((".", "\\.")) for name in names)
        """Whether the pattern names files or folders with a leading dot."""
        self.git = ".git" in names
        """Whether the pattern names the .git folder."""
        self.last = _last_names([steps[-1] for steps in choices])
        """Simple patterns for every matching path's last name; empty if there are none."""
        self.means = re.compile(
            "|".join(_path_expression(steps, hidden=hidden) for steps in choices)
        ).fullmatch


def _check_pattern(text: str) -> None:
    if len(text) > _MAX_PATTERN_CHARS:
        raise ToolFailed(f"The glob pattern has more than {_MAX_PATTERN_CHARS:,} characters.")
    if text.startswith("/"):
        raise ToolFailed(
            f"The glob pattern {text!r} is absolute. Make it relative to the folder in path."
        )
    if ".." in re.split(r"[/{},]", text):
        raise ToolFailed(
            f"The glob pattern {text!r} contains '..'. Pass the folder to search as path instead."
        )


def _steps(text: str, *, anywhere: bool) -> list[str]:
    """Return a pattern's components; a pattern for a folder matches everything in it."""
    steps = [step for step in text.split("/") if step not in ("", ".")]
    if anywhere and "/" not in text.rstrip("/"):
        steps.insert(0, "**")
    if text.endswith("/") or not steps:
        steps.append("**")
    return steps


def _choices(text: str) -> list[str]:
    """Expand a pattern's braces into one pattern per choice."""
    todo, done = [text], list[str]()
    while todo:
        pattern = todo.pop()
        braces = _first_brace(pattern)
        if braces is None:
            done.append(pattern)
        else:
            start, commas, end = braces
            cuts = [start, *commas, end]
            inner = [pattern[a + 1 : b] for a, b in pairwise(cuts)]
            todo += [f"{pattern[:start]}{part}{pattern[end + 1 :]}" for part in inner]
        if len(todo) + len(done) > _MAX_CHOICES:
            raise ToolFailed(
                f"The braces of the glob pattern expand to more than {_MAX_CHOICES} patterns. Use "
                "'*' instead of some."
            )
    return done


def _first_brace(text: str) -> tuple[int, list[int], int] | None:
    """Return the first braces and their commas; braces without a comma are plain text."""
    opened = list[tuple[int, list[int]]]()
    closed = list[tuple[int, list[int], int]]()
    for mark in _BRACE.finditer(text):
        if mark[0] == "{":
            opened.append((mark.start(), []))
        elif mark[0] == "," and opened:
            opened[-1][1].append(mark.start())
        elif mark[0] == "}" and opened:
            start, commas = opened.pop()
            if commas:
                closed.append((start, commas, mark.start()))
    return min(closed, default=None)


def _path_expression(steps: list[str], *, hidden: bool) -> str:
    """Return a regular expression for a whole path.

    A part between two ``**`` is matched at its first occurrence and never again: that leaves the
    most room for the rest, and prevents backtracking.
    """
    name = r"[^/]+" if hidden else rf"{_NO_DOT}[^/]+"
    runs, run = list[str](), list[str]()
    for step in steps:
        if step == "**":
            runs.append("/".join(run))
            run = []
        else:
            run.append(_name_expression(step, hidden=hidden))
    first, *rest = [*runs, "/".join(run)]
    if not rest:
        return first
    *between, last = rest
    parts = [f"{first}/"] if first else []
    parts += [f"(?>(?:{name}/)*?{part}/)" for part in between if part]
    parts.append(f"(?:{name}/)*{last or name}")
    return "".join(parts)


def _name_expression(step: str, *, hidden: bool) -> str:
    """Return a regular expression for one name, without backtracking."""
    runs = [""]
    for escaped, stars, any_character, negated, characters, literal in _TOKEN.findall(step):
        if stars:
            runs.append("")
        elif any_character:
            runs[-1] += "[^/]"
        elif characters:
            runs[-1] += _class_expression(characters, negated=bool(negated))
        else:
            runs[-1] += re.escape(escaped or literal)
    first, *rest = runs
    parts = [first]
    if rest:
        parts += [f"(?>[^/]*?{part})" for part in rest[:-1] if part]
        parts.append(f"[^/]*{rest[-1]}")
    dot = "" if hidden or step.startswith((".", "\\.")) else _NO_DOT
    return f"{dot}{''.join(parts)}"


def _class_expression(characters: str, *, negated: bool) -> str:
    inner = re.sub(r"([\\\[\]^&~|])", r"\\\1", characters)
    try:
        re.compile(f"[{inner}]")
    except re.error:  # such as a reversed range: it matches its characters
        inner = re.escape(characters)
    return f"(?!/)[{'^' if negated else ''}{inner}]"


def _last_names(names: list[str]) -> tuple[str, ...]:
    simple = [re.sub(r"\*+", "*", name) for name in names if _PLAIN.fullmatch(name)]
    matches_all = len(simple) < len(names) or "*" in simple
    return () if matches_all else tuple(dict.fromkeys(simple))
