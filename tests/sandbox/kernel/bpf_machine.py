"""A machine for classic BPF, as small as a seccomp filter needs: for processors that are not here."""

from __future__ import annotations

import struct
from collections.abc import Sequence

LOAD, EQUAL, AT_LEAST, ANY_BIT, ANSWER = 0x20, 0x15, 0x35, 0x45, 0x06


def answer(program: bytes, audit: int, number: int, args: Sequence[int] = ()) -> int:
    """What a filter says to one system call."""
    six = [*args, *[0] * (6 - len(args))]
    data = struct.pack(
        "<IIQ6Q", number & 0xFFFFFFFF, audit, 0, *(one & (1 << 64) - 1 for one in six)
    )
    at, register = 0, 0
    while True:
        code, then, otherwise, value = struct.unpack_from("<HBBI", program, 8 * at)
        at += 1
        if code == LOAD:
            (register,) = struct.unpack_from("<I", data, value)
        elif code == ANSWER:
            return int(value)
        else:
            holds = {
                EQUAL: register == value,
                AT_LEAST: register >= value,
                ANY_BIT: bool(register & value),
            }[code]
            at += then if holds else otherwise
