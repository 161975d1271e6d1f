"""Checks a path a model sent, by its spelling alone."""

from __future__ import annotations

import json
import os
import re
import unicodedata

from handrail import Refused, ToolFailed
from handrail._support.visible import spell_out

_MAX_PATH_BYTES = 4096
_MAX_PATH_STEPS = 256
_ELSEWHERE = (
    (re.compile(r"~"), "'~' is not expanded"),
    (re.compile(r"\$\{?[A-Z_]+\}?(?=/|$)"), "variables are not expanded"),
    (re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://"), "it is a URL"),
    (re.compile(r"\\"), "it starts with a backslash"),
    (re.compile(r"[A-Za-z]:"), "it starts with a drive letter"),
)
"""How paths outside the workspace begin, and the reason to give."""
_RESERVED = re.compile(r"(?i)(?:con|prn|aux|nul|com[1-9]|lpt[1-9])")
_ODD = (
    (re.compile(r"\\"), "has a backslash; write / between folders"),
    (re.compile(r"(?i)%(?:2e|2f|5c|00)"), "has percent-encoded characters; write them directly"),
    (re.compile(r"::\$"), "names a file stream"),
    (re.compile(r"[\x00-\x1f\x7f]"), "has control characters"),
    (re.compile(r"^\s|\s$"), "starts or ends with whitespace"),
)


def is_beneath(path: str, folder: str) -> bool:
    """Return whether a path is a folder or inside it, by their spelling."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def make_relative(path: str, roots: tuple[str, ...]) -> str:
    """Return a path relative to the workspace, by its spelling alone.

    The kernel checks again when the path is opened. Raises Refused for a path that leads outside,
    and ToolFailed for a string that is not a path.
    """
    _check_path(path)
    for root in roots:
        if is_beneath(path, root):
            path = path[len(root) :].lstrip("/") or "."
            break
    if path.startswith("/"):
        raise Refused(_OUTSIDE.format(path=path, why=""))
    for begins, why in _ELSEWHERE:
        if begins.match(path):
            raise Refused(_OUTSIDE.format(path=path, why=f": {why}"))
    if _climbs(path):
        raise Refused(_OUTSIDE.format(path=path, why=""))
    return path


def quote_path(path: str) -> str:
    """Return a path as a model reads it, in quotes if it has unusual characters."""
    if path.isprintable() and path == path.strip():
        return path
    return spell_out(json.dumps(path, ensure_ascii=False))


def _check_path(path: str) -> None:
    if not path:
        raise ToolFailed("The path is empty. Pass the path of a file in the workspace.")
    if "\0" in path:
        raise ToolFailed("The path contains a NUL character. Remove it.")
    try:
        size = len(os.fsencode(path))
    except UnicodeEncodeError:
        raise ToolFailed("The path has characters that a file name cannot have.") from None
    if size > _MAX_PATH_BYTES or path.count("/") >= _MAX_PATH_STEPS:
        raise ToolFailed(f"The path is too long ({size:,} bytes). Use a shorter one.")


def _climbs(path: str) -> bool:
    depth = 0
    for step in path.split("/"):
        depth += (step not in ("", ".", "..")) - (step == "..")
        if depth < 0:
            return True
    return False


def check_creatable(path: str) -> None:
    """Raise ToolFailed for names the file system accepts but no file should get."""
    for name in path.split("/"):
        why = _oddity(name)
        if why:
            raise ToolFailed(f"Not created: {name!r} {why}.")


def _oddity(name: str) -> str:
    if _RESERVED.fullmatch(name):
        return "is a device name on Windows"
    if unicodedata.normalize("NFC", name) != name:
        return "has combining accents; write each letter as one character"
    return next((why for odd, why in _ODD if odd.search(name)), "")


_OUTSIDE = "Not run: {path!r} is outside the workspace{why}. Use a path inside it."
