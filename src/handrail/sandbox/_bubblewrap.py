"""Tier A: bubblewrap, which gives a command namespaces of its own and a view of the files."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from handrail.sandbox import _environment as environment
from handrail.sandbox import _seccomp as seccomp
from handrail.sandbox._mounted import Check, Plan, added, host
from handrail.sandbox._protected import Scene, beneath
from handrail.sandbox._room import Room
from handrail.sandbox._words import Report, Unavailable

if TYPE_CHECKING:
    from handrail.net import Proxy
    from handrail.sandbox._running import Running
    from handrail.sandbox._targets import Targets
    from handrail.sandbox._way_out import WayOut

_ALONE: Final = """
    --unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try --unshare-net
    --disable-userns --die-with-parent --new-session --cap-drop ALL --clearenv
""".split()
_VIEW: Final = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
_SETTINGS: Final = tuple(
    word
    for name in ("acpi", "fs", "mtrr", "scsi", "sys", "sysrq-trigger")
    for word in ("--ro-bind-try", f"/proc/{name}", f"/proc/{name}")
)
"""Of the machine. The kernel lets the user root write them, with or without capabilities."""
_TEMPORARY: Final = ("/tmp", "/var/tmp")  # noqa: S108  private folders are shown there
_INSTALL: Final = "Install it (`apt-get install bubblewrap`), version 0.8 or later."
_ON: Final = (
    "writes end at the workspace and private folders for temporary files (mounts)",
    "names that other programs act on (.git/hooks, .vscode, ...) are read-only (mounts)",
    "secrets in the home folder, and what is masked, cannot be read (mounts)",
    "other processes cannot be seen, and end with the command (namespace for processes)",
    "no sockets but those of the command's own loopback (namespace for networks, filter)",
    "no capabilities, no new privileges, no tracing, mounts, namespaces, keys or io_uring (filter)",
    "an environment of its own; no input, no terminal; limits on memory, files and core dumps",
)
_OPEN: Final = (
    "other files of this machine can be read",
    "what the host mounts while a command runs may be seen and written by it",
    "named pipes of other programs can be written, where the user may",
    "a command that is quick while another starts may have an empty file or folder made outside",
    "repositories that a command makes or finds below the workspace are not protected",
    "the kernel itself, and what processors leak: for hostile code, take a virtual machine",
)


def find(root: str) -> str:
    """The program, from a folder that no command can write."""
    found = shutil.which("bwrap", path=os.pathsep.join(environment.folders(root)))
    if found is None:
        raise Unavailable(f"bubblewrap was not found. {_INSTALL}")
    return os.path.realpath(found)


@functools.cache
def probe(program: str) -> Counter[bytes]:
    """Try it once with everything switched on; a machine may have it and not let it work.

    Returns:
        Where it mounts something for the view, besides what the host has there.
    """
    tried = subprocess.run(  # noqa: S603  an absolute path outside the workspace
        [program, *_ALONE, *_view(), "--", "/bin/cat", "/proc/self/mountinfo"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={},
        timeout=20,
        check=False,
    )
    if tried.returncode != 0:
        said = tried.stderr.decode(errors="replace").strip().removeprefix("bwrap: ")
        raise Unavailable(
            f"bubblewrap is installed and does not work here (it says: {said or 'nothing'}). "
            "It has to be version 0.8 or later, and user namespaces have to be allowed."
        )
    return added(tried.stdout)


def _view() -> tuple[str, ...]:
    return (*_VIEW, *_SETTINGS) if os.geteuid() == 0 else _VIEW


def _way_out(room: Room, network: Sequence[str] | Proxy) -> WayOut:
    from handrail.sandbox._way_out import WayOut  # noqa: PLC0415  loads all of the net

    return WayOut(room, network)


class Tier:
    """Commands in bubblewrap."""

    def __init__(self, room: Room, network: Sequence[str] | Proxy) -> None:
        self._filter = seccomp.program(seccomp.INTERNET)
        self._program = find(room.root)
        self._view = probe(self._program)
        self._room = room
        self._private = [room.folder(name) for name in ("tmp", "var")]
        self._empty = f"{room.temporary}/empty"
        Path(self._empty).touch(0o444)
        self._way_out = _way_out(room, network) if network else None
        self._words: dict[Scene, bytes] = {}
        self._last: tuple[Scene, bytes, Check] | None = None

    def report(self) -> Report:
        """What namespaces, mounts and the filter hold."""
        hosts = (f"hosts that can be reached: {self._way_out.hosts}",) if self._way_out else ()
        return Report("bubblewrap", _ON, (*hosts, *_OPEN))

    def start(
        self, command: str, cwd: str, variables: Mapping[str, str], *, notes: bool
    ) -> Running:
        """Start a command. Its file descriptors are the output, the notes, and no other."""
        # a sandbox is often made, to see whether there can be one, and never used
        from handrail.sandbox import _launch as launch  # noqa: PLC0415

        targets = launch.Targets(self._room.root)
        try:
            now = self._room.scene()
            targets.note(now.missing)
            wrap = launch.Wrap(
                self._room,
                self._program,
                self._filter,
                self._arguments(now, cwd, variables),
                self._way_out,
                lambda: self._check(now, host()),
            )
            release = functools.partial(self._release, targets)
            return launch.launched(command, wrap, release, notes=notes)
        except BaseException:
            targets.release()
            raise

    def _release(self, targets: Targets) -> None:
        """A command that knows how to do this keeps the sandbox, and its private folders."""
        targets.release()

    def _arguments(self, now: Scene, cwd: str, variables: Mapping[str, str]) -> bytes:
        """What bubblewrap is told besides the command."""
        if now not in self._words:
            self._words[now] = _packed(self._fixed(now))
        return self._words[now] + _packed([*_set(variables), "--chdir", cwd])

    def _check(self, now: Scene, mounts: bytes) -> Check:
        if self._last is None or self._last[:2] != (now, mounts):
            self._last = now, mounts, Check(self._plan(now), self._view, mounts)
        return self._last[2]

    def _plan(self, now: Scene) -> Plan:
        """What has to come of these arguments."""
        room = self._room
        missing = (f"{room.root}/{name}" for name in now.missing)
        shown = self._way_out.shown if self._way_out else {}
        return Plan(
            written=room.written,
            kept=now.kept,
            covers=(*_TEMPORARY, *missing, *self._covered(now), *shown),
            stand_ins=(*self._private, self._empty, *shown.values()),
        )

    def _covered(self, now: Scene) -> list[str]:
        """The secrets that are in sight."""
        return [one for one in now.secret if not _out_of_sight(one, self._room.written)]

    def _fixed(self, now: Scene) -> list[str]:
        """What is the same for each command for as long as the workspace looks the same."""
        room = self._room
        missing = [f"{room.root}/{name}" for name in now.missing]
        secret = self._covered(now)
        words = [*_ALONE, *_set(room.seen(_TEMPORARY[0])), *_view()]
        for private, path in zip(self._private, _TEMPORARY, strict=True):
            words += ("--bind", private, path)
        for path in (*room.written, *_above((*now.kept, *missing, *secret), room.written)):
            words += ("--bind", path, path)
        for path in now.kept:
            words += ("--ro-bind", path, path)
        for path in (*missing, *(one for one in secret if Path(one).is_dir())):
            words += ("--perms", "0555", "--tmpfs", path, "--remount-ro", path)
        for path in (one for one in secret if not Path(one).is_dir()):
            words += ("--ro-bind", self._empty, path)
        return words + (self._way_out.mounts() if self._way_out else [])


def _above(paths: Iterable[str], written: Sequence[str]) -> list[str]:
    """The folders between a writable one and what is held in it.

    A mount of its own cannot be renamed, so what is mounted below cannot be moved out of the way.
    """
    return sorted(
        {
            str(folder)
            for path in paths
            for folder in Path(path).parents
            if str(folder) not in written and any(beneath(str(folder), one) for one in written)
        }
    )


def _out_of_sight(path: str, written: Sequence[str]) -> bool:
    """Whether the private folders for temporary files hide it already."""
    return any(beneath(path, one) for one in _TEMPORARY) and not any(
        beneath(path, one) for one in written
    )


def _set(variables: Mapping[str, str]) -> list[str]:
    return [word for name, value in variables.items() for word in ("--setenv", name, value)]


def _packed(words: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(word) + b"\0" for word in words)
