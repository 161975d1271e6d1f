"""The beginning and the end of a stream of bytes, in fixed memory, however much there is."""

from __future__ import annotations

from collections import deque

from handrail.tools._screen import is_text, screened

_BLOCK = 65_536


class Collected:
    """Keeps the first and the last bytes that were written to it."""

    def __init__(self, head: int, tail: int) -> None:
        self._room = head
        self._most = tail
        self._head = bytearray()
        self._tail: deque[bytearray] = deque()
        self._trailing = 0
        self.total = 0
        """Bytes that were written."""

    def write(self, piece: bytes) -> None:
        """Take the next bytes."""
        self.total += len(piece)
        if self._room:
            part = piece[: self._room]
            self._head += part
            self._room -= len(part)
            piece = piece[len(part) :]
        if len(piece) > self._most:
            piece = piece[-self._most :]
            self._tail.clear()
            self._trailing = 0
        if piece:
            self._append(piece)

    def _append(self, piece: bytes) -> None:
        if self._tail and len(self._tail[-1]) < _BLOCK:  # small ones would each have their price
            self._tail[-1].extend(piece)
        else:
            self._tail.append(bytearray(piece))
        self._trailing += len(piece)
        while self._trailing - len(self._tail[0]) >= self._most:
            self._trailing -= len(self._tail.popleft())

    @property
    def missing(self) -> int:
        """Bytes between the beginning and the end that were not kept."""
        return self.total - len(self._head) - self._trailing

    def text(self) -> str:
        """All that was kept, cleaned for a model; what is missing between is said, and why."""
        head, tail = bytes(self._head), b"".join(self._tail)
        if not self.missing:
            return _cleaned(head + tail)
        head, tail = _up_to_a_line(head), _from_a_line(tail)
        gap = self.total - len(head) - len(tail)
        return (
            f"{_cleaned(head).rstrip()}\n[{gap:,} of {self.total:,} bytes of output were not kept "
            "here. Send the output to a file to look at all of it.]\n"
            f"{_cleaned(tail)}"
        )


def _cleaned(raw: bytes) -> str:
    said = "" if is_text(raw) else "[Some bytes are not UTF-8 and show as \ufffd.]\n"
    return said + screened(raw)


def _up_to_a_line(raw: bytes) -> bytes:
    cut = raw.rfind(b"\n", len(raw) * 3 // 4)
    return raw[: cut + 1] if cut >= 0 else whole(raw)


def _from_a_line(raw: bytes) -> bytes:
    cut = raw.find(b"\n", 0, len(raw) // 4)
    if cut >= 0:
        return raw[cut + 1 :]
    rest = next((at for at in range(len(raw[:3])) if raw[at] & 0xC0 != 0x80), len(raw[:3]))  # noqa: PLR2004
    return raw[rest:]


def whole(raw: bytes) -> bytes:
    """Bytes without a character at the end that is not all there yet."""
    for back in range(1, min(4, len(raw)) + 1):
        byte = raw[-back]
        if byte & 0xC0 == 0xC0:  # noqa: PLR2004  the first of several
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4  # noqa: PLR2004
            return raw[:-back] if size > back else raw
        if byte < 0x80:  # noqa: PLR2004  stands alone
            return raw
    return raw
