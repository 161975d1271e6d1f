"""A ledger on disk: each approval can be used once, across processes."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from anyio import to_thread

from handrail import HandrailError
from handrail._support.private_files import make_private_folder

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAX_CLAIMANT_BYTES = 1024
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


class FileLedger:
    """Records which approvals were used, and which calls ended, as files in a directory.

    The directory is created if it does not exist. Only you must be able to write to it, or another
    user could make a used approval valid again. This is checked at every use.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory)
        make_private_folder(self._directory)
        with self._open_directory():
            pass

    async def claim(self, name: str, by: str, /) -> bool:
        """Record on disk that an approval is used. Returns False if another run has used it."""
        return await to_thread.run_sync(self._claim, _name("claim", name), _digest(by))

    async def end(self, call_key: str, /) -> None:
        """Record on disk that a pending call has its result."""
        await to_thread.run_sync(self._create, _name("end", call_key), b"")

    async def ended(self, call_key: str, /) -> bool:
        """Return whether a pending call has its result."""
        return await to_thread.run_sync(self._exists, _name("end", call_key))

    def _claim(self, name: str, claimant: str) -> bool:
        return self._create(name, claimant.encode()) or self._content(name) == claimant.encode()

    def _create(self, name: str, content: bytes) -> bool:
        """Create a file together with its content. Returns False if it already exists."""
        with self._open_directory() as directory:
            draft = f".{secrets.token_hex(16)}"
            file = os.open(draft, _CREATE, 0o600, dir_fd=directory)
            try:
                os.write(file, content)
                os.fsync(file)
                os.link(draft, name, src_dir_fd=directory, dst_dir_fd=directory)
            except FileExistsError:
                return False
            finally:
                os.close(file)
                os.unlink(draft, dir_fd=directory)
            os.fsync(directory)
        return True

    def _content(self, name: str) -> bytes:
        with self._open_directory() as directory:
            try:
                file = os.open(name, _READ, dir_fd=directory)
            except OSError:  # not a file written by this class, such as a link
                return b""
            try:
                return os.read(file, _MAX_CLAIMANT_BYTES)
            finally:
                os.close(file)

    def _exists(self, name: str) -> bool:
        with self._open_directory() as directory:
            try:
                os.stat(name, dir_fd=directory, follow_symlinks=False)
            except FileNotFoundError:
                return False
        return True

    @contextmanager
    def _open_directory(self) -> Generator[int]:
        """Open the directory, then check it: the path may change in between."""
        try:
            directory = os.open(self._directory, _OPEN)
        except NotADirectoryError:
            raise HandrailError(
                f"{self._directory} is a link, or not a directory. Use a private directory."
            ) from None
        try:
            about = os.fstat(directory)
            if about.st_uid != os.geteuid() or about.st_mode & _OTHERS_MAY_WRITE:
                raise HandrailError(
                    f"Other users can write to {self._directory}, so they could make a used "
                    "approval valid again. Use a directory that you own, with mode 0700."
                )
            yield directory
        finally:
            os.close(directory)


def _name(space: str, key: str) -> str:
    """Return a file name for any key. Each space has different names."""
    return _digest(f"{space} {key}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
