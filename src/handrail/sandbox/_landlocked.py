"""Tier B: Landlock and a filter for system calls, where there is no bubblewrap."""

from __future__ import annotations

import functools
import os
import subprocess
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from handrail.net import Proxy
from handrail.sandbox import _kernel as kernel
from handrail.sandbox import _landlock as landlock
from handrail.sandbox import _script as script
from handrail.sandbox import _seccomp as seccomp
from handrail.sandbox._pipes import Pipes
from handrail.sandbox._room import Room
from handrail.sandbox._running import Running, Stream
from handrail.sandbox._spawn import popen
from handrail.sandbox._tree import Tree, markable
from handrail.sandbox._words import Report, Unavailable

_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_ON: Final = (
    "writes end at the workspace and a private folder for temporary files (Landlock)",
    "contents of secrets in the home folder, and of what is masked, cannot be read (Landlock)",
    "no network and no sockets at all (filter for system calls)",
    "no capabilities, no new privileges, no tracing, mounts, namespaces, keys or io_uring",
    "an environment of its own; no input, no terminal; limits on memory, files and core dumps",
    "all that a command starts ends with it",
)
_OPEN: Final = (
    "modes, times and extended attributes of files outside can be changed, where the user may",
    "where the user is root, that makes any program setuid",
    "names that other programs act on (.git/hooks, .vscode, ...) can be written",
    "other processes, and the temporary files of others, can be seen",
    "the names of masked files can be listed",
    "commands go on if this process is killed",
    "no hosts can be allowed",
)
_SIGNALS: Final = "signals can be sent to other processes of this user (this needs Linux 6.12)"
_SCOPES: Final = 6


class Tier:
    """Commands that live by the rules of a thread which has ended."""

    def __init__(self, room: Room, network: Sequence[str] | Proxy) -> None:
        if network:
            raise Unavailable("Hosts can be allowed with bubblewrap only.")
        if kept := room.kept():
            raise Unavailable(f"{kept[0]} can be kept as it is with bubblewrap only.")
        self._filter = seccomp.program(())
        self._version = kernel.landlock_version()
        landlock.required(self._version)
        markable()
        self._room = room
        self._temporary = room.folder("tmp")
        self._variables = room.seen(self._temporary)
        self._made: _Rules | None = None

    def report(self) -> Report:
        """What Landlock and the filter hold."""
        return report(self._version)

    def start(
        self, command: str, cwd: str, variables: Mapping[str, str], *, notes: bool
    ) -> Running:
        """Start a command. It waits until it is marked, and for nothing else."""
        with Pipes() as pipes:
            output, gate = pipes.output(), pipes.gate()
            noted = pipes.reading() if notes else None
            opening = script.waiting(gate.theirs) + (script.noting(noted.theirs) if noted else "")
            words = script.argv(self._room.shell, command, self._room.limits, opening=opening)
            seen = {**self._variables, **variables}
            process = self._spawned(
                lambda: popen(words, output=output.theirs, env=seen, fds=pipes.inherited, cwd=cwd)
            )
            tree = Tree(process.pid)
            os.write(gate.ours, b"\n")
            os.close(gate.ours)
        return Running(
            process,
            output=Stream(output.ours),
            notes=Stream(noted.ours) if noted else None,
            clear=functools.partial(self._clear, tree),
        )

    async def _clear(self, tree: Tree) -> None:
        """A command that knows how to do this keeps the sandbox, and its private folder."""
        await tree.clear()

    def _spawned(self, work: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        return landlock.restricted(work, [self._rules()], self._filter)

    def _rules(self) -> int:
        """Made anew when a folder has changed that had to be split around something hidden."""
        hidden = self._room.secrets()
        now = landlock.state(hidden, self._room.written)
        if self._made is None or self._made.state != now:
            self._made = _Rules(now, landlock.ruleset(self._version, self._allowed(hidden)))
        return self._made.fd

    def _allowed(self, hidden: Sequence[str]) -> Iterator[tuple[str, int]]:
        yield "/", landlock.LIST
        for path in landlock.all_but(hidden):
            yield path, landlock.READ
        for top in (*self._room.written, self._temporary, *_DEVICES):
            yield top, landlock.MAKE
            for path in landlock.all_but(hidden, top):
                yield path, landlock.WRITE


class _Rules:
    """Rules as the kernel has them, and what they were made from."""

    def __init__(self, state: object, fd: int) -> None:
        self.state = state
        self.fd = fd
        weakref.finalize(self, os.close, fd)


def report(version: int) -> Report:
    """What this version of Landlock holds."""
    left = _OPEN if version >= _SCOPES else (*_OPEN, _SIGNALS)
    return Report("landlock", _ON, left)
