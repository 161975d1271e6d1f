"""The folder of a skill: which files it has, its ``SKILL.md``, and what trust in it is bound to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from handrail.agent._files import NotRead, Place, below, content, folder, listing

FILE = "SKILL.md"
MOST_BYTES = 65_536
"""Of a ``SKILL.md``."""
MOST_FILES = 500
DEEPEST = 6
LARGEST = 16 * 1024 * 1024
"""Bytes of all files of a skill."""
PASSED_OVER = frozenset((".git", ".venv", "__pycache__", "node_modules"))
"""Folders of programs, which change by being used. They are neither listed nor looked into."""


class TooMuch(NotRead):
    """It is left out, since it has more in it than is looked at."""


class Package(NamedTuple):
    """What is in the folder of a skill."""

    skill: bytes
    """The content of its ``SKILL.md``."""
    files: Mapping[str, str]
    """The other files, from the path in the folder to the digest. A link is no file."""
    record: bytes
    """What trust is bound to: a line for each other file with its digest, then ``SKILL.md``."""
    size: int


class _File(NamedTuple):
    name: str
    data: bytes | None
    """Nothing, where it is no ordinary file."""


def package(root: Place, path: str, *, most: int = LARGEST) -> Package:
    """Look through a skill's folder. Raises NotRead where it is too much, or gone."""
    files: dict[str, str] = {}
    lines: list[str] = []
    with folder(root, path) as within:
        skill = content(within, FILE, MOST_BYTES)
        left = most - len(skill)
        for name, data in _files(within, "", DEEPEST):
            left -= len(data or b"")
            if len(lines) == MOST_FILES or left < 0:
                raise TooMuch(f"it has more than {MOST_FILES} files, or {most:,} bytes in them")
            if data is not None:
                files[name] = digest(data)
            lines.append(f"{files.get(name, '-')} {json.dumps(name)}\n")
    record = "".join(lines).encode() + b"\n" + skill
    return Package(skill, files, record, most - left)


def digest(data: bytes) -> str:
    """What a file is known by."""
    return hashlib.sha256(data).hexdigest()


def file_of(root: Place, path: str, name: str, most: int) -> bytes:
    """One file of a skill; the name is one that ``package`` gave. Raises as ``package`` does."""
    above, _, last = f"{path}/{name}".rpartition("/")
    with folder(root, above) as within:
        return content(within, last, most)


def _files(within: int, inner: str, depth: int) -> Iterator[_File]:
    for entry in listing(within):
        name = f"{inner}{entry.name}"
        if entry.kind == "folder":
            if entry.name not in PASSED_OVER:
                yield from _deeper(within, entry.name, name, depth)
        elif name != FILE:
            is_file = entry.kind == "file"
            yield _File(name, content(within, entry.name, LARGEST) if is_file else None)


def _deeper(within: int, step: str, name: str, depth: int) -> Iterator[_File]:
    if not depth:
        raise TooMuch(f"it has folders more than {DEEPEST} deep")
    with below(within, step) as inside:
        yield from _files(inside, f"{name}/", depth - 1)
