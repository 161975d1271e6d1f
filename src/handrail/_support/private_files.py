"""Read, lock and replace files only their owner should write."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from handrail._support.systems import (
    CLOSE_ON_EXEC,
    NO_FOLLOW,
    OTHERS_MAY_WRITE,
    READ,
    find_home,
    lock,
    others_can_write,
)

MAX_FILE_BYTES = 1 << 20
_LOCK = os.O_RDWR | os.O_CREAT | NO_FOLLOW | CLOSE_ON_EXEC
MAX_LOCK_SECONDS = 3.0
MAX_LOOP_SECONDS = 0.2
"""Seconds to wait for a lock in an event loop, where every other task waits too."""
_LOCKED = "another program holds this lock; stop it (`fuser -v` names it), or retry later"
_LINK = "it is a link, and links are not followed"


def read_file(path: Path) -> bytes:
    """Return a file's bytes. Any user may have created it.

    Follows no link and waits for no pipe. Raises OSError, with a reason in ``strerror``.
    """
    content, _ = _read(path)
    return content


def read_private_file(path: Path, *, follow: bool = False) -> tuple[bytes, bool]:
    """Return a file's bytes, and whether other users can write to it or to its folder.

    Reads like ``read_file``, but follows a link if ``follow`` is true.
    """
    content, about = _read(path, follow=follow)
    return content, others_can_write(about) or others_can_write(path.parent.stat())


def _read(path: Path, *, follow: bool = False) -> tuple[bytes, os.stat_result]:
    if not (follow or NO_FOLLOW) and path.is_symlink():
        raise OSError(errno.ELOOP, _LINK)
    try:
        handle = os.open(path, READ if follow else READ | NO_FOLLOW)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow:  # a clearer reason than the system's
            raise OSError(errno.ELOOP, _LINK) from None
        raise
    content = bytearray()
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        while len(content) <= MAX_FILE_BYTES and (piece := os.read(handle, MAX_FILE_BYTES)):
            content += piece
    finally:
        os.close(handle)
    if len(content) > MAX_FILE_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MAX_FILE_BYTES} bytes")
    return bytes(content), about


def make_private_folder(folder: Path) -> None:
    """Create a folder only its owner can read or write, with missing parents.

    ``Path.mkdir`` leaves the mode of the parents to the user's umask.
    """
    if not folder.is_dir():
        make_private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def hold_lock(file: Path, *, seconds: float = MAX_LOCK_SECONDS) -> Generator[None]:
    """Hold an exclusive lock for a file, against this process and others.

    Raises TimeoutError if another program keeps it longer than these seconds.
    """
    make_private_folder(file.parent)
    name = file.with_name(f".{file.name}.lock")
    handle = os.open(name, _LOCK, 0o600)
    try:
        take_lock(handle, str(name), seconds=seconds)
        yield
    finally:
        os.close(handle)


def take_lock(handle: int, name: str, *, seconds: float, shared: bool = False) -> None:
    """Lock an open file. Raises TimeoutError with its name if that takes longer."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            lock(handle, shared=shared)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError(errno.ETIMEDOUT, _LOCKED, name) from None
            time.sleep(0.002)
        else:
            return


def replace_file(file: Path, content: bytes) -> None:
    """Replace a file's content atomically. Only its owner can read or write the new file.

    A file writable by other users keeps its mode: their text must not pass for the owner's.
    """
    import tempfile  # needed only to write

    make_private_folder(file.parent)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "wb") as draft:
            draft.write(content)
            draft.flush()
            os.fsync(handle)
        if file.exists() and (mode := stat.S_IMODE(file.stat().st_mode)) & OTHERS_MAY_WRITE:
            Path(name).chmod(mode)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def find_runs_folder() -> Path:
    """Return the user's folder for saved runs. Raises as ``find_home`` does."""
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    above = given if given.is_absolute() else find_home() / ".local" / "state"
    return above / "handrail" / "runs"
