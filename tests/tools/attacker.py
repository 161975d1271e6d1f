"""A process that swaps two names, as fast as it can, until its standard input ends.

Given a folder and two names in it. Says ``ready`` after the first swap.
"""

from __future__ import annotations

import ctypes
import os
import sys
from threading import Thread

EXCHANGE = 2
HERE = -100


def leave() -> None:
    sys.stdin.read()
    os._exit(0)


def main(folder: str, one: str, other: str) -> None:
    os.chdir(folder)
    swap = ctypes.CDLL(None).renameat2
    first, second = os.fsencode(one), os.fsencode(other)
    Thread(target=leave, daemon=True).start()
    if swap(HERE, first, HERE, second, EXCHANGE):
        raise SystemExit("this file system cannot swap names")
    print("ready", flush=True)  # noqa: T201
    while True:
        swap(HERE, first, HERE, second, EXCHANGE)


if __name__ == "__main__":
    main(*sys.argv[1:])
