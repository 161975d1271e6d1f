"""Keeps a workspace's tree while a command runs, and records what the command changed.

The log's folder has an index of the tree as it was last kept. A file whose stamp is in the index is
not read again. While a command runs, ``open`` has a link to the index of that moment, so a
later process can record the changes if this one is killed.
"""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from handrail._support.git_settings import is_commondir_placeholder
from handrail._support.obeyed_names import OBEYED_NAMES
from handrail._support.own_files import is_run_database
from handrail._support.private_files import make_private_folder, replace_file
from handrail.tools._files.paths import is_beneath, quote_path
from handrail.tools._files.undo import ChangedPath, FileState
from handrail.tools._files.workspace import Workspace
from handrail.tools._trees.states import (
    LastFolder,
    Stamp,
    read_state,
    stamp_of,
)
from handrail.tools._trees.survey import (
    MAX_FILES,
    MAX_TREE_BYTES,
    Bounds,
    LeftOut,
    Survey,
    Surveyor,
    describe_error,
)

_CLOCK_OF_FILES = 5
"""CLOCK_REALTIME_COARSE: the clock of file timestamps, some milliseconds behind others."""
_AFTER = Bounds(files=MAX_FILES * 5, total_bytes=math.inf, file_bytes=math.inf)
"""A command may create more than is kept. These files are only listed."""
_MOUNT_POINTS = frozenset(row.name for row in OBEYED_NAMES if row.held == "always") | {
    ".git",
    ".git/config.worktree",
}
"""Names a sandbox creates and removes. To remove one, while a job runs, would open it."""
_COMMONDIR = re.compile(r"\.git/(modules/.+/)?commondir")
"""Files a sandbox creates and removes, with known content."""
_MAX_NAMED = 3
"""Entries named for one folder. If there are more, only their number is."""
_INTERRUPTED = "the command was interrupted: later changes by others are included"


class _Known(NamedTuple):
    """A path of the index."""

    stamp: Stamp | tuple[()]
    """Empty if the file changed so shortly before it was read that it may change unnoticed."""
    state: FileState


@dataclass(frozen=True, slots=True)
class KeptTree:
    """A workspace before a command."""

    known: Mapping[str, _Known]
    left_out: Mapping[str, str]
    too_large: Mapping[str, LeftOut]

    def to_json(self) -> bytes:
        """Return the tree as a file's content."""
        known = [(path, *one) for path, one in self.known.items()]
        value = {"known": known, "left_out": self.left_out, "too_large": self.too_large}
        return json.dumps(value).encode()

    @classmethod
    def from_json(cls, text: bytes) -> KeptTree:
        """Read a tree. Raises ValueError or TypeError."""
        value: dict[str, Any] = json.loads(text)
        known = {
            path: _Known(tuple(stamp), FileState(*state)) for path, stamp, state in value["known"]
        }
        too_large = {path: LeftOut(*one) for path, one in value["too_large"].items()}
        return cls(known, value["left_out"], too_large)


_NOTHING = KeptTree({}, {}, {})


class RunningCommand(NamedTuple):
    """A command whose changes are not recorded yet."""

    call_id: str
    command: str
    pid: int
    started: str
    """When its process started: a process with the same ID may be another one."""
    latest: int
    """The number of the latest entry when it started."""


class OpenCommand(NamedTuple):
    """A command that is running, and the tree before it."""

    about: RunningCommand
    name: str
    tree: KeptTree


class KeptTrees:  # not a git store, which loses inner repositories and has no limits: decision 046
    """Keeps the tree of one workspace before each command."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._log = workspace.changes
        self._tree = _NOTHING
        self._version: tuple[int, ...] = ()

    @property
    def _index(self) -> Path:
        return self._log.folder / "index.json"

    def find_left_out(self) -> Mapping[str, str]:
        """Return the paths that are not kept, with the reasons, as of the last command or now."""
        if self._tree is not _NOTHING:
            return self._tree.left_out
        try:
            with self._log.hold():
                self._load()
            bounds, too_large = Bounds(), self._tree.too_large
            return Surveyor(self._workspace, bounds, too_large=too_large).run().left_out
        except OSError as error:
            return {".": describe_error(error)}

    def begin(self, call_id: str, command: str) -> OpenCommand:
        """Keep the tree before a command. Raises OSError."""
        with self._log.hold():
            self._load()
            self._record_interrupted()
            self._keep()
            pid, latest = os.getpid(), self._log.find()
            number = latest.number if latest else 0
            about = RunningCommand(call_id, command, pid, _start_of(pid), number)
            opened = OpenCommand(about, secrets.token_hex(8), self._tree)
            self._write_open(opened)
        return opened

    def end(self, opened: OpenCommand) -> None:
        """Record what a command changed. Raises OSError."""
        with self._log.hold():
            self._record(opened)

    def record_interrupted(self) -> None:
        """Record the changes of commands whose process was killed."""
        with self._log.hold():
            self._load()
            self._record_interrupted()

    def _keep(self) -> None:
        """Read the files that changed since the tree was last kept."""
        now = time.clock_gettime_ns(_CLOCK_OF_FILES)
        survey = Surveyor(self._workspace, Bounds(), too_large=self._tree.too_large).run()
        known = dict(self._read_changed(survey, self._tree.known, now))
        tree = KeptTree(known, survey.left_out, survey.too_large)
        if tree != self._tree or not self._version:
            self._tree = tree
            replace_file(self._index, tree.to_json())
            self._version = _version_of(self._index)

    def _read_changed(
        self, survey: Survey, before: Mapping[str, _Known], now: int
    ) -> Iterator[tuple[str, _Known]]:
        with LastFolder(self._workspace) as folder:
            for path, about in survey.found.items():
                known, stamp = before.get(path), stamp_of(about)
                if known is not None and known.stamp == stamp:
                    yield path, known
                    continue
                try:
                    content = folder.read(path, about)
                except OSError as error:
                    survey.left_out[path] = describe_error(error)
                    continue
                if content.data is not None:
                    self._log.keep(content.data)
                sure = about.st_ctime_ns < now and content.state.kind != "folder"
                yield path, _Known(stamp if sure else (), content.state)

    def _record(self, opened: OpenCommand, *notes: str) -> None:
        about, tree = opened.about, opened.tree
        survey = Surveyor(
            self._workspace, _AFTER, too_large={}, skipped=tree.left_out, by_rank=False
        ).run()
        changes = sorted(self._compare(tree, survey))
        others = self._list_others(about.latest)
        changes = [one for one in changes if (one.path, _content(one.after)) not in others]
        if changes:
            not_kept = [*name_left_out({**survey.left_out, **tree.left_out}), *notes]
            self._log.put(about.call_id, changes, command=about.command, not_kept=not_kept)
        for file in self._open_files(opened.name):
            file.unlink(missing_ok=True)

    def _compare(self, tree: KeptTree, survey: Survey) -> Iterator[ChangedPath]:
        """Yield what differs from the tree before."""
        if "." in tree.left_out:
            return
        unread = MAX_TREE_BYTES
        with LastFolder(self._workspace) as folder:
            for path, about in survey.found.items():
                known = tree.known.get(path)
                if known is None or known.stamp != stamp_of(about):
                    content = folder.read_or_identify(path, about, unread)
                    unread -= len(content.data or b"")
                    before = known.state if known is not None else None
                    if content.state != before and not self._is_others(path):
                        yield ChangedPath(path, before, content.state)
        for path in tree.known.keys() - survey.found.keys():
            unseen = any(is_beneath(path, folder) for folder in survey.left_out)
            before = tree.known[path].state
            state = self._read_unseen(path, before) if unseen else None
            if state != before and not self._is_others(path):
                yield ChangedPath(path, before, state)

    def _is_others(self, path: str) -> bool:
        """Return whether the sandbox or saved runs change a path, not the command."""
        full = f"{self._workspace.root}/{path}"
        if _COMMONDIR.fullmatch(path):
            return not os.path.lexists(full) or is_commondir_placeholder(full)
        return path in _MOUNT_POINTS or is_run_database(full)

    def _read_unseen(self, path: str, before: FileState) -> FileState | None:
        """Return what is in a folder that was not listed; a path out of reach is unchanged."""
        try:
            return read_state(self._workspace, path)
        except OSError:
            return before

    def _list_others(self, latest: int) -> set[tuple[str, object]]:
        """Return what other calls recorded while a job was running: it is not the job's."""
        later = (entry for entry in self._log.entries() if entry.number > latest)
        return {(one.path, _content(one.after)) for entry in later for one in entry.changes}

    def _load(self) -> None:
        """Read the index if another process has replaced it."""
        version = _version_of(self._index)
        if version != self._version:
            self._tree, self._version = _NOTHING, version
            with suppress(OSError, ValueError, TypeError, KeyError):
                self._tree = KeptTree.from_json(self._index.read_bytes())

    def _open_files(self, name: str) -> tuple[Path, Path]:
        folder = self._log.folder / "open"
        return folder / f"{name}.json", folder / f"{name}.index"

    def _write_open(self, opened: OpenCommand) -> None:
        about, index = self._open_files(opened.name)
        make_private_folder(about.parent)
        index.hardlink_to(self._index)
        about.write_text(json.dumps(opened.about), encoding="ascii")

    def _record_interrupted(self) -> None:
        for file in sorted((self._log.folder / "open").glob("*.json")):
            about = RunningCommand(*json.loads(file.read_bytes()))
            if _start_of(about.pid) != about.started:
                tree = KeptTree.from_json(file.with_suffix(".index").read_bytes())
                self._record(OpenCommand(about, file.stem, tree), _INTERRUPTED)


def _content(state: FileState | None) -> object:
    return state and (state.kind, state.content)


def _version_of(file: Path) -> tuple[int, ...]:
    try:
        about = file.stat()
    except FileNotFoundError:
        return ()
    return about.st_ino, about.st_mtime_ns, about.st_size  # a link to it changes another time


def _start_of(pid: int) -> str:
    """Return when a process started; empty if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]


def name_left_out(left_out: Mapping[str, str]) -> list[str]:
    """Return paths with reasons. Folders that are too large come first: they matter most."""
    folders = Counter(path.rpartition("/")[0] for path in left_out)
    names = dict[str, None]()
    for path, reason in sorted(left_out.items(), key=lambda row: (not _is_limit(row[1]), row[0])):
        folder = path.rpartition("/")[0]
        several = folder and folders[folder] > _MAX_NAMED
        one, all_of_them = quote_path(path), f"{folders[folder]} entries of {quote_path(folder)}"
        names[all_of_them if several else f"{one} ({reason})"] = None
    return [*names]


def _is_limit(reason: str) -> bool:
    return reason.startswith("over ")
