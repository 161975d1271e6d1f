"""Changing one file: under a lock, all or nothing, and never over what somebody else just wrote."""

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
from handrail.tools._beneath import exchange
from handrail.tools._names import creatable
from handrail.tools._seen import digest
from handrail.tools._undo import Changed
from handrail.tools._workspace import Workspace

MOST_BYTES = 64 * 1024 * 1024
"""The largest file that is changed; it is held in memory meanwhile."""
_PATIENCE = 10.0
"""Seconds to wait for somebody who changes a file in the same folder."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CANNOT = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
"""A file system, or a kernel, that does not exchange files: what comes at that moment is lost."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Change:
    """One file, locked: what it holds now, and the way to give it another content."""

    def __init__(self, workspace: Workspace, real: str, folder: int) -> None:
        self.real = real
        self._name = real.rpartition("/")[2]
        self._workspace = workspace
        self._folder = folder
        self._mode: os.stat_result | None = None
        self.before: bytes | None = self._content()

    def write(self, data: bytes, call_id: str = "") -> None:
        """Give the file this content; whoever looks sees the old one or the new one, whole.

        With a call's id, it is kept how to undo it.
        """
        scratch = f".handrail-{secrets.token_hex(8)}.tmp"
        fd = os.open(scratch, _NEW, 0o600, dir_fd=self._folder)
        try:
            _fill(fd, data, self._mode)
            self._put(scratch)
        finally:
            os.close(fd)
            with suppress(FileNotFoundError):
                os.unlink(scratch, dir_fd=self._folder)
        self._workspace.seen.note(self.real, data)
        if call_id:
            kept = Changed(self.real, self.before, digest(data))
            self._workspace.changes.put(call_id, kept)

    def remove(self) -> None:
        """Take the file away."""
        os.unlink(self._name, dir_fd=self._folder)

    def _put(self, scratch: str) -> None:
        """Give the file its name, and see that no other content than the one looked at is lost.

        Whoever asks for no lock, such as an editor, may have written meanwhile.
        """
        if self._content() != self.before:
            raise _changed(self.real)
        if self.before is None:
            self._link(scratch)
        else:
            self._swap(scratch)

    def _swap(self, scratch: str) -> None:
        """Change places with the old file, and look at what came out.

        If that is not what was there at the beginning, somebody was quicker, and theirs goes back.
        """
        mine = self._inode(scratch)
        try:
            exchange(self._folder, scratch, self._name)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            os.rename(scratch, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            return
        if self._came_out(scratch) != self.before:
            self._give_back(scratch, mine)
            raise _changed(self.real)

    def _came_out(self, scratch: str) -> bytes | None:
        try:
            return self._content(scratch)
        except (OSError, ToolFailed):  # a link, a folder, something large: not what was there
            return None

    def _give_back(self, scratch: str, mine: int) -> None:
        """Put back what came out, until what comes out is what was last put in."""
        inside = mine
        while True:
            outside = self._inode(scratch)
            try:
                exchange(self._folder, scratch, self._name)
            except FileNotFoundError:  # and then it was removed: theirs is the last one
                os.rename(scratch, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
                return
            if self._inode(scratch) == inside:
                return
            inside = outside

    def _inode(self, name: str) -> int:
        return os.stat(name, dir_fd=self._folder, follow_symlinks=False).st_ino

    def _link(self, scratch: str) -> None:
        """A link is made only where no file is: one that came meanwhile is not overwritten."""
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
                raise ToolFailed(f"{self.real!r} is a folder, or no ordinary file.")
            if about.st_size > MOST_BYTES:
                raise ToolFailed(
                    f"{self.real!r} is too large to be changed at once ({about.st_size:,} bytes). "
                    "Use a command for that."
                )
            self._mode = about
            with open(fd, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(fd)


@contextmanager
def changing(
    workspace: Workspace, path: str, context: Context | None = None, *, create: bool = False
) -> Generator[Change]:
    """A file that is about to be changed; with ``create`` it, and its folders, need not be there.

    Raises Refused where the path leaves the workspace or is not what the call was judged by.
    """
    spelled = workspace.inside(path)
    with ExitStack() as stack:
        try:
            real, missing = _target(workspace, spelled, create=create)
            workspace.held(WRITE, real, path, context)
            folder = _folder(workspace, real, missing, stack)
            _lock(folder)
            yield Change(workspace, real, folder)
        except OSError as error:
            raise workspace.explained(error, path) from None


def _changed(real: str) -> ToolFailed:
    return ToolFailed(f"{real!r} changed at this moment. Read it, then try again.")


def undo(workspace: Workspace, call_id: str) -> str:
    """Give the file that a call changed its earlier content, and say which file that was.

    Raises ToolFailed where nothing is kept of that call, or the file has changed since.
    """
    kept = workspace.changes.get(call_id)
    if kept is None:
        known = ", ".join(workspace.changes.ids()[-5:]) or "none"
        raise ToolFailed(f"Nothing is kept of a change by {call_id!r}. Kept are: {known}.")
    with changing(workspace, kept.real) as change:
        if change.before is None or digest(change.before) != kept.after:
            raise ToolFailed(f"{kept.real!r} has changed since {call_id!r}. Nothing was undone.")
        if kept.before is None:
            change.remove()
        else:
            change.write(kept.before)
    workspace.changes.drop(call_id)
    return kept.real


def _target(workspace: Workspace, spelled: str, *, create: bool) -> tuple[str, int]:
    """Where the file is, or is to be; and how many names of its path are missing."""
    real, missing = workspace.resolved(spelled)
    if not real:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), spelled)
    if not missing:
        return real, 0
    if not create:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), spelled)
    creatable("/".join(missing))
    return real, len(missing)


def _folder(workspace: Workspace, real: str, missing: int, stack: ExitStack) -> int:
    """The folder of a file, open; folders that are missing are made, one beneath the other."""
    steps = real.split("/")
    there = len(steps) - max(missing, 1)
    above = "/".join(steps[:there])
    with workspace.folder(above or ".") as found:
        if found.real != above:
            raise Refused(f"{above!r} was replaced by a link just now. Look again.")
        fd = os.dup(found.fd)
    stack.callback(os.close, fd)
    for step in steps[there:-1]:
        with suppress(FileExistsError):
            os.mkdir(step, dir_fd=fd)
        fd = os.open(step, _FOLDER, dir_fd=fd)
        stack.callback(os.close, fd)
    return fd


def _lock(folder: int) -> None:
    """Wait for the others, of this process and of any, who change a file in the same folder."""
    last = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > last:
                raise Transient("Somebody else is changing files in the same folder.") from None
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
    os.fsync(fd)


def _umask() -> int:
    """What new files are not allowed; asking for it by setting it would disturb other threads."""
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    return next(int(line[6:], 8) for line in lines if line.startswith("Umask:"))
