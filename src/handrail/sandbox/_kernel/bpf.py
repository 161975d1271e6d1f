"""Assembler for the few classic BPF instructions in a seccomp filter."""

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


def argument_offset(index: int) -> int:
    """Return the offset of an argument's low half. The kernel reads an `int` only there."""
    return 16 + 8 * index


class Program:
    """Instructions with labels. BPF only jumps forward."""

    def __init__(self) -> None:
        self._code: list[tuple[int, int, str, str]] = []
        self._labels: dict[str, int] = {}

    def label(self, name: str) -> None:
        """Name the next instruction."""
        self._labels[name] = len(self._code)

    def load(self, offset: int) -> None:
        """Load a word from the system call's description into the register."""
        self._code.append((_LOAD, offset, "", ""))

    def jump_if_equal(self, value: int, then: str = "", otherwise: str = "") -> None:
        """Compare the register and jump. An empty label is the next instruction."""
        self._code.append((_JEQ, value, then, otherwise))

    def jump_if_at_least(self, value: int, then: str = "", otherwise: str = "") -> None:
        """Compare the register, unsigned, and jump."""
        self._code.append((_JGE, value, then, otherwise))

    def jump_if_any_bit(self, mask: int, then: str = "", otherwise: str = "") -> None:
        """Jump if any bit in the mask is set."""
        self._code.append((_JSET, mask, then, otherwise))

    def jump(self, then: str) -> None:
        """Jump unconditionally."""
        self.jump_if_equal(0, then, then)

    def answer(self, value: int) -> None:
        """End with this result."""
        self._code.append((_RET, value, "", ""))

    def assemble(self) -> bytes:
        """Return the program for the kernel: eight bytes for each instruction."""
        return b"".join(
            struct.pack(
                "HBBI", code, self._distance(at, then), self._distance(at, otherwise), value
            )
            for at, (code, value, then, otherwise) in enumerate(self._code)
        )

    def _distance(self, at: int, label: str) -> int:
        return self._labels[label] - at - 1 if label else 0
