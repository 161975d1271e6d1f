"""System calls missing from the standard library. All affect only the calling thread."""

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
    _layout_ = "ms"
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def _check_result(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def landlock_version() -> int:
    """Return the kernel's Landlock version, or 0 for none."""
    return max(0, int(_LIBC.syscall(_CREATE, None, ctypes.c_size_t(0), _VERSION)))


def landlock_create_ruleset(handled: Sequence[int]) -> int:
    """Return a file descriptor for rules about these rights."""
    rules = (ctypes.c_uint64 * len(handled))(*handled)
    return _check_result(_LIBC.syscall(_CREATE, rules, ctypes.c_size_t(ctypes.sizeof(rules)), 0))


def landlock_allow(ruleset: int, folder: int, rights: int) -> None:
    """Allow rights under an open folder or on an open file."""
    rule = _Beneath(rights, folder)
    _check_result(_LIBC.syscall(_ADD, ruleset, _BENEATH, ctypes.byref(rule), 0))


def landlock_restrict(ruleset: int) -> None:
    """Enforce the rules for this thread and everything it starts."""
    _check_result(_LIBC.syscall(_RESTRICT, ruleset, 0))


def forbid_new_privileges() -> None:
    """Prevent programs started from here from gaining privileges by setuid."""
    _check_result(_LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def drop_capabilities() -> None:
    """Drop all capabilities. Without new privileges, this is permanent, even for root."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    _check_result(_LIBC.capset(header, (ctypes.c_uint32 * 6)()))


def install_filter(program: bytes) -> None:
    """Filter system calls in this thread and everything it starts."""
    described = _Filter(len(program) // 8, program)
    _check_result(_LIBC.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(described), 0, 0))
