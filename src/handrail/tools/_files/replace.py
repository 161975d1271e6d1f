"""Changes one file: under a lock, atomically, and never over a concurrent change."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from handrail import WRITE, Context, Refused, ToolFailed, Transient
from handrail.tools._files.openat import exchange
from handrail.tools._files.paths import check_creatable
from handrail.tools._files.undo import FileEdit
from handrail.tools._files.workspace import Workspace

_MAX_FILE_BYTES = 64 * 1024 * 1024
"""The largest file changed; it is held in memory."""
_MAX_LOCK_SECONDS = 10.0
"""Seconds to wait for another process changing a file in the same folder."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CANNOT = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
"""The file system or kernel cannot swap files: a change made at that moment is lost."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class LockedFile:
    """A locked file: its current content, and a method to replace it."""

    def __init__(self, workspace: Workspace, real: str, folder: int) -> None:
        self.real = real
        self._name = real.rpartition("/")[2]
        self._workspace = workspace
        self._folder = folder
        self._mode: os.stat_result | None = None
        self.before: bytes | None = self._content()

    def write(self, data: bytes, call_id: str = "") -> None:
        """Replace the content atomically: readers see the old content or the new one.

        With a call's id, the change can be undone.
        """
        self._replace(data, sync=True)
        self._workspace.seen.note(self.real, data)
        self._workspace.shown.note_written(self.real, data)
        if call_id:
            edit = FileEdit(self.real, self.before, data)
            self._workspace.changes.put_edits(call_id, [edit])

    def restore(self, data: bytes) -> None:
        """Write an earlier content. Not synced to disk at once: there may be thousands."""
        self._replace(data, sync=False)
        if self._workspace.seen.knows(self.real):
            self._workspace.seen.note(self.real, data)

    def _replace(self, data: bytes, *, sync: bool) -> None:
        scratch = f".handrail-{secrets.token_hex(8)}.tmp"
        fd = os.open(scratch, _NEW, 0o600, dir_fd=self._folder)
        try:
            _fill(fd, data, self._mode)
            if sync:
                os.fsync(fd)
            self._put(scratch)
        finally:
            os.close(fd)
            with suppress(FileNotFoundError):
                os.unlink(scratch, dir_fd=self._folder)

    def remove(self) -> None:
        """Delete the file."""
        os.unlink(self._name, dir_fd=self._folder)
        self._workspace.shown.note_written(self.real, None)

    def _put(self, scratch: str) -> None:
        """Move the new content into place without losing a concurrent change.

        A program without a lock, such as an editor, may have written in the meantime.
        """
        if self._content() != self.before:
            raise _conflict(self.real)
        if self.before is None:
            self._link(scratch)
        else:
            self._swap(scratch)

    def _swap(self, scratch: str) -> None:
        """Swap with the old file, and check the content that came out.

        If this change started from other content, another program was faster, and its
        content is restored.
        """
        mine = self._inode(scratch)
        try:
            exchange(self._folder, scratch, self._name)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            os.rename(scratch, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            return
        if self._read_scratch(scratch) != self.before:
            self._restore(scratch, mine)
            raise _conflict(self.real)

    def _read_scratch(self, scratch: str) -> bytes | None:
        try:
            return self._content(scratch)
        except (OSError, ToolFailed):  # a link, a folder or a large file: it was replaced
            return None

    def _restore(self, scratch: str, mine: int) -> None:
        """Swap back, and repeat until the swap returns the file put in last."""
        inside = mine
        while True:
            outside = self._inode(scratch)
            try:
                exchange(self._folder, scratch, self._name)
            except FileNotFoundError:  # it was removed since: the other program's content is last
                os.rename(scratch, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
                return
            if self._inode(scratch) == inside:
                return
            inside = outside

    def _inode(self, name: str) -> int:
        return os.stat(name, dir_fd=self._folder, follow_symlinks=False).st_ino

    def _link(self, scratch: str) -> None:
        """Link a new file into place; this fails if another program created it first."""
        try:
            os.link(scratch, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except PermissionError:  # a file system without links: claim the name, then fill it
            os.close(os.open(self._name, _NEW, 0o600, dir_fd=self._folder))
            os.rename(scratch, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def _content(self, name: str = "") -> bytes | None:
        try:
            fd = os.open(name or self._name, _FILE, dir_fd=self._folder)
        except FileNotFoundError:
            return None
        try:
            about = os.fstat(fd)
            if not stat.S_ISREG(about.st_mode):
                kind = "a folder" if stat.S_ISDIR(about.st_mode) else "not a regular file"
                raise ToolFailed(f"{self.real!r} is {kind}.")
            if about.st_size > _MAX_FILE_BYTES:
                size = f"{about.st_size:,} bytes"
                raise ToolFailed(f"{self.real!r} is too large to change ({size}). Use a command.")
            self._mode = about
            with open(fd, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(fd)


@contextmanager
def open_for_change(
    workspace: Workspace, path: str, context: Context | None = None, *, create: bool = False
) -> Generator[LockedFile]:
    """Lock a file before changing it; with ``create`` it need not exist, nor its folders.

    Raises Refused if the path leaves the workspace or the call was not checked for this file.
    """
    spelled = workspace.inside(path)
    with ExitStack() as stack:
        try:
            real, missing = _find_target(workspace, spelled, create=create)
            workspace.check_target(WRITE, real, path, context)
            folder = _open_folder(workspace, real, missing, stack)
            lock_folder(folder)
            yield LockedFile(workspace, real, folder)
        except OSError as error:
            raise workspace.explain_error(error, path) from None


def peek(workspace: Workspace, path: str, *, create: bool = False) -> tuple[str, bytes | None]:
    """Return the file ``open_for_change`` would change, and its content; change nothing.

    The content is None for a missing file. Raises as ``open_for_change`` does.
    """
    spelled = workspace.inside(path)
    with ExitStack() as stack:
        try:
            real, missing = _find_target(workspace, spelled, create=create)
            if missing:
                return real, None
            return real, LockedFile(workspace, real, _open_folder(workspace, real, 0, stack)).before
        except OSError as error:
            raise workspace.explain_error(error, path) from None


def _conflict(real: str) -> ToolFailed:
    return ToolFailed(f"Not written: {real!r} changed at this moment. Read it, then retry.")


def _find_target(workspace: Workspace, spelled: str, *, create: bool) -> tuple[str, int]:
    """Return a file's real path, and how many names in it are missing."""
    real, missing = workspace.resolve(spelled)
    if not real:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), spelled)
    if not missing:
        return real, 0
    if not create:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), spelled)
    check_creatable("/".join(missing))
    return real, len(missing)


def _open_folder(workspace: Workspace, real: str, missing: int, stack: ExitStack) -> int:
    """Open a file's folder; missing folders are created."""
    steps = real.split("/")
    existing = len(steps) - max(missing, 1)
    above = "/".join(steps[:existing])
    with workspace.folder(above or ".") as found:
        if found.real != above:
            raise Refused(f"Not written: {above!r} was replaced by a link in the meantime.")
        fd = os.dup(found.fd)
    stack.callback(os.close, fd)
    for step in steps[existing:-1]:
        with suppress(FileExistsError):
            os.mkdir(step, dir_fd=fd)
        fd = os.open(step, _FOLDER, dir_fd=fd)
        stack.callback(os.close, fd)
    return fd


def lock_folder(folder: int) -> None:
    """Wait until no other thread or process changes a file in the same folder."""
    deadline = time.monotonic() + _MAX_LOCK_SECONDS
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise Transient("Another program is changing files in the same folder.") from None
            time.sleep(0.002)
        else:
            return


def _fill(fd: int, data: bytes, like: os.stat_result | None) -> None:
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    if like is None:
        os.fchmod(fd, 0o666 & ~_umask())
    else:
        if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
            with suppress(PermissionError):
                os.fchown(fd, like.st_uid, like.st_gid)
        os.fchmod(fd, stat.S_IMODE(like.st_mode) & 0o777)


def _umask() -> int:
    """Return the umask from /proc; os.umask would change it for other threads."""
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    return next(int(line[6:], 8) for line in lines if line.startswith("Umask:"))
