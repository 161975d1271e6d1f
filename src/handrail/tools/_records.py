"""What ripgrep prints, read piece by piece: a file's name, a NUL, and what there is to say of it.

A name may hold anything but a NUL, line ends included, so records are not lines. Between two
excerpts stands a record without a name, as ripgrep is told to put it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from handrail.tools._scope import Line, Mode

LONGEST: Final = 1 << 22
"""Bytes of a line that are held; what comes after is dropped."""
_RECORD: Final = re.compile(rb"([^\0]*)\0(?:(\d+)(?::(\d+):|-)([^\n]*))?\r?\n")
_COUNT: Final = re.compile(rb"([^\0]*)\0(\d+)()()\r?\n")
_HEAD: Final = re.compile(rb"([^\0]*)\0(\d+)(?::(\d+):|-)")
_BINARY: Final = re.compile(
    rb"(.*?): (?:binary file matches|WARNING: stopped searching binary file after match)"
    rb" \(found [^\n]{1,16} byte around offset \d+\)\r?\n",
    re.DOTALL,
)


class Names:
    """Names, each ended by a NUL."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[str]:
        """The names that are complete with this chunk."""
        whole, _, self._rest = (self._rest + chunk).rpartition(b"\0")
        return whole.decode("utf-8", "surrogateescape").split("\0") if whole else []


class Records:
    """What is told of matches, in one of the ways that can be asked for."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._names = Names()
        self._record = _COUNT if mode == "count" else _RECORD
        self._column = b"1" if mode == "count" else b"0"
        self._parts: list[bytes] = []
        self._held = 0
        self._dropping = False

    def feed(self, chunk: bytes) -> Iterator[Line]:
        """What is complete with this chunk."""
        if self._mode == "files":
            return (Line(one.removeprefix("./"), 1, 1, b"") for one in self._names.feed(chunk))
        return self._feed(chunk)

    def rest(self) -> Iterator[Line]:
        """What stands at the end without a record to follow."""
        _, binary = _apart(b"".join(self._parts))
        yield from binary

    def _feed(self, chunk: bytes) -> Iterator[Line]:
        if self._dropping:
            _, end, chunk = chunk.partition(b"\n")
            self._dropping = not end
        self._parts.append(chunk)
        self._held += len(chunk)
        if b"\n" not in chunk and self._held <= LONGEST:
            return
        held = b"".join(self._parts)
        at = 0
        while found := self._record.match(held, at):
            at = found.end()
            name, number, column, text = found.groups()
            if b"\n" in name:
                name, binary = _apart(name)
                yield from binary
            yield Line(_path(name), int(number or 0), int(column or self._column), text or b"")
        rest = held[at:]
        if len(rest) > LONGEST:
            if head := _HEAD.match(rest):
                name, binary = _apart(head[1])
                yield from binary
                text = rest[head.end() :]
                yield Line(_path(name), int(head[2]), int(head[3] or 0), text, whole=False)
            rest, self._dropping = b"", True
        self._parts, self._held = [rest], len(rest)


def _apart(name: bytes) -> tuple[bytes, list[Line]]:
    """A name, and what is said of binary files before it: that has no NUL, so it comes along."""
    binary = list[Line]()
    while found := _BINARY.match(name):
        binary.append(Line(_path(found[1]), 0, 0, b"", binary=True))
        name = name[found.end() :]
    return name, binary


def _path(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape").removeprefix("./")
