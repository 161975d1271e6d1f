"""Show the patterns in a shell command as the file names they match."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from handrail.approvals._display import RenderedLine, render_line

_MAX_NAMES = 20
_MAX_COUNTED_NAMES = 1_000
_MAX_WILD_SEGMENTS = 3
"""Segments with wildcards: each multiplies the work."""
_BREAKS = frozenset(" \t\n;|&()<>")
_WILD = re.compile(r"[*?]|\A[^\[]*+\[[^\]]*+\]")
_UNCERTAIN = frozenset("$`{~")
_OTHER_SET = re.compile(r"\[(?:\^|\[?:)")
"""Sets read differently by a shell and Python's glob."""
_MOVES = re.compile(r"(?:^|[\s;&|(])(?:cd|pushd|popd)(?:[\s;&|)]|$)")


def expand_patterns(command: str, workspace: str | os.PathLike[str]) -> Iterator[RenderedLine]:
    """Yield a line for each unquoted pattern in a shell command: the files it matches now."""
    moves = _MOVES.search(command) is not None
    for written, pattern in dict.fromkeys(_patterns(command)):
        names: list[str] = []
        reason = _why_not_expanded(pattern, moves=moves)
        if pattern is not None and not reason:
            matches = glob.iglob(pattern, root_dir=workspace)  # noqa: PTH207  as a shell does
            names = sorted(islice(matches, _MAX_COUNTED_NAMES + 1))
        description = reason or _describe_names(names)
        yield render_line(f"  {{}} {description}", written, *names[:_MAX_NAMES])


def _why_not_expanded(pattern: str | None, *, moves: bool) -> str:
    if pattern is None:
        return "cannot be expanded before the shell runs"
    if moves:
        return "is not expanded, because the command changes its folder"
    if "\0" in pattern:
        return "cannot match: no file name has a NUL character"
    segments = pattern.split("/")
    if pattern.startswith("/") or ".." in segments:
        return "is outside the workspace"
    if sum(glob.has_magic(segment) for segment in segments) > _MAX_WILD_SEGMENTS:
        return "is too wide to expand"
    return ""


def _describe_names(names: Sequence[str]) -> str:
    """Return a description with a pair of braces for each shown name."""
    if not names:
        return "matches nothing"
    more = "more than " if len(names) > _MAX_COUNTED_NAMES else ""
    count = f"{more}{min(len(names), _MAX_COUNTED_NAMES)} name{'s' * (len(names) > 1)}"
    shown = ", ".join(["{}"] * min(len(names), _MAX_NAMES))
    return f"matches {count}: {shown}{', …' if len(names) > _MAX_NAMES else ''}"


def _patterns(command: str) -> Iterator[tuple[str, str | None]]:
    """Yield each word with an unquoted ``*``, ``?`` or ``[``: as written, and as a glob pattern.

    The pattern is None if a variable or another expansion is part of it.
    """
    for word in _words(command):
        if _WILD.search("".join(character for character, quoted in word if not quoted)):
            written = "".join(character for character, _ in word)
            certain = not _OTHER_SET.search(written) and not any(
                character in _UNCERTAIN and not quoted for character, quoted in word
            )
            pattern = "".join(
                glob.escape(character) if quoted else character for character, quoted in word
            )
            yield written, pattern if certain else None


def _words(command: str) -> Iterator[list[tuple[str, bool]]]:
    """Yield a command's words: each character, and whether it was quoted."""
    word: list[tuple[str, bool]] = []
    quote = ""
    characters = iter(command)
    for character in characters:
        if character == "\\" and quote != "'":
            word.append((next(characters, ""), True))
        elif character == quote:
            quote = ""
        elif quote:
            # A variable is expanded in double quotes too.
            word.append((character, not (quote == '"' and character in "$`")))
        elif character in "'\"":
            quote = character
        elif character in _BREAKS:
            yield word
            word = []
        else:
            word.append((character, False))
    yield word
