"""The Workspace class: the only code turning a model's path into an open file."""

from __future__ import annotations

import errno
import os
import re
import stat
import weakref
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from itertools import islice
from typing import Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from handrail import READ, WRITE, Access, Context, Effect, HandrailError, Refused, ToolFailed
from handrail.sandbox import contains_home, find_placeholders
from handrail.tools._descriptions import join_words
from handrail.tools._files.openat import NAMES, Opener, best_opener, descriptor_path
from handrail.tools._files.paths import is_beneath, make_relative
from handrail.tools._files.seen import SeenContents, ShownContents
from handrail.tools._files.similar_paths import FolderEntry, find_similar
from handrail.tools._files.undo import UndoLog

_MAX_TRIES = 16
_MAX_NAMES = 5_000
_SCRATCH = re.compile(r"(?:^|/)\.handrail-[0-9a-f]{16}\.tmp$")
"""A file's name for a moment while it is replaced."""
_LEFT_ROOT = (errno.EXDEV, errno.EAGAIN)


Hiding: TypeAlias = bool | Literal["ask"]
"""Whether searches omit a file: never mention it, or say that reading it needs approval."""


class OpenPath(NamedTuple):
    """A file or folder in the workspace, held open, so nothing can swap it."""

    fd: int
    real: str
    """Its path relative to the root, with links resolved; empty for the root itself."""
    stat: os.stat_result


@runtime_checkable
class ListsAsked(Protocol):
    """A function for ``hides`` that may know which files need approval, without a call for each."""

    def list_asked(self, root: str) -> Collection[str] | None:
        """Return the files in a folder for which it may return "ask"; None if it cannot tell."""
        ...


class FolderFound(ToolFailed):
    """A path is a folder where a file was expected."""


class Workspace:
    """A directory tools may touch. Every path a model sends is resolved here.

    ``hides`` returns, for a path relative to the root, whether searches must omit it; usually it
    asks the policy about reading it. For "ask", a search omits what is in the file, and says so. A
    workspace remembers each file's last read content, and how to undo changes.
    ``undo_folder`` keeps them for later processes, by default a temporary folder for this one.
    ``whole_home`` allows a root that is or contains the home folder.

    Raises HandrailError for such a root otherwise: what tools write there can run at the next
    login. Raises it for an ``undo_folder`` in the workspace, too: a command could change what undo
    restores.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        hides: Callable[[str], Hiding] | None = None,
        opener: Opener | None = None,
        undo_folder: str | os.PathLike[str] | None = None,
        whole_home: bool = False,
    ) -> None:
        spelled = os.path.abspath(root)  # noqa: PTH100  pathlib would not fold ".."
        self.root = os.path.realpath(spelled)
        if not whole_home and contains_home(self.root):
            raise HandrailError(
                f"{self.root} is your home folder or contains it: tools could change what runs "
                "when you log in. Use a folder inside it, or pass whole_home=True to allow that."
            )
        if undo_folder is not None and is_beneath(os.path.realpath(undo_folder), self.root):
            raise HandrailError(f"The undo_folder {undo_folder!s} must not be in the workspace.")
        self._spellings = (self.root, spelled)
        self.hides = hides
        self._open = opener or best_opener()
        self._fd = os.open(self.root, NAMES | os.O_DIRECTORY)
        weakref.finalize(self, os.close, self._fd)
        self.seen = SeenContents()
        self.shown = ShownContents()
        self.changes = UndoLog(undo_folder)

    def __repr__(self) -> str:
        return f"Workspace({self.root!r})"

    def inside(self, path: str) -> str:
        """Return a model's path relative to the root, checked by its spelling alone."""
        return make_relative(path, self._spellings)

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags for search tools: ``filtered`` if they omit what the policy denies reading."""
        return () if self.hides is None else ("filtered",)

    def is_hidden(self, relative: str) -> bool:
        """Return whether a search must not show this file, nor that it exists."""
        return self.hiding(relative) is True

    def hiding(self, relative: str) -> Hiding:
        """Return whether a search must omit what is in this file."""
        return self.hides is not None and self.hides(relative)

    def list_asked(self) -> Collection[str] | None:
        """Return all files for which ``hiding`` may return "ask"; None if they are not known."""
        if self.hides is None:
            return ()
        return self.hides.list_asked(self.root) if isinstance(self.hides, ListsAsked) else None

    def access(self, verb: Effect, path: str) -> tuple[Access, ...]:
        """Return what a call with this path will touch: the path itself, and where links lead.

        It opens no file and never raises: an invalid call fails when it runs.
        """
        return tuple(Access(verb, resource) for resource in self._resources(path))

    def change(self, path: str) -> tuple[Access, ...]:
        """Return the accesses for changing a file.

        It also reads the file, because its result may show the content. A file that must not be
        read must not be changed either.
        """
        resources = self._resources(path)
        return tuple(Access(verb, resource) for verb in (READ, WRITE) for resource in resources)

    def _resources(self, path: str) -> tuple[str, ...]:
        try:
            spelled = self.inside(path)
            real, _ = self.resolve(spelled)
        except (OSError, Refused, ToolFailed):
            return (f"file:{path}",)
        both = (Access(READ, f"file:{path}").resource for path in (spelled, real))
        return tuple(dict.fromkeys(both))

    def resolve(self, spelled: str) -> tuple[str, list[str]]:
        """Return the real path, and the names at its end without an entry."""
        while True:
            fd, parent, missing = self._open_nearest(spelled)
            try:
                if not missing or not self._has_appeared(fd, missing[0], spelled):
                    return "/".join([*filter(None, [parent]), *missing]), missing
            finally:
                os.close(fd)

    @contextmanager
    def file(self, path: str, context: Context | None = None) -> Generator[OpenPath]:
        """Open a regular file for reading.

        Raises Refused if the path leaves the workspace, or leads to another file than the one the
        call was checked for. Raises ToolFailed if there is no such file.
        """
        with self._open_place(path, context) as place:
            if stat.S_ISDIR(place.stat.st_mode):
                raise FolderFound(f"{path!r} is a folder. To list it, use read.")
            if not stat.S_ISREG(place.stat.st_mode):
                raise ToolFailed(f"{path!r} is not a regular file but a device, pipe or socket.")
            with _reopen(place, os.O_RDONLY, path) as found:
                yield found

    @contextmanager
    def folder(self, path: str = ".", context: Context | None = None) -> Generator[OpenPath]:
        """Open a folder. Raises as ``file`` does."""
        with self._open_place(path, context) as place:
            if not stat.S_ISDIR(place.stat.st_mode):
                raise ToolFailed(f"{path!r} is a file, not a folder. Use read to see it.")
            with _reopen(place, os.O_RDONLY | os.O_DIRECTORY, path) as found:
                yield found

    def check_target(self, verb: Effect, real: str, path: str, context: Context | None) -> None:
        """Raise Refused unless the file is the one the call was checked for.

        A checked folder does not cover the files in it: it may be a link by now.
        """
        if context is None or not context.accesses:
            return
        meant = Access(verb, f"file:{real}").resource
        checked = (access.resource for access in context.accesses if access.verb >= verb)
        if not any(resource in ("*", meant) for resource in checked):
            raise Refused(
                f"Not run: {path!r} leads to another file than when the call was checked. Check "
                "what changed, then call again."
            )

    def is_folder(self, path: str) -> bool:
        """Return whether a path is a folder in the workspace. Never raises."""
        try:
            fd = self.open(self.inside(path))
        except (OSError, Refused, ToolFailed):
            return False
        try:
            return stat.S_ISDIR(os.fstat(fd).st_mode)
        finally:
            os.close(fd)

    def open(self, spelled: str) -> int:
        """Return a descriptor naming a path's entry. Raises OSError."""
        return self._open_real(spelled)[0]

    def _open_real(self, spelled: str) -> tuple[int, str]:
        """Open what is at a path, and return its descriptor and real path. Raises OSError."""
        for _ in range(_MAX_TRIES):
            fd = self._open(self._fd, spelled)
            try:
                real = self._real_path(fd)
            except Refused:
                exists = os.fstat(fd).st_nlink
                os.close(fd)
                if exists:
                    raise
                continue
            if os.fstat(fd).st_nlink and not _SCRATCH.search(real):
                return fd, real
            os.close(fd)  # replaced since it was opened, as happens when a file is saved
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), spelled)

    @contextmanager
    def _open_place(self, path: str, context: Context | None) -> Generator[OpenPath]:
        spelled = self.inside(path)
        try:
            fd, real = self._open_real(spelled)
        except OSError as error:
            raise self.explain_error(error, path) from None
        try:
            self.check_target(READ, real, path, context)
            yield OpenPath(fd, real, os.fstat(fd))
        finally:
            os.close(fd)

    def _real_path(self, fd: int) -> str:
        real = descriptor_path(fd)
        if not is_beneath(real, self.root):
            raise Refused("Not run: the path was moved out of the workspace.")
        return real[len(self.root) :].lstrip("/")

    def _open_nearest(self, spelled: str) -> tuple[int, str, list[str]]:
        """Open a path's deepest existing part, and return the names missing after it."""
        steps, missing = spelled.split("/"), list[str]()
        while True:
            try:
                return *self._open_real("/".join(steps) or "."), missing
            except FileNotFoundError:
                if not steps or steps[-1] in ("", ".", ".."):
                    raise
                missing.insert(0, steps.pop())

    @staticmethod
    def _has_appeared(folder: int, name: str, spelled: str) -> bool:
        """Return whether a missing name exists by now. Raises Refused for a broken link."""
        try:
            about = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return False
        if stat.S_ISLNK(about.st_mode):
            raise Refused(f"Not run: {spelled!r} is or passes through a broken link.")
        return True

    def explain_error(self, error: OSError, path: str) -> Refused | ToolFailed:
        """Return the error for a model, explaining what is wrong with a path."""
        if error.errno in _LEFT_ROOT:
            return Refused(f"Not run: {path!r} is or passes through a link out of the workspace.")
        problem = _PROBLEMS.get(error.errno or 0, "cannot be opened or written")
        hint = self._suggest_paths(path) if isinstance(error, FileNotFoundError) else ""
        return ToolFailed(f"{path!r} {problem}.{hint}")

    def _suggest_paths(self, path: str) -> str:
        similar = find_similar(self.inside(path), self.list_folder, self.is_hidden)
        if not similar:
            return " Use glob to find it."
        return f" Did you mean {join_words([repr(other) for other in similar], 'or')}?"

    def list_placeholders(self, folder: str) -> frozenset[str]:
        """Return a folder's entries that only reserve names while commands run."""
        return frozenset() if folder else find_placeholders(self.root)

    def list_folder(self, folder: str) -> list[FolderEntry]:
        """Return a folder's entries, up to some thousands; none if it cannot be opened."""
        skipped = self.list_placeholders(folder)
        try:
            fd = self.open(folder or ".")
            try:
                with os.scandir(f"/proc/self/fd/{fd}") as entries:
                    return [
                        FolderEntry(entry.name, entry.is_dir(follow_symlinks=False))
                        for entry in islice(entries, _MAX_NAMES)
                        if entry.name not in skipped
                    ]
            finally:
                os.close(fd)
        except (OSError, Refused):
            return []


@contextmanager
def _reopen(place: OpenPath, flags: int, path: str) -> Generator[OpenPath]:
    """Open a path for use. Its type was checked before, so opening cannot block."""
    try:
        fd = os.open(f"/proc/self/fd/{place.fd}", flags | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        problem = _PROBLEMS.get(error.errno or 0, "cannot be opened or written")
        raise ToolFailed(f"{path!r} {problem}.") from None
    try:
        yield OpenPath(fd, place.real, os.fstat(fd))
    finally:
        os.close(fd)


_PROBLEMS = {
    errno.ENOENT: "does not exist",
    errno.ENOTDIR: "uses a file as a folder",
    errno.EISDIR: "is a folder",
    errno.ELOOP: "is a loop of links",
    errno.EACCES: "cannot be opened: permission denied",
    errno.EPERM: "cannot be opened: permission denied",
    errno.ENAMETOOLONG: "is too long for a path",
    errno.ENOSPC: "was not written: the disk is full",
    errno.EEXIST: "was created by another program in the meantime: read it, then retry",
    errno.EROFS: "was not written: the file system is read-only",
    errno.EDQUOT: "was not written: the disk quota is used up",
}
