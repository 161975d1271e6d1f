"""Runs ripgrep as the search engine: without a shell, and with read access only."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio

from handrail import ToolFailed
from handrail.sandbox import start_read_only
from handrail.tools._files.paths import is_beneath
from handrail.tools._search.query import (
    OutputMode,
    Query,
    SearchEnd,
    SearchLine,
    SearchPlace,
    SearchScope,
)

_KNOWN = (
    (
        re.compile(r"backreferences are not"),
        (
            r"Backreferences such as \1 are not supported. Use a simpler pattern, and compare the "
            r"matching lines."
        ),
    ),
    (
        re.compile(r"look-around, including"),
        (
            "Look-ahead and look-behind are not supported. Remove them, and choose among the "
            "matching lines."
        ),
    ),
    (
        re.compile(r"size limit|nested|too large"),
        "The pattern is too large. Use fewer or smaller repetitions and groups.",
    ),
    (
        re.compile(r"not allowed in a regex"),
        (
            "The pattern matches a line break, but the search goes line by line. Pass "
            "multiline=true to match across lines."
        ),
    ),
    (
        re.compile(r"unrecognized file type: (.*)"),
        "There is no file type '{}'. Pass a glob such as '*.py' instead.",
    ),
)
_MAX_LINE_BYTES: Final = 1 << 22
"""Bytes kept from a line; the rest is dropped."""
_RECORD: Final = re.compile(rb"([^\0]*)\0(?:(\d+)(?::(\d+):|-)([^\n]*))?\r?\n")
_COUNT: Final = re.compile(rb"([^\0]*)\0(\d+)()()\r?\n")
_HEAD: Final = re.compile(rb"([^\0]*)\0(\d+)(?::(\d+):|-)")
_BINARY: Final = re.compile(
    rb"(.*?): (?:binary file matches|WARNING: stopped searching binary file after match)"
    rb" \(found [^\n]{1,16} byte around offset \d+\)\r?\n",
    re.DOTALL,
)


def pattern_error(errors: str) -> ToolFailed:
    """Return the error to raise for what ripgrep printed."""
    for known, message in _KNOWN:
        if match := known.search(errors):
            return ToolFailed(message.format(*match.groups()))
    why = re.search(r"^error: (.+)$", errors, re.MULTILINE)
    if why is None:
        return ToolFailed("The search failed. Try a simpler pattern.")
    return ToolFailed(
        f"The pattern is not a valid regular expression: {why[1]}. Escape special characters with "
        "a backslash, or pass fixed_strings=true."
    )


_CHUNK_BYTES: Final = 1 << 18
_SMALL_CHUNK_BYTES: Final = 1 << 14
_PAUSE_STEP: Final = 0.0001
_MAX_PAUSE: Final = 0.02
"""Seconds. Matches arrive in small chunks, and reading each at once costs more than the search."""
# never --pre, -z, -P or --follow: they run programs, unpack, hang or leave the folder: decision 022
_ALWAYS: Final = (
    "--no-config",
    "--no-messages",
    "--no-require-git",
    "--no-ignore-global",
    "--color=never",
    "--null",
)
_REGEX_SIZE: Final = "--regex-size-limit=32M"
"""Less than the default: larger patterns take a second to compile, and are mistakes."""
_MAX_FILE_SIZE: Final = "--max-filesize=256M"
"""For multiline searches, which hold the whole file in memory."""
_MAX_BINARY_SIZE: Final = "--max-filesize=10M"
"""For searches of binary files, which may be sparse and take no space on disk."""
_NO_RIPGREP: Final = (
    "Not run: this tool needs ripgrep (rg), which is not installed. Tell the user to install it, "
    "for example with: pip install 'handrail[coding]'."
)
_MODES: Final = {
    "content": ("--line-number", "--column", "--no-heading", r"--context-separator=\x00"),
    "files": ("--files-with-matches",),
    "count": ("--count",),
}


@dataclass(frozen=True, slots=True)
class Ripgrep:
    """A ripgrep program."""

    program: str

    @classmethod
    def find(cls, *, outside: str) -> Ripgrep | None:
        """Return the ripgrep of this Python's environment, or else the first on the PATH.

        A program in the workspace is never used: the model could have written it.
        """
        for folder in _folders():
            real = os.path.realpath(f"{folder}/rg")
            inside = any(is_beneath(path, outside) for path in (os.path.realpath(folder), real))
            # unlike pathlib, this skips a folder the user may not enter
            if not inside and os.path.isfile(real) and os.access(real, os.X_OK):  # noqa: PTH113
                return cls(real)
        return None

    @classmethod
    def require(cls, *, outside: str) -> Ripgrep:
        """Return the result of ``find``. Raises ToolFailed if ripgrep is not installed."""
        ripgrep = cls.find(outside=outside)
        if ripgrep is None:
            raise ToolFailed(_NO_RIPGREP)
        return ripgrep

    async def names(
        self,
        place: SearchPlace,
        scope: SearchScope,
        take: Callable[[list[str]], bool],
        *,
        seconds: float,
    ) -> SearchEnd:
        """Pass the names of all files to ``take``, in batches, until it returns False."""
        names = _NameReader()
        argv = [self.program, *_ALWAYS, *_scope_options(scope), "--files"]
        return await _run(argv, place, lambda chunk: take(names.feed(chunk)), seconds)

    async def lines(
        self,
        place: SearchPlace,
        scope: SearchScope,
        query: Query,
        take: Callable[[SearchLine], bool],
        *,
        seconds: float,
    ) -> SearchEnd:
        """Pass matching lines to ``take``, file by file, until it returns False."""
        records = _RecordReader(query.mode)
        where = "./" if place.file is None else f"/proc/self/fd/{place.file}"
        argv = [
            self.program,
            *_ALWAYS,
            *_scope_options(scope),
            *_query_options(query),
            "-e",
            query.pattern,
        ]

        def feed(chunk: bytes) -> bool:
            return all(take(line) for line in records.feed(chunk))

        end = await _run([*argv, "--", where], place, feed, seconds)
        if end is not SearchEnd.ENOUGH:
            for line in records.rest():
                take(line)
        return end


def _folders() -> Iterator[str]:
    yield str(Path(sys.executable).parent)
    yield from filter(os.path.isabs, os.environ.get("PATH", "").split(os.pathsep))


def _scope_options(scope: SearchScope) -> Iterator[str]:
    if scope.ignored:
        yield "--no-ignore"
    if scope.hidden:
        yield "--hidden"
    if scope.hidden and not scope.git:
        yield "--glob=!.git"
    if scope.type:
        yield f"--type={scope.type}"
    elif scope.last:
        # not --glob: that would find ignored files
        yield from (f"--type-add=wanted:{name}" for name in scope.last)
        yield "--type=wanted"


def _query_options(query: Query) -> Iterator[str]:
    yield from _MODES[query.mode]
    yield from ("--with-filename", "--no-mmap", _REGEX_SIZE)
    if "$" in query.pattern and not query.fixed:
        yield "--crlf"  # lets $ match before CRLF, and is slower
    yield "--ignore-case" if query.ignore_case else "--case-sensitive"
    if query.fixed:
        yield "--fixed-strings"
    if query.multiline:
        yield from ("--multiline", "--multiline-dotall", _MAX_FILE_SIZE)
    if query.binary:
        yield from ("--binary", _MAX_BINARY_SIZE)
    if query.ordered:
        yield "--sort=path"
    if query.mode == "content":
        yield f"--max-count={query.max_file_matches}"
        yield f"--before-context={query.before}"
        yield f"--after-context={query.after}"


async def _run(
    argv: list[str], place: SearchPlace, feed: Callable[[bytes], bool], seconds: float
) -> SearchEnd:
    keep = () if place.file is None else (place.file,)
    running = start_read_only(argv, root=place.root, cwd_fd=place.folder, keep=keep)
    pause = 0.0
    try:
        with anyio.move_on_after(seconds):
            while chunk := await running.read(_CHUNK_BYTES):
                if not feed(chunk):
                    return SearchEnd.ENOUGH
                if len(chunk) < _SMALL_CHUNK_BYTES:
                    pause = min(pause + _PAUSE_STEP, _MAX_PAUSE)
                    await anyio.sleep(pause)
            return _end_of(await running.wait(), running.errors())
        return SearchEnd.LATE
    finally:
        await running.kill()


def _end_of(code: int, errors: bytes) -> SearchEnd:
    if code in (0, 1):  # matches, or no matches
        return SearchEnd.WHOLE
    if code < 0:
        return SearchEnd.BROKEN
    if errors.strip():
        raise pattern_error(errors.decode("utf-8", "replace"))
    return SearchEnd.UNREADABLE


class _NameReader:
    """Parses names that end with a NUL."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[str]:
        """Return the names that are complete with this chunk."""
        whole, _, self._rest = (self._rest + chunk).rpartition(b"\0")
        return whole.decode("utf-8", "surrogateescape").split("\0") if whole else []


class _RecordReader:
    """Parses matches in one of the output modes."""

    def __init__(self, mode: OutputMode) -> None:
        self._mode = mode
        self._names = _NameReader()
        self._record = _COUNT if mode == "count" else _RECORD
        self._column = b"1" if mode == "count" else b"0"
        self._parts: list[bytes] = []
        self._held = 0
        self._dropping = False

    def feed(self, chunk: bytes) -> Iterator[SearchLine]:
        """Yield the lines that are complete with this chunk."""
        if self._mode == "files":
            return (
                SearchLine(name.removeprefix("./"), 1, 1, b"") for name in self._names.feed(chunk)
            )
        return self._feed(chunk)

    def rest(self) -> Iterator[SearchLine]:
        """Yield what follows the last record: notices about binary files."""
        _, binary = _split_notices(b"".join(self._parts))
        yield from binary

    def _feed(self, chunk: bytes) -> Iterator[SearchLine]:
        if self._dropping:
            _, end, chunk = chunk.partition(b"\n")
            self._dropping = not end
        self._parts.append(chunk)
        self._held += len(chunk)
        if b"\n" not in chunk and self._held <= _MAX_LINE_BYTES:
            return
        held = b"".join(self._parts)
        at = 0
        while record := self._record.match(held, at):
            at = record.end()
            name, number, column, text = record.groups()
            if b"\n" in name:
                name, binary = _split_notices(name)
                yield from binary
            yield SearchLine(
                _decode_path(name), int(number or 0), int(column or self._column), text or b""
            )
        rest = held[at:]
        if len(rest) > _MAX_LINE_BYTES:
            if head := _HEAD.match(rest):
                name, binary = _split_notices(head[1])
                yield from binary
                text = rest[head.end() :]
                yield SearchLine(
                    _decode_path(name), int(head[2]), int(head[3] or 0), text, whole=False
                )
            rest, self._dropping = b"", True
        self._parts, self._held = [rest], len(rest)


def _split_notices(name: bytes) -> tuple[bytes, list[SearchLine]]:
    """Split a name from the notices about binary files before it, which end without a NUL."""
    binary = list[SearchLine]()
    while notice := _BINARY.match(name):
        binary.append(SearchLine(_decode_path(notice[1]), 0, 0, b"", binary=True))
        name = name[notice.end() :]
    return name, binary


def _decode_path(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape").removeprefix("./")
