"""A search without ripgrep: a walk along descriptors that follows no link, in a thread.

It knows no ignore files and no types of files, and takes several times as long. What it finds is
what ripgrep finds when it is told to leave nothing out.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import anyio.to_thread

from handrail.tools._linear import Find, finder
from handrail.tools._scope import Ended, Line, Place, Query, Scope

ENTRIES: Final = 200_000
DEEPEST: Final = 100
LARGEST: Final = 16 << 20
"""Bytes of a file that are searched."""
_AT_ONCE: Final = 500
_FIRST: Final = 1 << 16
"""Bytes at the beginning of a file that show whether it is text."""
_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MARKS: Final = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


class _Over(Exception):
    """The walk ends here."""

    def __init__(self, ended: Ended) -> None:
        self.ended = ended


class _Entry(NamedTuple):
    name: str
    """Relative to where the walk began."""
    folder: int
    last: str


@dataclass(frozen=True, slots=True)
class Walk:
    """The engine for where there is no ripgrep."""

    entries: int = ENTRIES
    knows_ignore_files = False
    knows_types = False
    ordered = True
    """Names come by path."""

    async def names(
        self, place: Place, scope: Scope, take: Callable[[list[str]], bool], *, seconds: float
    ) -> Ended:
        """Tell the names of all files, many at a time, until ``take`` says that it has enough."""

        def work(tour: _Tour) -> None:
            some = list[str]()
            try:
                for entry in tour.files():
                    some.append(entry.name)
                    if len(some) >= _AT_ONCE:
                        taken, some = some, []
                        tour.go_on(take(taken))
            finally:  # what was seen is told, however far it came
                take(some)

        return await self._aside(place, scope, work, seconds)

    async def lines(
        self,
        place: Place,
        scope: Scope,
        query: Query,
        take: Callable[[Line], bool],
        *,
        seconds: float,
    ) -> Ended:
        """Tell what matches, file by file, until ``take`` says that it has enough."""
        find_all = finder(query)

        def work(tour: _Tour) -> None:
            find = tour.paced(find_all)
            if place.file is not None:
                files = iter([(".", os.dup(place.file))])
            else:
                files = ((one.name, tour.opened(one)) for one in tour.files())
            for name, fd in files:
                content = _content(fd)
                if place.file is not None and b"\0" in content:
                    found = _no_text(name, content, find)
                else:
                    found = _searched(name, content, query, find)
                for line in found:
                    tour.go_on(take(line))

        return await self._aside(place, scope, work, seconds)

    async def _aside(
        self, place: Place, scope: Scope, work: Callable[[_Tour], None], seconds: float
    ) -> Ended:
        """Do the work in a thread, which ends by itself when time is over or nobody waits."""
        tour = _Tour(os.dup(place.folder), scope, self.entries, time.monotonic() + seconds)

        def run() -> Ended:
            try:
                work(tour)
            except _Over as over:
                return over.ended
            finally:
                os.close(tour.top)
            return Ended.UNREADABLE if tour.unread else Ended.WHOLE

        try:
            return await anyio.to_thread.run_sync(run, abandon_on_cancel=True)
        finally:
            tour.left.set()


class _Tour:
    """One walk through a folder: how far it may go, and what it could not open."""

    def __init__(self, top: int, scope: Scope, entries: int, until: float) -> None:
        self.top = top
        self.unread = False
        self.left = threading.Event()
        """Set when nobody waits for it any more."""
        self._scope = scope
        self._entries = entries
        self._until = until

    def go_on(self, wanted: bool) -> None:  # noqa: FBT001  what somebody just answered
        """Leave the walk unless it is to go on."""
        if not wanted:
            raise _Over(Ended.ENOUGH)
        if self.left.is_set() or time.monotonic() > self._until:
            raise _Over(Ended.LATE)

    def paced(self, find: Find) -> Find:
        """The same, but it leaves the walk in the middle of a file, too."""

        def paced(text: str) -> Iterator[tuple[int, int]]:
            self.go_on(wanted=True)
            for one in find(text):
                yield one
                self.go_on(wanted=True)

        return paced

    def files(self) -> Iterator[_Entry]:
        """Regular files, by path; what has to stay open for each is open while it is looked at."""
        yield from self._beneath(self.top, "", DEEPEST)

    def opened(self, entry: _Entry) -> int:
        """A file, open; -1 where that cannot be."""
        return self._open(entry.last, os.O_RDONLY, entry.folder)

    def _beneath(self, folder: int, path: str, depth: int) -> Iterator[_Entry]:
        for name, is_folder in self._listed(folder):
            self._entries -= 1
            if self._entries < 0:
                raise _Over(Ended.LARGE)
            self.go_on(wanted=True)
            if not is_folder:
                yield _Entry(f"{path}{name}", folder, name)
            elif depth:
                yield from self._into(folder, path, name, depth - 1)
            else:
                self.unread = True

    def _into(self, folder: int, path: str, name: str, depth: int) -> Iterator[_Entry]:
        fd = self._open(name, os.O_DIRECTORY, folder)
        if fd < 0:
            return
        try:
            yield from self._beneath(fd, f"{path}{name}/", depth)
        finally:
            os.close(fd)

    def _listed(self, folder: int) -> list[tuple[str, bool]]:
        """The files and folders that are asked for; links, pipes and devices are not."""
        with os.scandir(folder) as entries:
            found = [
                (one.name, one.is_dir(follow_symlinks=False))
                for one in entries
                if self._wanted(one.name)
                and (one.is_file(follow_symlinks=False) or one.is_dir(follow_symlinks=False))
            ]
        return sorted(found)

    def _wanted(self, name: str) -> bool:
        if name == ".git" and not self._scope.git:
            return False
        return self._scope.hidden or not name.startswith(".")

    def _open(self, name: str, flags: int, folder: int) -> int:
        try:
            return os.open(name, flags | _OPEN, dir_fd=folder)
        except OSError:
            self.unread = True
            return -1


def _content(fd: int) -> bytes:
    """What is in a file, as far as it is searched. Closes it."""
    if fd < 0:
        return b""
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return b""
        return file.read(LARGEST)


def _no_text(name: str, content: bytes, find: Find) -> Iterator[Line]:
    """That a file which was named matches, though it cannot be shown."""
    if any(_line_by_line(content.replace(b"\0", b"\n").split(b"\n"), find)):
        yield Line(name, 1, 1, b"", binary=True)


def _searched(name: str, content: bytes, query: Query, find: Find) -> Iterator[Line]:
    content = _text(content)
    if b"\0" in content[:_FIRST]:
        return
    content, cut, _ = content.partition(b"\0")
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    matches = _across(content, find) if query.multiline else _line_by_line(lines, find)
    if query.mode == "content":
        excerpts = list(_excerpts(name, lines, matches, query))
        yield from excerpts
        if cut and excerpts:
            yield Line(name, 0, 0, b"", binary=True)
        return
    count = sum(1 for _ in matches)
    if count:
        yield Line(name, count if query.mode == "count" else 1, 1, b"")


def _text(content: bytes) -> bytes:
    """As UTF-8, without a mark at its beginning."""
    encoding = _MARKS.get(content[:2])
    if encoding is not None:
        return content[2:].decode(encoding, "replace").encode()
    return content.removeprefix(b"\xef\xbb\xbf")


def _decoded(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", "replace")


def _line_by_line(lines: list[bytes], find: Find) -> Iterator[tuple[int, int]]:
    """The lines that match, and where in the line."""
    for number, line in enumerate(lines):
        text = _decoded(line)
        for start, _ in find(text):
            yield number, len(text[:start].encode())
            break


def _across(content: bytes, find: Find) -> Iterator[tuple[int, int]]:
    """The lines that matches touch, where one may go over several."""
    text = content.decode("utf-8", "replace").replace("\r\n", "\n").removesuffix("\r")
    most = len(text) - content.endswith(b"\n")  # behind the last line there is no other
    number = begins = passed = untold = 0
    for start, end in find(text) if text else ():
        at = min(start, most)
        if lines := text.count("\n", passed, at):
            number += lines
            begins = text.rindex("\n", passed, at) + 1
        passed = at
        last = number + text.count("\n", at, max(at, end - 1))
        for touched in range(max(number, untold), last + 1):
            yield touched, start - begins if touched == number else 0
        untold = last + 1


def _excerpts(
    name: str, lines: list[bytes], matches: Iterator[tuple[int, int]], query: Query
) -> Iterator[Line]:
    """The lines that match and those around them, and a mark where lines are left out between."""
    columns = dict(match for match, _ in zip(matches, range(query.most), strict=False))
    shown = sorted(
        {
            near
            for number in columns
            for near in range(number - query.before, number + query.after + 1)
            if 0 <= near < len(lines)
        }
    )
    last = shown[0] if shown else 0
    for number in shown:
        if number > last + 1 and (query.before or query.after):
            yield Line("", 0, 0, b"")
        last = number
        yield Line(name, number + 1, columns.get(number, -1) + 1, lines[number])
