"""Import every public package as another operating system would. Run in a process of its own.

`python tests/support/systems.py win32 darwin` prints what cannot be imported there, line by line.
The packages that handrail uses are loaded first, as the system that they were installed on.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

PACKAGES = (
    "handrail",
    *(
        f"handrail.{name}"
        for name in (
            "agent approvals cli coding console events hooks mcp messages models net openapi "
            "permissions policy providers runs sandbox telemetry testing tools"
        ).split()
    ),
)
LINUX_ONLY = "O_PATH O_TMPFILE memfd_create pidfd_open eventfd splice setns unshare"
NOT_ON_WINDOWS = (
    "O_DIRECTORY O_NOFOLLOW O_CLOEXEC O_NONBLOCK getuid geteuid getgid getegid getgroups fork forkpty "
    "openpty killpg setsid getpgid setpgid getsid fchmod fchown chown mkfifo wait4 WNOHANG"
)
MODULES = {"win32": "fcntl termios tty pty pwd grp resource", "darwin": ""}
ATTRIBUTES: dict[str, list[tuple[ModuleType, str]]] = {
    "darwin": [(os, LINUX_ONLY), (signal, "pidfd_send_signal")],
    "win32": [
        (os, f"{LINUX_ONLY} {NOT_ON_WINDOWS}"),
        (
            signal,
            "pidfd_send_signal SIGKILL SIGHUP SIGQUIT SIGTSTP SIGCONT SIGWINCH SIGPIPE SIGALRM",
        ),
        (socket, "AF_UNIX"),
    ],
}


def make_msvcrt() -> ModuleType:
    """Return Windows' module for locks, made of this system's."""
    module, flock = ModuleType("msvcrt"), fcntl.flock

    def locking(handle: int, mode: int, _count: int) -> None:
        try:
            flock(handle, mode)
        except BlockingIOError as error:
            raise PermissionError(*error.args) from None

    vars(module).update(LK_NBLCK=fcntl.LOCK_EX | fcntl.LOCK_NB, locking=locking)
    return module


class Missing:
    """Refuses the modules that a system does not have."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def find_spec(
        self, name: str, _path: object = None, _target: object = None
    ) -> ModuleSpec | None:
        if name in self._names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def become(platform: str) -> None:
    """Take away what a system does not have."""
    names = MODULES[platform].split()
    for name in [name for name in sys.modules if name.partition(".")[0] in ("handrail", *names)]:
        del sys.modules[name]
    if platform == "win32":
        sys.modules["msvcrt"] = make_msvcrt()
    sys.meta_path.insert(0, Missing(names))
    for module, gone in ATTRIBUTES[platform]:
        for name in gone.split():
            if hasattr(module, name):
                delattr(module, name)
    sys.platform = platform


def failures() -> Iterator[str]:
    """Yield each package, and each public name of a package, that cannot be imported."""
    for package in PACKAGES:
        try:
            module = importlib.import_module(package)
        except Exception:  # noqa: BLE001  that it fails is what is looked for
            yield package
            continue
        for name in getattr(module, "__all__", ()):
            try:
                getattr(module, name)
            except Exception:  # noqa: BLE001  that it fails is what is looked for
                yield f"{package}.{name}"


if __name__ == "__main__":
    if found := list(failures()):
        raise SystemExit(f"cannot be imported here: {found}")
    for system in sys.argv[1:]:
        sys.stdout.flush()
        child = os.fork()
        if not child:
            become(system)
            for name in failures():
                sys.stdout.write(f"{system} {name}\n")
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(child, 0)
