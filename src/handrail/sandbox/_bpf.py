"""An assembler for the few instructions of classic BPF that a seccomp filter needs."""

from __future__ import annotations

import struct
from typing import Final

_LOAD: Final = 0x20  # ld [k], 32 bits
_JEQ: Final = 0x15
_JGE: Final = 0x35
_JSET: Final = 0x45
_RET: Final = 0x06

HALF: Final = 4
NUMBER: Final = 0
ARCHITECTURE: Final = 4

ALLOW: Final = 0x7FFF0000
KILL: Final = 0x80000000
ERRNO: Final = 0x00050000


def argument(index: int) -> int:
    """Where the low half of an argument is. The kernel reads an `int` from this half alone."""
    return 16 + 8 * index


class Program:
    """Instructions with named places to jump to; only forwards, as BPF has it."""

    def __init__(self) -> None:
        self._code: list[tuple[int, int, str, str]] = []
        self._places: dict[str, int] = {}

    def place(self, name: str) -> None:
        """Name what comes next."""
        self._places[name] = len(self._code)

    def load(self, offset: int) -> None:
        """Put a word of the system call's description into the register."""
        self._code.append((_LOAD, offset, "", ""))

    def equal(self, value: int, then: str = "", otherwise: str = "") -> None:
        """Compare the register; an empty place is the next instruction."""
        self._code.append((_JEQ, value, then, otherwise))

    def at_least(self, value: int, then: str = "", otherwise: str = "") -> None:
        """Compare the register, unsigned."""
        self._code.append((_JGE, value, then, otherwise))

    def any_bit(self, mask: int, then: str = "", otherwise: str = "") -> None:
        """Whether one of these bits is set."""
        self._code.append((_JSET, mask, then, otherwise))

    def always(self, then: str) -> None:
        """Go there."""
        self.equal(0, then, then)

    def answer(self, value: int) -> None:
        """End with this answer."""
        self._code.append((_RET, value, "", ""))

    def assemble(self) -> bytes:
        """The program as the kernel takes it: eight bytes for each instruction."""
        return b"".join(
            struct.pack(
                "HBBI", code, self._distance(at, then), self._distance(at, otherwise), value
            )
            for at, (code, value, then, otherwise) in enumerate(self._code)
        )

    def _distance(self, at: int, place: str) -> int:
        return self._places[place] - at - 1 if place else 0
