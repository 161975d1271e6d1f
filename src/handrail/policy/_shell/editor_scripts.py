"""Finds shell commands in scripts of text editors, as in ``vim -c '!git push'``, and of ``sed``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

EDITORS = frozenset("vim vi nvim ex view gvim mvim vimdiff emacs".split())
_SHELL = re.compile(r"!(.+)|\bterm(?:inal)?[ \t]+(.+)", re.DOTALL)
_CALL = re.compile(
    r"""(?:system|jobstart|execute|shell-command)\w*[\s("]*(['"])((?:(?!\1).)+)\1""", re.DOTALL
)
_ADDRESS = re.compile(r"[\s;{}\d,$!~+]*")
_TO_END_OF_LINE = re.compile(r"[^\n]*")
_TO_END_OF_COMMAND = re.compile(r"[^\n;}]*")
_FLAGS = re.compile(r"[\w ]*")
_SCRIPT_FLAG = re.compile(r"-[a-zA-Z]*e|--expression")
_SCRIPT_FLAGS = ("-e", "--expression=")


def commands_in_editor(argv: tuple[str, ...]) -> Iterator[str]:
    """Yield texts an editor passes to a shell."""
    for word in argv[1:]:
        found = _SHELL.search(word)
        if found is not None:
            yield found[1] or found[2]
        for _, text in _CALL.findall(word):
            yield text.lstrip(":!")


def scripts_of(argv: Sequence[str]) -> Iterator[str]:
    """Yield the script words in a ``sed`` command."""
    named, before = False, ""
    for word in argv[1:]:
        if _SCRIPT_FLAG.fullmatch(before):
            named = True
            yield word
        elif word.startswith(_SCRIPT_FLAGS) and word not in _SCRIPT_FLAGS:
            named = True
            yield word.removeprefix("--expression=").removeprefix("-e")
        elif not word.startswith("-") and not named:
            named = True
            yield word
        before = word


def commands_in_script(script: str) -> Iterator[str]:
    """Yield commands a ``sed`` script may run, or "" for one it reads."""
    at, size = 0, len(script)
    while at < size:
        at = _skip_addresses(script, at)
        letter, at = script[at : at + 1], at + 1
        if letter in ("s", "y"):
            end, parts = _read_parts(script, at)
            flags = _FLAGS.match(script, end)
            at = flags.end() if flags else end
            if letter == "s" and flags and "e" in flags[0].partition("w")[0]:
                yield parts[1]
        elif letter in ("a", "i", "c", "e"):
            rest = _TO_END_OF_LINE.match(script, at)
            at = rest.end() if rest else size
            if letter == "e" and rest:
                yield rest[0].strip()
        elif letter in ("r", "w", "R", "W", "b", "t", "T", ":", "#"):
            rest = _TO_END_OF_COMMAND.match(script, at)
            at = rest.end() if rest else size


def _skip_addresses(script: str, at: int) -> int:
    """Return where a command starts, after numbers and patterns."""
    while True:
        space = _ADDRESS.match(script, at)
        at = space.end() if space else at
        if script[at : at + 1] not in ("/", "\\"):
            return at
        at, _ = _read_parts(script, at + (script[at] == "\\"), parts=1)
        at += script[at : at + 1] in ("I", "M")


def _read_parts(script: str, at: int, parts: int = 2) -> tuple[int, list[str]]:
    """Return where the text between delimiters ends, and its parts."""
    delimiter, at = script[at : at + 1], at + 1
    found = [""]
    while at < len(script):
        if script[at] == "\\":
            found[-1] += script[at : at + 2]
            at += 2
            continue
        at += 1
        if script[at - 1] != delimiter:
            found[-1] += script[at - 1]
        elif len(found) == parts:
            break
        else:
            found.append("")
    return at, [*found, ""]
