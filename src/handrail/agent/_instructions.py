"""Instructions: the ``AGENTS.md`` or ``CLAUDE.md`` files in a workspace, for the system prompt."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from handrail._support.visible import list_unseen
from handrail.agent._found_files import (
    HAS_TAGS,
    MAX_PATH_CHARS,
    NOT_TRUSTED,
    AnyPath,
    FolderReader,
    Gone,
    IsTrusted,
    Notice,
    NoticeKind,
    NotRead,
    Untrusted,
    decode_text,
    is_trusted,
    trust_nothing,
)
from handrail.agent._tagged_text import has_tags, to_one_line, wrap_in_tag

INSTRUCTION_FILES = ("AGENTS.md", "CLAUDE.md")
"""Names of instruction files. Each folder's first existing one is used."""
MAX_BYTES = 65_536
"""Bytes for all files together. Every turn sends them to the model."""
MAX_FOLDERS = 32
"""Folders from the current one upwards, in addition to the root."""

_HEAD = (
    "These instructions come from files in the workspace. If two conflict, follow the later one: "
    "it is closer to the current folder. The user's messages take precedence over all of them."
)


@dataclass(frozen=True, slots=True)
class Instructions:
    """Instruction text for a model, and notices for the user."""

    text: str = ""
    """The text for the system prompt, or empty if no file was read."""
    files: tuple[str, ...] = ()
    """The loaded files. The last one takes precedence."""
    untrusted: tuple[Untrusted, ...] = ()
    """Files ignored because the user has not trusted their current content."""
    notices: tuple[Notice, ...] = ()


def read_instructions(
    root: AnyPath,
    within: AnyPath = "",
    *,
    trusted: IsTrusted = trust_nothing,
    names: Sequence[str] = INSTRUCTION_FILES,
    max_bytes: int = MAX_BYTES,
) -> Instructions:
    """Read the workspace's instruction files for a folder.

    Args:
        root: The workspace.
        within: The current folder, relative to the root.
        trusted: Whether the user trusts this file's content. Other files are ignored.
        names: File names to look for. Each folder's first existing one is used.
        max_bytes: Limit for all files together. Files closest to the current folder come first.
    """
    search = _InstructionSearch(root, trusted, max_bytes)
    for path in _folders_down_to(within)[::-1]:
        search.read_folder(path, names)
    return search.result()


class _InstructionSearch:
    """Reads from the current folder upwards, so the closest files fit the limit first."""

    def __init__(self, root: AnyPath, trusted: IsTrusted, bytes_left: int) -> None:
        self._reader = FolderReader(os.path.realpath(root, strict=True).rstrip("/"))
        self._trusted = trusted
        self._bytes_left = bytes_left
        self._texts: list[tuple[str, str]] = []
        self._untrusted: list[Untrusted] = []
        self._notices: list[Notice] = []

    def read_folder(self, path: str, names: Sequence[str]) -> None:
        for name in names:
            file = f"{path}/{name}".lstrip("/")
            try:
                self._add(file, self._reader.read(file, self._bytes_left))
            except Gone:
                continue
            except NotRead as reason:
                self._notify(file, "skipped", str(reason))
            break

    def result(self) -> Instructions:
        texts = self._texts[::-1]
        tagged = [wrap_in_tag("instructions", text, file=file) for file, text in texts]
        return Instructions(
            text="\n\n".join([_HEAD, *tagged]) if tagged else "",
            files=tuple(file for file, _ in texts),
            untrusted=tuple(self._untrusted[::-1]),
            notices=tuple(self._notices[::-1]),
        )

    def _add(self, file: str, data: bytes) -> None:
        if not is_trusted(self._trusted, file, data):
            self._untrusted.append(Untrusted(file, data))
            self._notify(file, "untrusted", NOT_TRUSTED)
            return
        text = decode_text(data).replace("\r\n", "\n").strip("\n")
        self._bytes_left -= len(data)
        self._texts.append((file, text))
        if hidden := list_unseen(text):
            self._notify(file, "invisible", f"contains invisible characters: {hidden}")
        if has_tags(text):
            self._notify(file, "escaped", HAS_TAGS)

    def _notify(self, file: str, kind: NoticeKind, message: str) -> None:
        self._notices.append(Notice(to_one_line(file, MAX_PATH_CHARS), kind, message))


def _folders_down_to(within: AnyPath) -> list[str]:
    """Return the folders from the root down. A long path is cut to the root and its end."""
    path = PurePosixPath(os.fspath(within))
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(
            f"within={os.fspath(within)!r} must be relative to the workspace, without '..'."
        )
    folders = ["/".join(path.parts[:depth]) for depth in range(len(path.parts) + 1)]
    return [folders[0], *folders[1:][-MAX_FOLDERS:]]
