"""ripgrep, as a search engine: found once, asked without a shell, allowed to read and no more."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio

from handrail.sandbox import reading
from handrail.tools._complaints import complaint
from handrail.tools._names import beneath
from handrail.tools._records import Names, Records
from handrail.tools._scope import Ended, Line, Place, Query, Scope

_CHUNK: Final = 1 << 18
_SMALL: Final = 1 << 14
_STEP: Final = 0.0001
_LONGEST_PAUSE: Final = 0.02
"""Seconds. What matches comes in drops, and to take each at once costs more than the search."""
_ALWAYS: Final = (
    "--no-config",
    "--no-messages",
    "--no-require-git",
    "--no-ignore-global",
    "--color=never",
    "--null",
)
_REGEX_SIZE: Final = "--regex-size-limit=32M"
"""Less than usual: what is larger takes a second to compile, and was not meant."""
_LARGEST: Final = "--max-filesize=256M"
"""For a search over several lines at a time, which holds the whole file in memory."""
_MODES: Final = {
    "content": ("--line-number", "--column", "--no-heading", r"--context-separator=\x00"),
    "files": ("--files-with-matches",),
    "count": ("--count",),
}


@dataclass(frozen=True, slots=True)
class Ripgrep:
    """A ripgrep program."""

    program: str
    knows_ignore_files = True
    knows_types = True
    ordered = False
    """Files are searched side by side, so what is found comes in no order."""

    @classmethod
    def find(cls, *, outside: str) -> Ripgrep | None:
        """The one that belongs to this Python, or else the first on the PATH.

        Never one that lies in the workspace: whoever can write there could choose what runs.
        """
        for folder in _folders():
            real = os.path.realpath(f"{folder}/rg")
            inside = any(beneath(one, outside) for one in (os.path.realpath(folder), real))
            if not inside and Path(real).is_file() and os.access(real, os.X_OK):
                return cls(real)
        return None

    async def names(
        self, place: Place, scope: Scope, take: Callable[[list[str]], bool], *, seconds: float
    ) -> Ended:
        """Tell the names of all files, many at a time, until ``take`` says that it has enough."""
        names = Names()
        argv = [self.program, *_ALWAYS, *_scope(scope), "--files"]
        return await _run(argv, place, lambda chunk: take(names.feed(chunk)), seconds)

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
        records = Records(query.mode)
        where = "./" if place.file is None else f"/proc/self/fd/{place.file}"
        argv = [self.program, *_ALWAYS, *_scope(scope), *_query(query), "-e", query.pattern]

        def feed(chunk: bytes) -> bool:
            return all(take(line) for line in records.feed(chunk))

        ended = await _run([*argv, "--", where], place, feed, seconds)
        if ended is not Ended.ENOUGH:
            for line in records.rest():
                take(line)
        return ended


def _folders() -> Iterator[str]:
    yield str(Path(sys.executable).parent)
    yield from filter(os.path.isabs, os.environ.get("PATH", "").split(os.pathsep))


def _scope(scope: Scope) -> Iterator[str]:
    if scope.ignored:
        yield "--no-ignore"
    if scope.hidden:
        yield "--hidden"
    if scope.hidden and not scope.git:
        yield "--glob=!.git"
    if scope.type:
        yield f"--type={scope.type}"
    elif scope.last:
        # not --glob: that would find what ignore files leave out
        yield from (f"--type-add=wanted:{one}" for one in scope.last)
        yield "--type=wanted"


def _query(query: Query) -> Iterator[str]:
    yield from _MODES[query.mode]
    yield from ("--with-filename", "--no-mmap", _REGEX_SIZE)
    if "$" in query.pattern and not query.fixed:
        yield "--crlf"  # the end of a line is before both; to know that has its price
    yield "--ignore-case" if query.ignore_case else "--case-sensitive"
    if query.fixed:
        yield "--fixed-strings"
    if query.multiline:
        yield from ("--multiline", "--multiline-dotall", _LARGEST)
    if query.ordered:
        yield "--sort=path"
    if query.mode == "content":
        yield f"--max-count={query.most}"
        yield f"--before-context={query.before}"
        yield f"--after-context={query.after}"


async def _run(
    argv: list[str], place: Place, feed: Callable[[bytes], bool], seconds: float
) -> Ended:
    keep = () if place.file is None else (place.file,)
    running = reading(argv, root=place.root, cwd_fd=place.folder, keep=keep)
    pause = 0.0
    try:
        with anyio.move_on_after(seconds):
            while chunk := await running.read(_CHUNK):
                if not feed(chunk):
                    return Ended.ENOUGH
                if len(chunk) < _SMALL:
                    pause = min(pause + _STEP, _LONGEST_PAUSE)
                    await anyio.sleep(pause)
            return _ended(await running.wait(), running.errors())
        return Ended.LATE
    finally:
        await running.end()


def _ended(code: int, errors: bytes) -> Ended:
    if code in (0, 1):  # something was found, or nothing
        return Ended.WHOLE
    if code < 0:
        return Ended.BROKEN
    if errors.strip():
        raise complaint(errors.decode("utf-8", "replace"))
    return Ended.UNREADABLE
