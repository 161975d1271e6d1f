"""A skill's folder: its ``SKILL.md``, its other files, and the trusted content."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from handrail.agent._found_files import FolderReader, NotRead

SKILL_FILE = "SKILL.md"
MAX_SKILL_FILE_BYTES = 262_144
"""Bytes in a ``SKILL.md``."""
MAX_HEAD_CHARS = 65_536
"""Front matter characters. Parsing it takes less than a second."""
MAX_FILES = 500
"""A skill's files and folders."""
MAX_DEPTH = 6
MAX_FOLDER_BYTES = 16 * 1024 * 1024
"""Bytes in all files of a skill."""
SKIPPED_FOLDERS = frozenset((".git", ".venv", "__pycache__", "node_modules"))
"""Folders other programs write to. Their files are neither listed nor read."""


class TooLarge(NotRead):
    """A skill has too many files, bytes or nested folders."""


class SkillFolder(NamedTuple):
    """A skill folder's content."""

    skill: bytes
    """Its ``SKILL.md``, as text."""
    files: Mapping[str, str]
    """Digests of the other files, by path in the folder. It has only followed links."""
    record: bytes
    """The trusted content: a digest line for each other file, then ``SKILL.md``."""
    size: int


class SkillText(NamedTuple):
    """A ``SKILL.md`` in parts."""

    head: str
    """The front matter, from the first line of the file."""
    body: str
    problem: str = ""
    """What is wrong with where the front matter ends."""


_EMPTY_LINE = re.compile(r"^[ \t]*$", re.MULTILINE)
_NO_PROSE = re.compile(r"```|<|---|\||!\[")
"""Code, tags, rules, tables and images."""
_HEAD_END = re.compile(r"^(?:---|\.\.\.)\s*?$", re.MULTILINE)


class _SkillFile(NamedTuple):
    name: str
    data: bytes | None
    """None if it is not a regular file, or an unfollowed link."""


def read_skill_folder(
    reader: FolderReader, path: str, *, max_bytes: int = MAX_FOLDER_BYTES
) -> SkillFolder:
    """Read a skill's folder. Raises NotRead if it is too large or does not exist."""
    files: dict[str, str] = {}
    lines: list[str] = []
    skill = reader.read(f"{path}/{SKILL_FILE}", MAX_SKILL_FILE_BYTES)
    left = max_bytes - len(skill)
    for number, (name, data) in enumerate(_walk(reader, path, "", ())):
        left -= len(data or b"")
        if number == MAX_FILES or left < 0:
            raise TooLarge(f"more than {MAX_FILES} files or {max_bytes:,} bytes")
        if data is not None:
            files[name] = file_digest(data)
        if not name.endswith("/"):
            lines.append(f"{files.get(name, '-')} {json.dumps(name)}\n")
    record = "".join(lines).encode() + b"\n" + skill
    return SkillFolder(skill, files, record, max_bytes - left)


def split_skill(text: str) -> SkillText:
    """Split a ``SKILL.md`` into its front matter and the text below it."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    start = len(text) - len(text.lstrip("\n"))
    if text[start:].partition("\n")[0].rstrip() != "---":
        return SkillText("", text.strip("\n"))
    problem = ""
    end = _HEAD_END.search(text, start + len("---"))
    if end is None:
        problem = (
            "the line --- that ends the front matter is missing; it ends at the first empty line"
        )
        end = _EMPTY_LINE.search(text, start)
    cut = end.span() if end else (len(text), len(text))
    if cut[0] > MAX_HEAD_CHARS:
        raise NotRead(f"the front matter has more than {MAX_HEAD_CHARS:,} characters")
    return SkillText(text[: cut[0]], text[cut[1] :].strip("\n"), problem)


def first_paragraph(body: str) -> str:
    """Return the first prose paragraph; without one, the first heading."""
    prose = "\n".join("" if line.startswith("#") else line for line in body.split("\n"))
    blocks = (block.strip() for block in _EMPTY_LINE.split(prose))
    first = next((block for block in blocks if block and not _NO_PROSE.match(block)), "")
    return first or body.lstrip("# \n").partition("\n")[0].strip()


def file_digest(data: bytes) -> str:
    """Return a file's digest."""
    return hashlib.sha256(data).hexdigest()


def _walk(
    reader: FolderReader, path: str, inner: str, above: tuple[str, ...]
) -> Iterator[_SkillFile]:
    """Yield a skill's files, and its folders, whose names end with a slash."""
    real = reader.locate(path)
    if real in above:
        return  # a link to a folder that contains it
    if len(above) > MAX_DEPTH:
        raise TooLarge(f"folders are nested more than {MAX_DEPTH} levels deep")
    for entry in reader.list_folder(path):
        name, whole = f"{inner}{entry.name}", f"{path}/{entry.name}"
        if entry.kind == "folder":
            if entry.name not in SKIPPED_FOLDERS:
                yield _SkillFile(f"{name}/", None)
                yield from _walk(reader, whole, f"{name}/", (*above, real))
        elif name != SKILL_FILE:
            is_file = entry.kind == "file"
            yield _SkillFile(name, reader.read(whole, MAX_FOLDER_BYTES) if is_file else None)
