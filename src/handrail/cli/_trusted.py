"""What of a workspace its user has looked at: the question that everything read from there asks."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from handrail.policy import Places, Trust, digest

if TYPE_CHECKING:
    from handrail.agent import Trusted  # all of the agent and the executor, for a shape

MOST_BYTES = 1 << 20


def trusts(workspace: Path) -> Trusted:
    """Whether this content of this path, relative to the workspace, is trusted now.

    The file of trust is read each time: what is taken back counts no more from then on.
    """
    kept = trust_of(workspace)
    return lambda path, content: kept.has(workspace / path, digest(content))


def trust_of(workspace: Path) -> Trust:
    """The trust that a user has given."""
    file = Places.of(workspace).trust
    assert file is not None  # noqa: S101  the usual places have one
    return Trust(file)


def content_of(path: Path) -> bytes:
    """A file that comes from anybody, read once: no link is followed, no pipe waited for.

    Raises OSError, with words in ``strerror``.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ELOOP:  # in words that say what is wrong
            raise OSError(errno.ELOOP, "it is a link, and links are not followed") from None
        raise
    content = bytearray()
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        while len(content) <= MOST_BYTES and (piece := os.read(handle, MOST_BYTES)):
            content += piece
    finally:
        os.close(handle)
    if len(content) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MOST_BYTES} bytes")
    return bytes(content)
