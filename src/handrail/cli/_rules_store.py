"""Files of the user's own, changed by a program: at once, and with nobody else in between."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


def private_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing; nobody else may look into any of them.

    ``Path.mkdir`` lets others write to those above, where a user's mask does.
    """
    if not folder.is_dir():
        private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def locked(file: Path) -> Generator[None]:
    """Nobody else changes a file meanwhile; answers that are remembered take the same lock."""
    private_folder(file.parent)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(file.with_name(f".{file.name}.lock"), flags, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def replaced(file: Path, content: bytes) -> None:
    """Put other content in place of a file at once. Who may read it stays as it was."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    made = Path(name)
    try:
        with os.fdopen(handle, "wb") as written:
            written.write(content)
            written.flush()
            os.fsync(handle)
        if file.exists():
            made.chmod(file.stat().st_mode & 0o777)
        made.replace(file)
    except BaseException:
        made.unlink(missing_ok=True)
        raise
