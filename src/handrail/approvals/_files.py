"""What a call would do to files, for the person who is asked: changes as a diff, globs as names."""

from __future__ import annotations

import difflib
import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from handrail.approvals._display import inline

Read: TypeAlias = Callable[[str], str | None]
"""The text of a file as it is now; None where there is no such file."""

_PAIRS = (("old_str", "new_str"), ("old", "new"))
_LONGEST_FILE = 100_000
"""Characters of a file up to which it is compared: the time for it grows with the square."""
_MOST_NAMES = 20
_MOST_COUNTED = 1_000
_MOST_WILD = 3
"""Segments of a pattern that may be wild: each multiplies the places to look."""
_BREAKS = frozenset(" \t\n;|&()<>")
_WILD = re.compile(r"[*?]|\[.*\]")
_UNCERTAIN = frozenset("$`{~")
_OTHER_SET = re.compile(r"\[(?:\^|\[?:)")
"""Sets that a shell reads in another way than we do."""
_MOVES = re.compile(r"(?:^|[\s;&|(])(?:cd|pushd|popd)(?:[\s;&|)]|$)")


@dataclass(frozen=True, slots=True)
class Change:
    """What would become of a file: lines of a diff, or the new text where nothing is known."""

    shows: frozenset[str]
    """The arguments that it shows, and that need not be shown again."""
    title: str
    diff: tuple[str, ...] = ()
    """Lines of a unified diff, as they are: they have yet to be made safe to show."""
    text: str = ""


def change(args: Mapping[str, Any], read: Read | None) -> Change | None:
    """The change that a call would make to one file, if its arguments look like one."""
    path, content = args.get("path"), args.get("content")
    if not isinstance(path, str):
        return None
    for names in _PAIRS:
        old, new = (args.get(name) for name in names)
        if isinstance(old, str) and isinstance(new, str):
            return _edited(path, old, new, shows=frozenset(names), read=read)
    return _written(path, content, read) if isinstance(content, str) else None


def _written(path: str, content: str, read: Read | None) -> Change:
    shows, name = frozenset({"content"}), inline(path)
    if read is None:
        return Change(shows, f"new text of {name}:", text=content)
    now, why = _now(path, read)
    if now is None:
        return Change(shows, f"{name} {why}; its new text:", text=content)
    if now == content:
        return Change(shows, f"{name} has this text already:", text=content)
    return Change(shows, f"change of {name}:", _diff(now, content))


def _edited(path: str, old: str, new: str, *, shows: frozenset[str], read: Read | None) -> Change:
    name = inline(path)
    if read is None:
        return Change(shows, f"change in {name}:", _diff(old, new))
    now, why = _now(path, read)
    if now is None:
        return Change(shows, f"{name} {why}; the change would be:", _diff(old, new))
    found = now.count(old) if old else 0
    if found != 1:
        title = f"the old text is in {name} {found} times; the change would be:"
        return Change(shows, title, _diff(old, new))
    return Change(shows, f"change of {name}:", _diff(now, now.replace(old, new)))


def _now(path: str, read: Read) -> tuple[str | None, str]:
    """The text of a file now; or none, and why."""
    try:
        now = read(path)
    except FileNotFoundError:
        now = None
    except (OSError, ValueError) as error:
        return None, f"could not be read ({type(error).__name__})"
    if now is None:
        return None, "is not there yet"
    if len(now) > _LONGEST_FILE:
        return None, f"is too long to compare ({len(now)} characters)"
    return now, ""


def _diff(old: str, new: str) -> tuple[str, ...]:
    """A unified diff. Lines end at line feeds only, as they do for whoever writes the file."""
    if old.endswith("\n") and new.endswith("\n"):
        old, new = old[:-1], new[:-1]  # else one more empty line tells them apart
    lines = difflib.unified_diff(old.split("\n"), new.split("\n"), lineterm="")
    return tuple(islice(lines, 2, None))


def preview(command: str, workspace: str | os.PathLike[str]) -> Iterator[str]:
    """What each unquoted pattern of a shell command stands for now, one line each."""
    moves = _MOVES.search(command) is not None
    for written, pattern in dict.fromkeys(_patterns(command)):
        yield f"{inline(written)} {_stands_for(pattern, workspace, moves=moves)}"


def _stands_for(pattern: str | None, workspace: str | os.PathLike[str], *, moves: bool) -> str:
    if pattern is None:
        return "cannot be told before the shell runs"
    if moves:
        return "is not looked up, since the command changes its directory"
    segments = pattern.split("/")
    if pattern.startswith("/") or ".." in segments:
        return "leads out of the workspace"
    if sum(glob.has_magic(segment) for segment in segments) > _MOST_WILD:
        return "is too wide to look up"
    return _listed(glob.iglob(pattern, root_dir=workspace))  # noqa: PTH207  a shell's rules


def _listed(found: Iterable[str]) -> str:
    names = sorted(islice(found, _MOST_COUNTED + 1))
    if not names:
        return "matches nothing"
    more = "more than " if len(names) > _MOST_COUNTED else ""
    count = f"{more}{min(len(names), _MOST_COUNTED)} name{'s' * (len(names) > 1)}"
    shown = ", ".join(inline(name) for name in names[:_MOST_NAMES])
    return f"matches {count}: {shown}{', …' if len(names) > _MOST_NAMES else ''}"


def _patterns(command: str) -> Iterator[tuple[str, str | None]]:
    """Each word with an unquoted ``*``, ``?`` or ``[``: as written, and as a pattern for glob.

    None for the pattern where a variable or another expansion has its part in it.
    """
    for word in _words(command):
        if _WILD.search("".join(one for one, quoted in word if not quoted)):
            written = "".join(one for one, _ in word)
            certain = not _OTHER_SET.search(written) and not any(
                one in _UNCERTAIN and not quoted for one, quoted in word
            )
            pattern = "".join(glob.escape(one) if quoted else one for one, quoted in word)
            yield written, pattern if certain else None


def _words(command: str) -> Iterator[list[tuple[str, bool]]]:
    """The words of a command, each character with whether it was quoted; quotes are left out."""
    word: list[tuple[str, bool]] = []
    quote = ""
    characters = iter(command)
    for one in characters:
        if one == "\\" and quote != "'":
            word.append((next(characters, ""), True))
        elif one == quote:
            quote = ""
        elif quote:
            # Within double quotes a variable still stands for something else.
            word.append((one, not (quote == '"' and one in "$`")))
        elif one in "'\"":
            quote = one
        elif one in _BREAKS:
            yield word
            word = []
        else:
            word.append((one, False))
    yield word
