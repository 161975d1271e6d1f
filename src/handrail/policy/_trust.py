"""Trust: which rule files of workspaces a user has looked at, by their exact content."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from handrail.policy._errors import Unusable
from handrail.policy._shapes import is_table

MOST_BYTES = 1 << 20


def digest(content: bytes) -> str:
    """What trust is bound to."""
    return hashlib.sha256(content).hexdigest()


class Trust:
    """The trust that a user has given, kept in a file of theirs."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def has(self, rules: Path, content_digest: str) -> bool:
        """Whether this content of this very file is trusted."""
        return self._all().get(_key(rules)) == content_digest

    def grant(self, rules: Path, content_digest: str) -> None:
        """Trust this content of a file from here on. Only ever on a user's word."""
        with locked(self._file):
            self._keep({**self._mine(), _key(rules): content_digest})

    def revoke(self, rules: Path) -> None:
        """Trust a file no longer."""
        with locked(self._file):
            self._keep({name: one for name, one in self._mine().items() if name != _key(rules)})

    @property
    def trouble(self) -> str:
        """Why nothing in the file counts, and nothing is written to it; empty where all is well."""
        try:
            self._mine()
        except Unusable as error:
            return str(error)
        return ""

    def _all(self) -> dict[str, Any]:
        """By path; nothing, where the file is not as it should be: then nothing is trusted."""
        try:
            return self._mine()
        except Unusable:
            return {}

    def _mine(self) -> dict[str, Any]:
        """By path. What cannot be read, or may be another's, is not for us to write over."""
        try:
            content, others_may_write = read_securely(self._file)
            kept: Any = json.loads(content)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise Unusable(f"{self._file} cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError):
            kept, others_may_write = None, False
        if not is_table(kept):
            raise Unusable(f"{self._file} is damaged: it holds no JSON object")
        if others_may_write:
            raise Unusable(f"others may write to {self._file}: make it yours alone first")
        return kept

    def _keep(self, trusted: dict[str, Any]) -> None:
        replaced(self._file, json.dumps(trusted, indent=1, sort_keys=True))


def read_securely(path: Path) -> tuple[bytes, bool]:
    """A file's bytes, and whether others may write to it or to its folder. Never through a link."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ELOOP:  # in words that say what is wrong
            raise OSError(errno.ELOOP, "it is a link, and links are not followed") from None
        raise
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        if about.st_size > MOST_BYTES:
            raise OSError(errno.EFBIG, f"it has more than {MOST_BYTES} bytes")
        content = os.read(handle, MOST_BYTES)
    finally:
        os.close(handle)
    return content, any(
        one.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or one.st_uid not in (0, os.geteuid())
        for one in (about, path.parent.stat())
    )


@contextmanager
def locked(file: Path) -> Generator[None]:
    """Nobody else changes a file meanwhile, in this process or another."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(file.with_name(f".{file.name}.lock"), flags, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def replaced(file: Path, text: str) -> None:
    """Put a text in place of a file at once; nobody else may read or write it."""
    import tempfile  # noqa: PLC0415  needed by those who write

    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as made:
            made.write(text)
            made.flush()
            os.fsync(handle)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _key(rules: Path) -> str:
    """Where a file really is: a folder that is reached by another way has no trust of its own."""
    return str(rules.parent.resolve() / rules.name)
