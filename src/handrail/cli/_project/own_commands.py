"""The user's own slash commands: Markdown files with text for the model.

A workspace's commands need trust, with exactly their content. Those in the user's folder do not.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from handrail._support.private_files import read_file
from handrail.cli._base.settings import files, is_trusted

FOLDER = ".handrail/commands"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_HEAD = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_DESCRIPTION = re.compile(r"^description[ \t]*+:[ \t]*+(.*)$", re.MULTILINE)
_PLACE = re.compile(r"\$(ARGUMENTS\b|[1-9])")
_MAX_FILES = 100
_MAX_BYTES = 100_000


class OwnCommand(NamedTuple):
    """A command defined by the user or a workspace."""

    name: str
    text: str
    """The message for the model, before arguments are filled in."""
    description: str = ""
    is_trusted: bool = True
    path: str = ""
    """The file, relative to the workspace if it is there."""

    def fill_in(self, rest: str) -> str:
        """Return the message for the model, with the words after the command filled in."""
        words = split_words(rest)

        def fill(place: re.Match[str]) -> str:
            if place[1] == "ARGUMENTS":
                return rest
            number = int(place[1])
            return words[number - 1] if number <= len(words) else ""

        text, count = _PLACE.subn(fill, self.text)
        return f"{text}\n\n{rest}" if rest and not count else text


def split_words(rest: str) -> list[str]:
    """Return words, with quotes as in a shell."""
    try:
        return shlex.split(rest)
    except ValueError:  # an unclosed quote
        return rest.split()


def find_own_commands(workspace: Path) -> dict[str, OwnCommand]:
    """Return the commands by name. The workspace's win over the user's if they are trusted."""
    own = {one.name: one for one in _read_folder(files(workspace)["user"].parent / "commands")}
    for path in workspace_files(workspace):
        with suppress(OSError):
            content = read_file(path)
            one = _parse(path.stem, content)
            trusted = is_trusted(workspace, path, content)
            if trusted or one.name not in own:
                named = str(path.relative_to(workspace))
                own[one.name] = one._replace(is_trusted=trusted, path=named)
    return dict(sorted(own.items()))


def workspace_files(workspace: Path) -> list[Path]:
    """Return the workspace files defining commands."""
    folder = workspace / FOLDER
    if folder.is_symlink() or folder.parent.is_symlink():  # it could lead anywhere
        return []
    return list(_files_in(folder))


def _files_in(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        found = [path for path in sorted(folder.glob("*.md")) if _NAME.fullmatch(path.stem)]
        yield from [path for path in found[:_MAX_FILES] if path.stat().st_size <= _MAX_BYTES]


def _read_folder(folder: Path) -> Iterator[OwnCommand]:
    for path in _files_in(folder):
        with suppress(OSError):
            yield _parse(path.stem, path.read_bytes())._replace(path=str(path))


def _parse(name: str, content: bytes) -> OwnCommand:
    text = content.decode(errors="replace").replace("\r\n", "\n")
    head = _HEAD.match(text)
    said = _DESCRIPTION.search(head[1]) if head is not None else None
    description = said[1].rstrip(" \t").strip("\"'") if said is not None else ""
    return OwnCommand(name, text[head.end() if head else 0 :].strip(), description)
