"""The folder of a skill: its ``SKILL.md``, its other files, and the content that is trusted."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from handrail.agent._found_files import (
    AnyPath,
    NotRead,
    list_folder,
    open_folder,
    open_subfolder,
    read_bytes,
)

SKILL_FILE = "SKILL.md"
MAX_SKILL_FILE_BYTES = 65_536
"""Bytes of a ``SKILL.md``."""
MAX_FILES = 500
MAX_DEPTH = 6
MAX_FOLDER_BYTES = 16 * 1024 * 1024
"""Bytes of all files of a skill."""
SKIPPED_FOLDERS = frozenset((".git", ".venv", "__pycache__", "node_modules"))
"""Folders that other programs write to. Their files are neither listed nor read."""


class TooLarge(NotRead):
    """A skill has too many files, bytes or nested folders."""


class SkillFolder(NamedTuple):
    """The content of a skill's folder."""

    skill: bytes
    """The content of its ``SKILL.md``."""
    files: Mapping[str, str]
    """Digests of the other files, by path in the folder. Links are not included."""
    record: bytes
    """The content that is trusted: a digest line for each other file, then ``SKILL.md``."""
    size: int


class SkillText(NamedTuple):
    """The parts of a ``SKILL.md``."""

    head: str
    """The front matter, from the first line of the file."""
    body: str
    problem: str = ""
    """Why there is no front matter."""


_HEAD_END = re.compile(r"^(?:---|\.\.\.)\s*?$", re.MULTILINE)


class _SkillFile(NamedTuple):
    name: str
    data: bytes | None
    """None if it is not a regular file."""


def read_skill_folder(
    root: AnyPath, path: str, *, max_bytes: int = MAX_FOLDER_BYTES
) -> SkillFolder:
    """Read a skill's folder. Raises NotRead if it is too large or does not exist."""
    files: dict[str, str] = {}
    lines: list[str] = []
    with open_folder(root, path) as within:
        skill = read_bytes(within, SKILL_FILE, MAX_SKILL_FILE_BYTES)
        left = max_bytes - len(skill)
        for name, data in _walk(within, "", MAX_DEPTH):
            left -= len(data or b"")
            if len(lines) == MAX_FILES or left < 0:
                raise TooLarge(f"more than {MAX_FILES} files or {max_bytes:,} bytes")
            if data is not None:
                files[name] = file_digest(data)
            lines.append(f"{files.get(name, '-')} {json.dumps(name)}\n")
    record = "".join(lines).encode() + b"\n" + skill
    return SkillFolder(skill, files, record, max_bytes - left)


def split_skill(text: str) -> SkillText:
    """Split a ``SKILL.md`` into its front matter and the text below it."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    start = len(text) - len(text.lstrip("\n"))
    if text[start:].partition("\n")[0].rstrip() != "---":
        return SkillText("", text.strip("\n"), "no front matter: the first line must be ---")
    end = _HEAD_END.search(text, start + len("---"))
    if end is None:
        problem = "the line --- that ends the front matter is missing"
        return SkillText("", text.strip("\n"), problem)
    return SkillText(text[: end.start()], text[end.end() :].strip("\n"))


def file_digest(data: bytes) -> str:
    """Return the digest of a file."""
    return hashlib.sha256(data).hexdigest()


def read_skill_file(root: AnyPath, path: str, name: str, max_bytes: int) -> bytes:
    """Read a file that ``read_skill_folder`` listed. Raises NotRead."""
    parent, _, last = f"{path}/{name}".rpartition("/")
    with open_folder(root, parent) as within:
        return read_bytes(within, last, max_bytes)


def _walk(within: int, inner: str, depth: int) -> Iterator[_SkillFile]:
    for entry in list_folder(within):
        name = f"{inner}{entry.name}"
        if entry.kind == "folder":
            if entry.name not in SKIPPED_FOLDERS:
                yield from _walk_subfolder(within, entry.name, name, depth)
        elif name != SKILL_FILE:
            is_file = entry.kind == "file"
            yield _SkillFile(
                name, read_bytes(within, entry.name, MAX_FOLDER_BYTES) if is_file else None
            )


def _walk_subfolder(within: int, step: str, name: str, depth: int) -> Iterator[_SkillFile]:
    if not depth:
        raise TooLarge(f"folders are nested more than {MAX_DEPTH} levels deep")
    with open_subfolder(within, step) as inside:
        yield from _walk(inside, f"{name}/", depth - 1)
