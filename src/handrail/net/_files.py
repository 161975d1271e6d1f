"""How many files a process can have open: each connection is one."""

from __future__ import annotations

import sys

if sys.platform != "win32":
    import resource


def count_files() -> int:
    """Return how many files this process can have open. Windows has no such limit."""
    if sys.platform == "win32":
        return sys.maxsize
    return _amount(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def allow_files(wanted: int) -> None:
    """Let this process have more files open, as far as the system permits it."""
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = min(wanted, _amount(hard))
    if _amount(soft) < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _amount(limit: int) -> int:
    return sys.maxsize if sys.platform == "win32" or limit == resource.RLIM_INFINITY else limit
