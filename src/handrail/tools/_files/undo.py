"""The undo log: file states before each change, in a private folder and within limits.

The folder holds contents by their digest, one JSON file for each entry, and what
``handrail.tools._trees`` stores about a whole workspace. Any process can read it later.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from handrail._support.private_files import hold_lock, make_private_folder, replace_file
from handrail.tools._files.seen import digest

log = logging.getLogger("handrail.tools")

MAX_ENTRIES = 50
"""Changes kept. The oldest are dropped."""
_MAX_BYTES = 1024 * 1024 * 1024
"""Content bytes kept. Above that, the oldest changes are dropped."""
_SWEEP_SHARE = 16
"""Unneeded contents are removed after this share of the limit was written: 1/16."""
_MAX_LOCK_SECONDS = 10.0
_DIGEST = re.compile(rb"\b[0-9a-f]{64}\b")
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC

Kind: TypeAlias = Literal["file", "folder", "link", "other"]


class FileState(NamedTuple):
    """A path's state."""

    kind: Kind
    mode: int | None
    """The permissions; None if a change does not concern them."""
    content: str
    """A file's digest, a link's target; empty for a folder."""


class ChangedPath(NamedTuple):
    """A path a call changed."""

    path: str
    before: FileState | None
    """None if nothing was there."""
    after: FileState | None


@dataclass(frozen=True, slots=True)
class UndoEntry:
    """One call's changes."""

    number: int
    """Larger for later entries."""
    call_id: str
    when: float
    """Seconds since 1970."""
    changes: tuple[ChangedPath, ...]
    command: str = ""
    """The command behind the changes; empty for a file tool."""
    not_kept: tuple[str, ...] = ()
    """What the entry does not cover, with the reason."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths the call changed."""
        return tuple(change.path for change in self.changes)


class FileEdit(NamedTuple):
    """A file a tool wrote or deleted, by its contents."""

    path: str
    before: bytes | None
    after: bytes | None


class UndoLog:
    """The latest changes in a workspace.

    Without a folder, they are kept in a temporary one until the log is no longer used.
    """

    def __init__(
        self, folder: str | os.PathLike[str] | None = None, *, max_bytes: int = _MAX_BYTES
    ) -> None:
        self._given = folder
        self._max_bytes = max_bytes
        self._written = max_bytes  # so the first change removes others' leftovers
        self._read = dict[int, UndoEntry]()

    @cached_property
    def folder(self) -> Path:
        """The folder, which only its owner can enter."""
        if self._given is None:
            import shutil  # most processes change nothing
            import tempfile

            folder = Path(tempfile.mkdtemp(prefix="handrail-undo-"))
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            return folder
        folder = Path(self._given)
        make_private_folder(folder)
        return folder

    def hold(self) -> AbstractContextManager[None]:
        """Lock the log against other threads and processes. Raises TimeoutError."""
        return hold_lock(self.folder / "log", seconds=_MAX_LOCK_SECONDS)

    def keep(self, data: bytes) -> str:
        """Store a content, and return its digest. The caller holds the lock."""
        name = digest(data).hex()
        file = self._object(name)
        with suppress(FileNotFoundError):
            if file.stat().st_size == len(data):
                return name
        make_private_folder(file.parent)
        with os.fdopen(os.open(file, _NEW, 0o600), "wb") as out:
            out.write(data)
        self._written += len(data)
        return name

    def content(self, name: str) -> bytes | None:
        """Return a stored content by its digest; None if it is missing or damaged."""
        try:
            data = self._object(name).read_bytes()
        except FileNotFoundError:
            return None
        return data if digest(data).hex() == name else None

    def put_edits(self, call_id: str, edits: Iterable[FileEdit]) -> None:
        """Record a file tool's changes. If that fails, the process log says so."""
        try:
            with self.hold():
                changes = [
                    ChangedPath(path, self._keep_file(before), _state_of(after))
                    for path, before, after in edits
                ]
                self.put(call_id, changes)
        except OSError as error:
            log.warning("the change by %r cannot be undone: %s", call_id, error)

    def put(
        self,
        call_id: str,
        changes: Sequence[ChangedPath],
        *,
        command: str = "",
        not_kept: Sequence[str] = (),
    ) -> None:
        """Record changes. The caller holds the lock, and has stored the contents."""
        number = max([*self._numbers(), *self._read, 0]) + 1
        entry = UndoEntry(number, call_id, time.time(), (*changes,), command, (*not_kept,))
        replace_file(self._entry_file(number), json.dumps(_to_json(entry)).encode())
        self._read[number] = entry
        for old in self._numbers()[:-MAX_ENTRIES]:
            self._entry_file(old).unlink()
        if self._written >= self._max_bytes // _SWEEP_SHARE:
            self._sweep()

    def entries(self) -> tuple[UndoEntry, ...]:
        """Return the undoable changes, oldest first."""
        return tuple(entry for number in self._numbers() for entry in self._load(number))

    def find(self, which: str | int | None = None) -> UndoEntry | None:
        """Return the latest change, a call's latest one, or the one with a number."""
        for number in reversed(self._numbers()):
            for entry in self._load(number):
                if which in (None, number, entry.call_id):
                    return entry
        return None

    def drop(self, number: int) -> None:
        """Forget an undone change."""
        self._entry_file(number).unlink(missing_ok=True)

    def _keep_file(self, data: bytes | None) -> FileState | None:
        if data is not None:
            self.keep(data)
        return _state_of(data)

    def _object(self, name: str) -> Path:
        return self.folder / "objects" / name[:2] / name

    def _entry_file(self, number: int) -> Path:
        return self.folder / "entries" / f"{number:06}.json"

    def _numbers(self) -> list[int]:
        try:
            names = os.listdir(self.folder / "entries")  # noqa: PTH208  names are enough
        except FileNotFoundError:
            return []
        return sorted(int(name[:-5]) for name in names if name[:-5].isdigit())

    def _load(self, number: int) -> Iterator[UndoEntry]:
        """Yield an entry, unless it was dropped or is damaged."""
        if number not in self._read:
            with suppress(OSError, ValueError, TypeError, KeyError):
                text = self._entry_file(number).read_bytes()
                self._read[number] = _from_json(json.loads(text))
        if number in self._read:
            yield self._read[number]

    def _sweep(self) -> None:
        """Remove unneeded contents. Above the limit, drop the oldest entries first."""
        stored = {
            file.name: file for file in (self.folder / "objects").glob("*/*") if file.is_file()
        }
        sizes = {name: file.stat().st_size for name, file in stored.items()}
        trees = [self.folder / "index.json", *(self.folder / "open").glob("*")]
        needed = {name for file in trees for name in _find_digests(file)}
        for number in reversed(self._numbers()):
            names = needed | {*_find_digests(self._entry_file(number))}
            if sum(sizes.get(name, 0) for name in names) > self._max_bytes:
                self.drop(number)
            else:
                needed = names
        for name in stored.keys() - needed:
            stored[name].unlink()
        self._written = 0


def _state_of(data: bytes | None) -> FileState | None:
    return None if data is None else FileState("file", None, digest(data).hex())


def _find_digests(file: Path) -> Iterator[str]:
    with suppress(FileNotFoundError):
        yield from (name.decode() for name in _DIGEST.findall(file.read_bytes()))


def _to_json(entry: UndoEntry) -> dict[str, Any]:
    return {
        "number": entry.number,
        "call_id": entry.call_id,
        "when": entry.when,
        "changes": entry.changes,
        "command": entry.command,
        "not_kept": entry.not_kept,
    }


def _from_json(value: dict[str, Any]) -> UndoEntry:
    return UndoEntry(
        number=value["number"],
        call_id=value["call_id"],
        when=value["when"],
        changes=tuple(
            ChangedPath(path, before and FileState(*before), after and FileState(*after))
            for path, before, after in value["changes"]
        ),
        command=value["command"],
        not_kept=tuple(value["not_kept"]),
    )
