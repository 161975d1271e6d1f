"""System calls that the standard library has no name for; all act on the calling thread alone."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Final

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_PR_SET_SECCOMP: Final = 22
_PR_SET_NO_NEW_PRIVS: Final = 38
_MODE_FILTER: Final = 2
_CREATE: Final = 444  # landlock_create_ruleset, on every processor
_ADD: Final = 445
_RESTRICT: Final = 446
_VERSION: Final = 1
_BENEATH: Final = 1
_CAPABILITY_VERSION: Final = 0x20080522


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def _call(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def landlock_version() -> int:
    """Which Landlock the kernel has; 0 for none."""
    return max(0, int(_LIBC.syscall(_CREATE, None, ctypes.c_size_t(0), _VERSION)))


def landlock_ruleset(handled: Sequence[int]) -> int:
    """A file descriptor for rules about these rights; as many kinds as this version knows."""
    rules = (ctypes.c_uint64 * len(handled))(*handled)
    return _call(_LIBC.syscall(_CREATE, rules, ctypes.c_size_t(ctypes.sizeof(rules)), 0))


def landlock_allow(ruleset: int, folder: int, rights: int) -> None:
    """Allow rights beneath an open folder or on an open file."""
    rule = _Beneath(rights, folder)
    _call(_LIBC.syscall(_ADD, ruleset, _BENEATH, ctypes.byref(rule), 0))


def landlock_restrict(ruleset: int) -> None:
    """From here on, and in all that is started from here, the rules hold."""
    _call(_LIBC.syscall(_RESTRICT, ruleset, 0))


def no_new_privileges() -> None:
    """Programs started from here gain nothing by being setuid."""
    _call(_LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def no_capabilities() -> None:
    """Root, too, is an ordinary user from here on; with no new privileges, for good."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    _call(_LIBC.capset(header, (ctypes.c_uint32 * 6)()))


def seccomp(program: bytes) -> None:
    """From here on, system calls go through this filter."""
    told = _Filter(len(program) // 8, program)
    _call(_LIBC.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(told), 0, 0))
