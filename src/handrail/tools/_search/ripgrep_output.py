"""Parses the output of ripgrep in chunks: a file name, a NUL, and a line or a number.

A name can contain anything but a NUL, even line breaks, so records are not lines. A record without
a name separates two excerpts, as an option of ripgrep requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from handrail.tools._search.query import OutputMode, SearchLine

MAX_LINE_BYTES: Final = 1 << 22
"""Bytes kept from a line; the rest is dropped."""
_RECORD: Final = re.compile(rb"([^\0]*)\0(?:(\d+)(?::(\d+):|-)([^\n]*))?\r?\n")
_COUNT: Final = re.compile(rb"([^\0]*)\0(\d+)()()\r?\n")
_HEAD: Final = re.compile(rb"([^\0]*)\0(\d+)(?::(\d+):|-)")
_BINARY: Final = re.compile(
    rb"(.*?): (?:binary file matches|WARNING: stopped searching binary file after match)"
    rb" \(found [^\n]{1,16} byte around offset \d+\)\r?\n",
    re.DOTALL,
)


class NameReader:
    """Parses names that end with a NUL."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[str]:
        """Return the names that are complete with this chunk."""
        whole, _, self._rest = (self._rest + chunk).rpartition(b"\0")
        return whole.decode("utf-8", "surrogateescape").split("\0") if whole else []


class RecordReader:
    """Parses matches in one of the output modes."""

    def __init__(self, mode: OutputMode) -> None:
        self._mode = mode
        self._names = NameReader()
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
        if b"\n" not in chunk and self._held <= MAX_LINE_BYTES:
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
        if len(rest) > MAX_LINE_BYTES:
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
