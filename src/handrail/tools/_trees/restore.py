"""Undoes a call's changes: restores each path, unless it has changed since."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile

from handrail import ToolFailed
from handrail.tools._files.replace import LockedFile, lock_folder
from handrail.tools._files.undo import ChangedPath, FileState, UndoEntry, UndoLog
from handrail.tools._files.workspace import Workspace
from handrail.tools._trees.kept import KeptTrees
from handrail.tools._trees.states import parent_of, read_state
from handrail.tools._trees.survey import CACHES, describe_error

_CHANGED_SINCE = "has changed since"
_MAX_NAMED = 5
"""Paths and calls a message names."""
_NAMES = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class UndoReport:
    """An undo's result."""

    entry: UndoEntry
    """The change that was undone."""
    restored: tuple[str, ...]
    """The paths that are as before the call again."""
    deleted: tuple[str, ...]
    """The paths that did not exist before the call."""
    left: Mapping[str, str]
    """The paths that were not restored, each with the reason."""


def list_changes(workspace: Workspace) -> tuple[UndoEntry, ...]:
    """Return the undoable changes, oldest first."""
    KeptTrees(workspace).record_interrupted()
    return workspace.changes.entries()


def undo(workspace: Workspace, which: str | int | None = None) -> UndoReport:
    """Undo a call's changes: by its id, by the number of the change, or the latest change.

    A command that only changed caches is not a separate change: it is undone together with the
    change before. Of a command, a path that has changed since stays, and the report names it. Of
    a file tool, all files are restored or none.

    Raises:
        ToolFailed: The change is not kept, or was not undone.
    """
    KeptTrees(workspace).record_interrupted()
    entries = _find_entries(workspace.changes, which)
    parts = [_Restoring(workspace).run(entry) for entry in entries]
    entry, last = entries[-1], parts[-1]
    if last.left and not last.done:
        raise ToolFailed(_describe_failure(entry.call_id, last.left))
    done = {path for part in parts for path in part.done}
    left = {path: reason for part in parts for path, reason in part.left.items()}
    changes = (change for one in entries for change in one.changes)
    created = {change.path for change in changes if change.before is None}
    return UndoReport(
        entry,
        restored=tuple(sorted(done - created)),
        deleted=tuple(sorted(done & created)),
        left=dict(sorted(left.items())),
    )


def _find_entries(log: UndoLog, which: str | int | None) -> list[UndoEntry]:
    """Return the entries to undo, in this order."""
    if which is not None:
        found = log.find(which)
        if found is not None:
            return [found]
        if isinstance(which, int):
            raise ToolFailed(f"Not undone: no change with the number {which} is kept.")
        known = ", ".join(entry.call_id for entry in log.entries()[-_MAX_NAMED:]) or "none"
        raise ToolFailed(f"Not undone: no change by {which!r} is kept. Kept: {known}.")
    latest = log.entries()[::-1]
    if not latest:
        raise ToolFailed("Not undone: no change is kept.")
    caches = list(takewhile(_changes_only_caches, latest))
    return list(latest[: len(caches) + 1]) if len(caches) < len(latest) else [latest[0]]


def _changes_only_caches(entry: UndoEntry) -> bool:
    """Return whether an entry has only changes programs make on their own."""
    return all(
        change.path == ".git/index" or not CACHES.isdisjoint(change.path.split("/"))
        for change in entry.changes
    )


def _describe_failure(call_id: str, left: Mapping[str, str]) -> str:
    path, reason = next(iter(left.items()))
    reason = (
        f"{reason} {call_id!r}" if reason == _CHANGED_SINCE else f"cannot be restored: {reason}"
    )
    more = f", and {len(left) - 1} more" if len(left) > 1 else ""
    return f"Not undone: {path!r} {reason}{more}."


@dataclass(slots=True)
class _Restoring:
    """Restores paths: first deletes what the call created, then creates what it deleted."""

    workspace: Workspace
    done: set[str] = field(default_factory=set[str])
    left: dict[str, str] = field(default_factory=dict[str, str])

    def run(self, entry: UndoEntry) -> _Restoring:
        """Restore every path that has not changed since, and forget the entry."""
        todo = [change for change in entry.changes if self._is_to_do(change)]
        if not self.left or entry.command:
            self._restore(todo)
        if self.done or not self.left:
            self.workspace.changes.drop(entry.number)
        return self

    def _restore(self, todo: Sequence[ChangedPath]) -> None:
        replaced = [change for change in todo if _is_replaced(change)]
        folders = [change for change in todo if _kind(change.before) == "folder"]
        self._each(self._open_folder, (one for one in folders if _kind(one.after) == "folder"))
        self._each(self._remove, reversed(replaced))
        self._each(self._create, todo)
        self._each(self._set_mode, reversed(folders))
        self.done = {change.path for change in todo} - self.left.keys()

    def _each(self, do: Callable[[ChangedPath], object], changes: Iterable[ChangedPath]) -> None:
        for change in changes:
            if change.path not in self.left:
                self._attempt(do, change)

    def _attempt(self, do: Callable[[ChangedPath], object], change: ChangedPath) -> None:
        try:
            do(change)
        except (ToolFailed, FileExistsError):
            self.left[change.path] = _CHANGED_SINCE
        except OSError as error:
            self.left[change.path] = describe_error(error)

    def _is_to_do(self, change: ChangedPath) -> bool:
        """Return whether a path is to be restored, and can be."""
        try:
            now = read_state(self.workspace, change.path, like=change.after)
        except OSError as error:
            self.left[change.path] = describe_error(error)
            return False
        if _is_same(now, change.before):
            return False
        if not _is_same(now, change.after):
            self.left[change.path] = _CHANGED_SINCE
        elif _kind(change.before) == "other":
            self.left[change.path] = "pipes, sockets and devices are not kept"
        return change.path not in self.left

    def _check(self, path: str, state: FileState | None) -> None:
        """Check again, under the lock, what is at a path."""
        if not _is_same(read_state(self.workspace, path, like=state), state):
            raise FileExistsError

    @contextmanager
    def _locked(self, path: str) -> Generator[tuple[int, str]]:
        with parent_of(self.workspace, path, readable=True) as (folder, name):
            lock_folder(folder)
            yield folder, name

    def _open_folder(self, change: ChangedPath) -> None:
        """Let the owner of a folder change its entries, until its mode is restored."""
        self._chmod(change.path, 0o700)

    def _remove(self, change: ChangedPath) -> None:
        with self._locked(change.path) as (folder, name):
            self._check(change.path, change.after)
            remove = os.rmdir if _kind(change.after) == "folder" else os.unlink
            remove(name, dir_fd=folder)

    def _create(self, change: ChangedPath) -> None:
        """Create or change what was there before."""
        before = change.before
        if before is None or _kind(change.after) == _kind(before) == "folder":
            return
        if before.kind == "file":
            self._write(change, before)
            return
        with self._locked(change.path) as (folder, name):
            if before.kind == "folder":
                os.mkdir(name, 0o700, dir_fd=folder)
            else:
                os.symlink(before.content, name, dir_fd=folder)

    def _write(self, change: ChangedPath, before: FileState) -> None:
        data = self.workspace.changes.content(before.content)
        if data is None:
            raise OSError(0, "Its content is no longer kept")
        with self._locked(change.path) as (folder, _):
            self._check(change.path, None if _is_replaced(change) else change.after)
            file = LockedFile(self.workspace, change.path, folder)
            if file.before != data:
                file.restore(data)
        self._set_mode(change)

    def _set_mode(self, change: ChangedPath) -> None:
        mode = change.before.mode if change.before else None
        if mode is not None:
            self._chmod(change.path, mode)

    def _chmod(self, path: str, mode: int) -> None:
        with parent_of(self.workspace, path) as (folder, name):
            fd = os.open(name, _NAMES, dir_fd=folder)
            try:
                os.chmod(f"/proc/self/fd/{fd}", mode)  # noqa: PTH101  it must not follow a link
            finally:
                os.close(fd)


def _kind(state: FileState | None) -> str:
    return "" if state is None else state.kind


def _is_replaced(change: ChangedPath) -> bool:
    """Return whether what the call left has to be removed first."""
    return change.after is not None and (
        _kind(change.before) != change.after.kind or change.after.kind == "link"
    )


def _is_same(now: FileState | None, then: FileState | None) -> bool:
    if now is None or then is None:
        return now is then
    modes = (now.mode, then.mode)
    return (now.kind, now.content) == (then.kind, then.content) and (
        None in modes or modes[0] == modes[1]
    )
