"""A ledger on disk: each answer counts once, whichever process asks."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from anyio import to_thread

from handrail import HandrailError

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


class FileLedger:
    """Remembers used answers as empty files, in a directory that is ours alone.

    The directory is made if it is not there. One that is not ours, or that others may write to,
    is refused, now and whenever it is used: there somebody could make a used answer unused.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory)
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._opened():
            pass

    async def claim(self, pending_id: str, /) -> bool:
        """Take this answer as used, on disk for good; False where it was used before."""
        return await to_thread.run_sync(self._claim, _name(pending_id))

    async def claimed(self, pending_id: str, /) -> bool:
        """Whether it was used."""
        return await to_thread.run_sync(self._claimed, _name(pending_id))

    def _claim(self, name: str) -> bool:
        with self._opened() as directory:
            try:
                file = os.open(name, _CREATE, 0o600, dir_fd=directory)
            except FileExistsError:
                return False
            try:
                os.fsync(file)
            finally:
                os.close(file)
            os.fsync(directory)
        return True

    def _claimed(self, name: str) -> bool:
        with self._opened() as directory:
            try:
                os.stat(name, dir_fd=directory, follow_symlinks=False)
            except FileNotFoundError:
                return False
        return True

    @contextmanager
    def _opened(self) -> Generator[int]:
        """The directory itself, looked at after it was opened: its name may be moved meanwhile."""
        try:
            directory = os.open(self._directory, _OPEN)
        except NotADirectoryError:
            raise HandrailError(f"{self._directory} is a link or no directory") from None
        try:
            found = os.fstat(directory)
            if found.st_uid != os.geteuid() or found.st_mode & _OTHERS_MAY_WRITE:
                raise HandrailError(
                    f"others may write to {self._directory}, and so could make a used answer "
                    "unused: take a directory of your own with mode 0700"
                )
            yield directory
        finally:
            os.close(directory)


def _name(pending_id: str) -> str:
    """A file name for any id, whatever is in it."""
    return hashlib.sha256(pending_id.encode("utf-8", "surrogatepass")).hexdigest()
