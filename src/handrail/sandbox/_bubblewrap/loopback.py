"""One loopback for all commands in a sandbox, to let a command reach another one's server.

bubblewrap can make a network namespace, but not join one. So a first bubblewrap makes one, with
only a loopback in it, and ends; two open files keep its namespaces alive. `nsenter` joins them and
becomes a command's bubblewrap, which makes all other namespaces itself. This needs no privileges:
the user who made a user namespace may enter it.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import weakref
from functools import cached_property
from typing import Final

from handrail.sandbox import _environment as environment
from handrail.sandbox._setup import Setup

ALONE: Final = ("--unshare-net",)
"""The option for a separate loopback."""
_KINDS: Final = ("user", "net")
_TIMEOUT_SECONDS: Final = 20.0
_SCRIPT: Final = "echo $$; read -r"
"""Reports its process, and waits until its namespaces are open."""


class Loopback:
    """A sandbox's network namespace. Made for the first command, and removed with the sandbox."""

    def __init__(self, setup: Setup, program: str) -> None:
        path = os.pathsep.join(environment.program_folders(setup.root))
        self._enter = shutil.which("nsenter", path=path) or "nsenter"
        self._shell = setup.shell
        self._program = program

    def start_words(self) -> list[str]:
        """Return the words to start bubblewrap, with its network option."""
        if self._kept is None:
            return [self._program, *ALONE]
        return [*self._join_words(self._kept), self._program]

    @property
    def shared(self) -> bool:
        """Whether commands share it. If it cannot be entered, each command has its own."""
        return self._kept is not None

    @cached_property
    def _kept(self) -> tuple[int, int] | None:
        """Descriptors for the user and network namespaces, if they can be entered.

        A system may not have `nsenter`, or forbid what it does.
        """
        try:
            kept = self._open()
            words = [*self._join_words(kept), "/bin/true"]
            subprocess.run(words, env={}, timeout=_TIMEOUT_SECONDS, check=True)  # noqa: S603  as below
        except (OSError, ValueError, subprocess.SubprocessError):
            return None
        return kept

    def _open(self) -> tuple[int, int]:
        """Open a bubblewrap's namespaces. The bubblewrap then ends."""
        argv = [self._program, "--unshare-user", *ALONE, "--die-with-parent", "--cap-drop", "ALL"]
        argv += ["--ro-bind", "/", "/", "--", self._shell, "--noprofile", "--norc", "-c", _SCRIPT]
        read, write = os.pipe()
        with (
            os.fdopen(read, "rb") as output,
            subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=write, env={}) as first,  # noqa: S603  absolute paths outside the workspace
        ):
            os.close(write)
            answer = select.poll()
            answer.register(output, select.POLLIN)
            if not answer.poll(_TIMEOUT_SECONDS * 1000):
                first.kill()
                raise subprocess.TimeoutExpired(argv, _TIMEOUT_SECONDS)
            pid = int(output.readline())
            user, net = (os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in _KINDS)
            for fd in (user, net):
                weakref.finalize(self, os.close, fd)
            first.communicate(timeout=_TIMEOUT_SECONDS)
        return user, net

    def _join_words(self, kept: tuple[int, int]) -> list[str]:
        """Return the words to enter namespaces this process holds open."""
        own = f"/proc/{os.getpid()}/fd"
        names = [f"--{kind}={own}/{fd}" for kind, fd in zip(_KINDS, kept, strict=True)]
        return [self._enter, "--preserve-credentials", *names, "--"]
