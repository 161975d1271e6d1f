"""Import and use public packages as another operating system would. Run in a process of its own.

`python tests/support/systems.py import win32 darwin` prints what cannot be imported there, line by
line; with `run`, which pages of the documentation fail there. Each comes first as this system
does it, so that the packages that handrail uses are loaded.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import signal
import socket
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from tempfile import mkdtemp
from types import ModuleType

from test_docs import blocks, run, text_of

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    "handrail": "guides/run-calls.md",
    "agent": "guides/agents.md",
    "approvals": "guides/approvals-later.md",
    "hooks": "guides/guardrails.md",
    "mcp": "guides/use-an-mcp-server.md",
    "models": "guides/testing-agents.md",
    "openapi": "guides/openapi.md",
    "policy": "guides/permissions.md",
    "providers": "guides/own-loop.md",
    "runs": "production/journal.md",
    "telemetry": "production/telemetry.md",
    "testing": "guides/save-and-resume.md",
}
"""A page for each package: what readers do first with it."""

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


_PAIRS = socket.AF_UNIX


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
    if platform == "win32":
        socket.socketpair = partial(socket.socketpair, _PAIRS)  # which event loops need
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


def run_pages() -> Iterator[str]:
    """Yield each page whose blocks fail, or print something else than the page says."""
    for package, page in PAGES.items():
        example = ModuleType("example")
        sys.modules["example"] = example  # where types look for their names
        os.chdir(mkdtemp())
        try:
            for block in blocks(text_of(DOCS / page)):
                assert run(block, vars(example)) == block.output, f"line {block.line}"
        except BaseException as error:  # noqa: BLE001  that it fails is what is looked for
            yield f"{package} {page}: {error!r}"


def use_fcntl() -> Iterator[str]:
    """Yield the reason why this system cannot lock as Linux does: a control."""
    try:
        importlib.import_module("fcntl")
    except Exception as error:  # noqa: BLE001  that it fails is what is looked for
        yield f"fcntl: {type(error).__name__}"


def write(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{sys.platform} {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    what = {"import": failures, "run": run_pages, "fail": use_fcntl}[sys.argv[1]]
    write(what())  # also loads what other packages load when they are used
    for system in sys.argv[2:]:
        child = os.fork()
        if not child:
            become(system)
            write(what())
            os._exit(0)
        os.waitpid(child, 0)
