"""A process of its own in which some calls to the kernel fail, as they do on some file systems.

Given a folder, the name of a call, and how it fails; writes a new file and replaces an old one.
"""

from __future__ import annotations

import ctypes
import errno
import json
import platform
import struct
import sys
from pathlib import Path

from handrail import Call, Executor
from handrail.tools import Workspace
from tools.stage import toolset

NUMBERS = {
    "x86_64": {"renameat2": 316, "linkat": 265, "fsync": 74, "openat2": 437},
    "aarch64": {"renameat2": 276, "linkat": 37, "fsync": 82, "openat2": 437},
}
LOAD, EQUALS, RETURN = 0x20, 0x15, 0x06
ALLOWED, FAILS = 0x7FFF0000, 0x00050000
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2


class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def forbid(call: str, code: int) -> None:
    """From now on, in this thread and those that it starts, the call fails."""
    number = NUMBERS[platform.machine()][call]
    steps = [(LOAD, 0, 0, 0), (EQUALS, 0, 1, number), (RETURN, 0, 0, FAILS | code)]
    packed = b"".join(struct.pack("HBBI", *step) for step in [*steps, (RETURN, 0, 0, ALLOWED)])
    libc = ctypes.CDLL(None, use_errno=True)
    program = Program(4, packed)
    if libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(
        SECCOMP, FILTER, ctypes.byref(program), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "no filter")


def main(folder: str, call: str, code: str) -> None:
    root = Path(folder)
    (root / "f").write_text("old", encoding="utf-8")
    forbid(call, getattr(errno, code))
    executor = Executor(toolset(Workspace(root)))
    calls = [
        Call("write", {"file_path": "new", "content": "new"}, "1"),
        Call("edit", {"file_path": "f", "old_string": "old", "new_string": "new"}, "2"),
    ]
    told = [executor.run_sync(one).text for one in calls]
    there = {one.name: one.read_text(encoding="utf-8") for one in sorted(root.iterdir())}
    json.dump([told, there], sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
