"""A model's spelling of a path: what it can mean, and what is refused without a look."""

from __future__ import annotations

import os
import re
import unicodedata

from handrail import Refused, ToolFailed

_MOST_BYTES = 4096
_MOST_STEPS = 256
_ELSEWHERE = (
    (re.compile(r"~"), "'~' stands for no home directory here"),
    (re.compile(r"\$\{?[A-Z_]+\}?(?=/|$)"), "variables are not expanded here"),
    (re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://"), "an address is no path"),
    (re.compile(r"\\"), "a path starts with no backslash here"),
    (re.compile(r"[A-Za-z]:"), "there are no drives here"),
)
"""How paths outside of the workspace begin, and why that is not meant here."""
_RESERVED = re.compile(r"(?i)(?:con|prn|aux|nul|com[1-9]|lpt[1-9])")
_ODD = (
    (re.compile(r"\\"), "it has a backslash in it: write / between folders"),
    (re.compile(r"(?i)%(?:2e|2f|5c|00)"), "it has encoded characters in it: write them plainly"),
    (re.compile(r"::\$"), "it names a stream of a file"),
    (re.compile(r"[\x00-\x1f\x7f]"), "it has control characters in it"),
    (re.compile(r"^\s|\s$"), "it begins or ends with a blank"),
)


def beneath(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it, both as they are spelled."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def inside(path: str, roots: tuple[str, ...]) -> str:
    """The path relative to the workspace, as far as its spelling tells.

    The kernel has the last word. Raises Refused where it would lead outside, and ToolFailed where
    it is no path.
    """
    _is_a_path(path)
    for root in roots:
        if beneath(path, root):
            path = path[len(root) :].lstrip("/") or "."
            break
    if path.startswith("/"):
        raise Refused(f"{path!r} is outside of the workspace. {_USE_RELATIVE}")
    for begins, why in _ELSEWHERE:
        if begins.match(path):
            raise Refused(f"{path!r} is outside of the workspace: {why}. {_USE_RELATIVE}")
    if _climbs(path):
        raise Refused(f"{path!r} leads out of the workspace. {_USE_RELATIVE}")
    return path


def _is_a_path(path: str) -> None:
    if not path:
        raise ToolFailed("The path is empty. Give the path of a file in the workspace.")
    if "\0" in path:
        raise ToolFailed("A path has no NUL character in it. Leave it out.")
    try:
        size = len(os.fsencode(path))
    except UnicodeEncodeError:
        raise ToolFailed("The path has characters that no file name can have.") from None
    if size > _MOST_BYTES or path.count("/") >= _MOST_STEPS:
        raise ToolFailed(f"The path is too long ({size:,} bytes). Give a shorter one.")


def _climbs(path: str) -> bool:
    depth = 0
    for step in path.split("/"):
        depth += (step not in ("", ".", "..")) - (step == "..")
        if depth < 0:
            return True
    return False


def creatable(path: str) -> None:
    """Raise ToolFailed where no file or folder should get such a name, though it could."""
    for name in path.split("/"):
        why = _oddity(name)
        if why:
            raise ToolFailed(f"No file is created under the name {name!r}: {why}.")


def _oddity(name: str) -> str:
    if _RESERVED.fullmatch(name):
        return "it is the name of a device on other systems"
    if unicodedata.normalize("NFC", name) != name:
        return "its accents are spelled apart: write each letter as one character"
    return next((why for odd, why in _ODD if odd.search(name)), "")


_USE_RELATIVE = "Use a path relative to the workspace."
