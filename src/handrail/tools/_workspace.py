"""Workspace: the only code that turns a model's string into a file."""

from __future__ import annotations

import errno
import os
import re
import stat
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import NamedTuple

from handrail import READ, WRITE, Access, Context, Effect, Refused, ToolFailed
from handrail.tools._beneath import NAMES, Opener, best_opener
from handrail.tools._names import beneath, inside
from handrail.tools._seen import Seen
from handrail.tools._undo import Changes

_TRIES = 16
_MOST_NAMES = 5_000
_SCRATCH = re.compile(r"(?:^|/)\.handrail-[0-9a-f]{16}\.tmp$")
"""What a file is called for a moment while another takes its place."""
_OUT_THERE = (errno.EXDEV, errno.EAGAIN)


class Found(NamedTuple):
    """Something beneath the root, held open, so that it stays what it was found to be."""

    fd: int
    real: str
    """Its path relative to the root, links resolved; empty for the root itself."""
    stat: os.stat_result


class Workspace:
    """A directory that tools may touch. Every path that a model sends goes through here.

    ``hides`` tells, for a path relative to the root, whether searches must pass over it in
    silence; usually it asks the policy that judges reading it. A workspace remembers which
    content of a file was seen last, and how to undo what was changed.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        hides: Callable[[str], bool] | None = None,
        opener: Opener | None = None,
    ) -> None:
        spelled = os.path.abspath(root)  # noqa: PTH100  pathlib would fold nothing else
        self.root = os.path.realpath(spelled)
        self._spellings = (self.root, spelled)
        self._hides = hides
        self._open = opener or best_opener()
        self._fd = os.open(self.root, NAMES | os.O_DIRECTORY)
        weakref.finalize(self, os.close, self._fd)
        self.seen = Seen()
        self.changes = Changes()

    def __repr__(self) -> str:
        return f"Workspace({self.root!r})"

    def inside(self, path: str) -> str:
        """A model's string as a path relative to the root, as far as its spelling tells."""
        return inside(path, self._spellings)

    @property
    def tags(self) -> tuple[str, ...]:
        """For tools that search here: whether they pass over what the policy denies reading."""
        return () if self._hides is None else ("filtered",)

    def hidden(self, relative: str) -> bool:
        """Whether a search must not show this file, nor that it is there."""
        return self._hides is not None and self._hides(relative)

    def access(self, verb: Effect, path: str) -> tuple[Access, ...]:
        """What a call with this path will touch: the file by its spelling, and where links lead.

        It looks at names only, opens no file and never raises: a call that is no good says so
        when it runs.
        """
        return tuple(Access(verb, one) for one in self._resources(path))

    def change(self, path: str) -> tuple[Access, ...]:
        """What a call will touch that changes a file.

        It reads the file too, since its answer may show what is in it: one that is not to be read
        is not for such a call either.
        """
        resources = self._resources(path)
        return tuple(Access(verb, one) for verb in (READ, WRITE) for one in resources)

    def _resources(self, path: str) -> tuple[str, ...]:
        try:
            spelled = self.inside(path)
            real, _ = self.resolved(spelled)
        except (OSError, Refused, ToolFailed):
            return (f"file:{path}",)
        both = (Access(READ, f"file:{one}").resource for one in (spelled, real))
        return tuple(dict.fromkeys(both))

    def resolved(self, spelled: str) -> tuple[str, list[str]]:
        """Where a path leads, links resolved, and which names at its end are not there yet."""
        while True:
            fd, found, missing = self._nearest(spelled)
            try:
                if not missing or not self._came(fd, missing[0], spelled):
                    return "/".join([*filter(None, [found]), *missing]), missing
            finally:
                os.close(fd)

    @contextmanager
    def file(self, path: str, context: Context | None = None) -> Generator[Found]:
        """A regular file, open for reading.

        Raises Refused where the path leaves the workspace, or leads to another file than the one
        that the call was judged by; ToolFailed where there is no such file.
        """
        with self._place(path, context) as place:
            if stat.S_ISDIR(place.stat.st_mode):
                raise ToolFailed(f"{path!r} is a folder. Use glob to see what is in it.")
            if not stat.S_ISREG(place.stat.st_mode):
                raise ToolFailed(f"{path!r} is no ordinary file, but a device, pipe or socket.")
            with _reopened(place, os.O_RDONLY, path) as found:
                yield found

    @contextmanager
    def folder(self, path: str = ".", context: Context | None = None) -> Generator[Found]:
        """A folder, open. Raises as ``file`` does."""
        with self._place(path, context) as place:
            if not stat.S_ISDIR(place.stat.st_mode):
                raise ToolFailed(f"{path!r} is a file, no folder. Use read to see what is in it.")
            with _reopened(place, os.O_RDONLY | os.O_DIRECTORY, path) as found:
                yield found

    def held(self, verb: Effect, real: str, path: str, context: Context | None) -> None:
        """Hold a call to what it said: the file that it is about to touch is the one judged.

        A folder that was judged stands for no file below it: a link to it may lead on by now.
        """
        if context is None or not context.accesses:
            return
        meant = Access(verb, f"file:{real}").resource
        judged = (one.resource for one in context.accesses if one.verb >= verb)
        if not any(resource in ("*", meant) for resource in judged):
            raise Refused(
                f"{path!r} leads to another file than it did when the call was judged. Look at "
                "what changed, then call again."
            )

    def open(self, spelled: str) -> int:
        """A descriptor that names what is at a path; raises OSError."""
        return self._found(spelled)[0]

    def _found(self, spelled: str) -> tuple[int, str]:
        """What is at a path, open, and where that really is; raises OSError."""
        for _ in range(_TRIES):
            fd = self._open(self._fd, spelled)
            try:
                real = self._relative(fd)
            except Refused:
                there = os.fstat(fd).st_nlink
                os.close(fd)
                if there:
                    raise
                continue
            if os.fstat(fd).st_nlink and not _SCRATCH.search(real):
                return fd, real
            os.close(fd)  # replaced since it was opened, as happens when a file is saved
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), spelled)

    @contextmanager
    def _place(self, path: str, context: Context | None) -> Generator[Found]:
        spelled = self.inside(path)
        try:
            fd, real = self._found(spelled)
        except OSError as error:
            raise self.explained(error, path) from None
        try:
            self.held(READ, real, path, context)
            yield Found(fd, real, os.fstat(fd))
        finally:
            os.close(fd)

    def _relative(self, fd: int) -> str:
        real = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115  no path, but a descriptor
        if not beneath(real, self.root):
            raise Refused("That was moved out of the workspace. Look again before you go on.")
        return real[len(self.root) :].lstrip("/")

    def _nearest(self, spelled: str) -> tuple[int, str, list[str]]:
        """The deepest part of a path that is there, and the names that are missing below it."""
        steps, missing = spelled.split("/"), list[str]()
        while True:
            try:
                return *self._found("/".join(steps) or "."), missing
            except FileNotFoundError:
                if not steps or steps[-1] in ("", ".", ".."):
                    raise
                missing.insert(0, steps.pop())

    @staticmethod
    def _came(folder: int, name: str, spelled: str) -> bool:
        """Whether what was missing is there by now; a link that leads nowhere never will be."""
        try:
            about = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return False
        if stat.S_ISLNK(about.st_mode):
            raise Refused(f"{spelled!r} is, or passes, a link to something that is not there.")
        return True

    def explained(self, error: OSError, path: str) -> Refused | ToolFailed:
        """What went wrong with a path, in words for a model."""
        if error.errno in _OUT_THERE:
            return Refused(f"{path!r} is, or passes, a link that leads out of the workspace.")
        words = _WORDS.get(error.errno or 0, "cannot be opened or written")
        near = self._similar(path) if isinstance(error, FileNotFoundError) else ""
        return ToolFailed(f"{path!r} {words}.{near}")

    def _similar(self, path: str) -> str:
        """Names that come close, in the folder where it was looked for."""
        above, _, name = self.inside(path).rpartition("/")
        try:
            close = [one for one in get_close_matches(name, self._names(above), 3) if one != name]
        except (OSError, Refused):
            return " The folder that it would be in is not there either: use glob to find it."
        near = ", ".join(repr(one) for one in close)
        return f" Did you mean: {near}?" if close else " Use glob to find it."

    def _names(self, folder: str) -> list[str]:
        """What is in a folder and may be named, some thousands at most."""
        fd, real = self._found(folder or ".")
        try:
            names = os.listdir(f"/proc/self/fd/{fd}")[:_MOST_NAMES]  # noqa: PTH208  a descriptor
        finally:
            os.close(fd)
        return [one for one in names if not self.hidden(f"{real}/{one}".lstrip("/"))]


@contextmanager
def _reopened(place: Found, flags: int, path: str) -> Generator[Found]:
    """The same thing, opened to be used: what it is was looked at first, so that nothing hangs."""
    try:
        fd = os.open(f"/proc/self/fd/{place.fd}", flags | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        words = _WORDS.get(error.errno or 0, "cannot be opened or written")
        raise ToolFailed(f"{path!r} {words}.") from None
    try:
        yield Found(fd, place.real, os.fstat(fd))
    finally:
        os.close(fd)


_WORDS = {
    errno.ENOENT: "is not there",
    errno.ENOTDIR: "passes a file as if it were a folder",
    errno.EISDIR: "is a folder",
    errno.ELOOP: "is a link that leads in a circle",
    errno.EACCES: "may not be opened: the permissions of the file or of its folder forbid it",
    errno.EPERM: "may not be opened: the permissions of the file or of its folder forbid it",
    errno.ENAMETOOLONG: "is too long for a path",
    errno.ENOSPC: "could not be written: the disk is full",
    errno.EEXIST: "came to be there at this moment: read it, then try again",
    errno.EROFS: "could not be written: the file system is read-only",
    errno.EDQUOT: "could not be written: the disk quota is used up",
}
