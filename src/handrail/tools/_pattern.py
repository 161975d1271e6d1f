"""Glob patterns: which paths one means, decided in time that grows with the path alone.

``*`` and ``?`` stay within a name, ``**`` stands for any number of folders, ``[...]`` for one
character of several, ``{a,b}`` for either, and a backslash takes the meaning from what follows.
A name with a leading dot is meant only where the pattern has that dot, or where all are wanted.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from handrail import ToolFailed

MOST_CHOICES: Final = 100
_MOST_CHARACTERS: Final = 1_000
_TOKEN: Final = re.compile(r"\\(.)|(\*+)|(\?)|\[([!^]?)(\][^\]/]*|[^\]/]+)\]|(.)", re.DOTALL)
_BRACE: Final = re.compile(r"\\.|[{},]", re.DOTALL)
_PLAIN: Final = re.compile(r"[\w.*?-]+", re.ASCII)
_NO_DOT: Final = r"(?!\.)"


class Pattern:
    """A glob pattern for paths relative to a folder.

    With ``anywhere``, a pattern without a slash means names in every folder. With ``hidden``,
    names with a leading dot are like others.
    """

    def __init__(self, text: str, *, anywhere: bool = False, hidden: bool = False) -> None:
        self.text = text
        choices = [_steps(one, anywhere=anywhere) for one in _choices(_checked(text))]
        names = {name for steps in choices for name in steps}
        self.dotted = any(name.startswith((".", "\\.")) for name in names)
        """Whether names with a leading dot are asked for."""
        self.git = ".git" in names
        """Whether the folder where git keeps its own is asked for."""
        self.last = _last([steps[-1] for steps in choices])
        """Simple patterns for the last name of every path that is meant; empty if there are none"""
        self.means = re.compile("|".join(_path(steps, hidden) for steps in choices)).fullmatch


def _checked(text: str) -> str:
    if len(text) > _MOST_CHARACTERS:
        raise ToolFailed(f"The glob pattern has more than {_MOST_CHARACTERS:,} characters.")
    if text.startswith("/"):
        raise ToolFailed(
            f"The glob pattern {text!r} begins at the root of the machine. Begin it at the folder "
            "that is searched, and name that folder in path."
        )
    if ".." in re.split(r"[/{},]", text):
        raise ToolFailed(
            f"The glob pattern {text!r} has '..' in it. Name the folder to search in path instead."
        )
    return text


def _steps(text: str, *, anywhere: bool) -> list[str]:
    """The names of a path, as patterns; a pattern for a folder means all that lies in it."""
    steps = [one for one in text.split("/") if one not in ("", ".")]
    if anywhere and "/" not in text.rstrip("/"):
        steps.insert(0, "**")
    if text.endswith("/") or not steps:
        steps.append("**")
    return steps


def _choices(text: str) -> list[str]:
    """A pattern without its braces: one for each way to choose."""
    todo, done = [text], list[str]()
    while todo:
        one = todo.pop()
        found = _first_brace(one)
        if found is None:
            done.append(one)
        else:
            start, commas, end = found
            cuts = [start, *commas, end]
            inner = [one[a + 1 : b] for a, b in pairwise(cuts)]
            todo += [f"{one[:start]}{part}{one[end + 1 :]}" for part in inner]
        if len(todo) + len(done) > MOST_CHOICES:
            raise ToolFailed(
                f"The braces of the glob pattern stand for more than {MOST_CHOICES} patterns. Use "
                "fewer of them; '*' matches what differs."
            )
    return done


def _first_brace(text: str) -> tuple[int, list[int], int] | None:
    """Where the first braces begin and end, and their own commas; braces without one are plain."""
    opened = list[tuple[int, list[int]]]()
    closed = list[tuple[int, list[int], int]]()
    for found in _BRACE.finditer(text):
        if found[0] == "{":
            opened.append((found.start(), []))
        elif found[0] == "," and opened:
            opened[-1][1].append(found.start())
        elif found[0] == "}" and opened:
            start, commas = opened.pop()
            if commas:
                closed.append((start, commas, found.start()))
    return min(closed, default=None)


def _path(steps: list[str], hidden: bool) -> str:  # noqa: FBT001  one of two, and private
    """An expression for a whole path.

    What lies between two ``**`` is taken where it first fits, and never tried again further on:
    the rest has then the most room, and nothing can be tried twice.
    """
    name = r"[^/]+" if hidden else rf"{_NO_DOT}[^/]+"
    runs, run = list[str](), list[str]()
    for step in steps:
        if step == "**":
            runs.append("/".join(run))
            run = []
        else:
            run.append(_name(step, hidden))
    first, *rest = [*runs, "/".join(run)]
    if not rest:
        return first
    *between, last = rest
    parts = [f"{first}/"] if first else []
    parts += [f"(?>(?:{name}/)*?{one}/)" for one in between if one]
    parts.append(f"(?:{name}/)*{last or name}")
    return "".join(parts)


def _name(step: str, hidden: bool) -> str:  # noqa: FBT001
    """An expression for one name: what follows a star is taken where it first fits."""
    runs = [""]
    for escaped, stars, any_one, negated, characters, literal in _TOKEN.findall(step):
        if stars:
            runs.append("")
        elif any_one:
            runs[-1] += "[^/]"
        elif characters:
            runs[-1] += _class(characters, negated=bool(negated))
        else:
            runs[-1] += re.escape(escaped or literal)
    first, *rest = runs
    parts = [first]
    if rest:
        parts += [f"(?>[^/]*?{one})" for one in rest[:-1] if one]
        parts.append(f"[^/]*{rest[-1]}")
    dot = "" if hidden or step.startswith((".", "\\.")) else _NO_DOT
    return f"{dot}{''.join(parts)}"


def _class(characters: str, *, negated: bool) -> str:
    inner = re.sub(r"([\\\[\]^&~|])", r"\\\1", characters)
    try:
        re.compile(f"[{inner}]")
    except re.error:  # such as a range that runs backwards: it means its characters
        inner = re.escape(characters)
    return f"(?!/)[{'^' if negated else ''}{inner}]"


def _last(names: list[str]) -> tuple[str, ...]:
    simple = [re.sub(r"\*+", "*", name) for name in names if _PLAIN.fullmatch(name)]
    all_of_them = len(simple) < len(names) or "*" in simple
    return () if all_of_them else tuple(dict.fromkeys(simple))
