"""Keeps the beginning and the end of a stream of bytes, in fixed memory."""

from __future__ import annotations

from collections import deque

from handrail.tools._shell.terminal_text import clean_output, is_utf8

_BLOCK_BYTES = 65_536
_INNER_BYTES = bytes(range(0x80, 0xC0))
"""Bytes that continue a character of UTF-8."""
_FIRST_OF_TWO, _FIRST_OF_THREE, _FIRST_OF_FOUR = 0xC0, 0xE0, 0xF0
"""The lowest bytes that begin a character of two, three and four bytes."""


class HeadAndTail:
    """Keeps the first and the last bytes written to it."""

    def __init__(self, head: int, tail: int) -> None:
        self._room = head
        self._max_tail = tail
        self._head = bytearray()
        self._tail: deque[bytearray] = deque()
        self._trailing = 0
        self.total = 0
        """Bytes written."""
        self.lines = 0
        """Line feeds among them."""

    def write(self, piece: bytes) -> None:
        """Add the next bytes."""
        self.total += len(piece)
        self.lines += piece.count(b"\n")
        if self._room:
            part = piece[: self._room]
            self._head += part
            self._room -= len(part)
            piece = piece[len(part) :]
        if len(piece) > self._max_tail:
            piece = piece[-self._max_tail :]
            self._tail.clear()
            self._trailing = 0
        if piece:
            self._append(piece)

    def _append(self, piece: bytes) -> None:
        if self._tail and len(self._tail[-1]) < _BLOCK_BYTES:  # many small blocks would be slow
            self._tail[-1].extend(piece)
        else:
            self._tail.append(bytearray(piece))
        self._trailing += len(piece)
        while self._trailing - len(self._tail[0]) >= self._max_tail:
            self._trailing -= len(self._tail.popleft())

    @property
    def missing(self) -> int:
        """Bytes between the beginning and the end that were not kept."""
        return self.total - len(self._head) - self._trailing

    def tail(self) -> bytes:
        """Return the last bytes kept without a gap."""
        ends = b"".join(self._tail)
        return ends if self.missing else bytes(self._head) + ends

    def text(self) -> str:
        """Return the kept bytes as text for a model, with a note about what is omitted."""
        head, tail = bytes(self._head), b"".join(self._tail)
        if not self.missing:
            return _clean(head + tail)
        head, tail = _up_to_a_line(head), _from_a_line(tail)
        gap = self.total - len(head) - len(tail)
        return (
            f"{_clean(head).rstrip()}\n[{gap:,} of {self.total:,} bytes of output omitted. "
            "Redirect the output to a file to see all of it.]\n"
            f"{_clean(tail)}"
        )


def _clean(raw: bytes) -> str:
    text = clean_output(raw)
    return text if is_utf8(raw) else f"{text.rstrip()}\n[Bytes that are not UTF-8 show as \ufffd.]"


def _up_to_a_line(raw: bytes) -> bytes:
    cut = raw.rfind(b"\n", len(raw) * 3 // 4)
    return raw[: cut + 1] if cut >= 0 else drop_partial_character(raw)


def _from_a_line(raw: bytes) -> bytes:
    cut = raw.find(b"\n", 0, len(raw) // 4)
    if cut >= 0:
        return raw[cut + 1 :]
    start = raw[:3]
    return start.lstrip(_INNER_BYTES) + raw[3:]


def drop_partial_character(raw: bytes) -> bytes:
    """Return bytes without an incomplete character at the end."""
    for back in range(1, min(4, len(raw)) + 1):
        byte = raw[-back]
        if byte >= _FIRST_OF_TWO:
            size = 2 + (byte >= _FIRST_OF_THREE) + (byte >= _FIRST_OF_FOUR)
            return raw[:-back] if size > back else raw
        if byte not in _INNER_BYTES:
            return raw
    return raw
