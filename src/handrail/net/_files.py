"""How many files a process can have open: each connection is one."""

from __future__ import annotations

import resource
import sys


def count_files() -> int:
    """Return how many files this process can have open."""
    return _amount(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def allow_files(wanted: int) -> None:
    """Let this process have more files open, as far as the system permits it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = min(wanted, _amount(hard))
    if _amount(soft) < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _amount(limit: int) -> int:
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit
