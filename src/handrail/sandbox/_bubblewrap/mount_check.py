"""Checks that bubblewrap mounted what its options say.

Bubblewrap resolves paths outside the sandbox, where running commands may replace them by links. A
mount could then show another folder, or be in another location. So a command's mounts are checked
before it runs. In a writable folder, each mount must show the path it covers. Elsewhere, only
system and view mounts are allowed.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

_ESCAPED: Final = re.compile(rb"[ \t\n\\]")
_HOST: Final = Path("/proc/self/mountinfo")
MountSource: TypeAlias = tuple[bytes, bytes]
"""What a mount shows: a device, and a path in its file system."""


class Mount(NamedTuple):
    """One line in the kernel's list. Paths are not decoded, because there are many."""

    device: bytes
    shows: bytes
    point: bytes
    rest: bytes
    """Its options, with "ro" or "rw" first, and its file system type."""

    @property
    def is_tmpfs(self) -> bool:
        """Whether it is an empty file system in memory."""
        return self.shows == b"/" and b" - tmpfs " in self.rest


@dataclass(frozen=True, slots=True)
class MountPlan:
    """The expected mounts, in addition to the system view."""

    written: tuple[str, ...]
    kept: tuple[str, ...]
    """Read-only paths."""
    covers: tuple[str, ...]
    """Mount points showing something else than the path outside."""
    stand_ins: tuple[str, ...]
    """Sources they may show, in addition to an empty folder."""
    shown: tuple[tuple[str, str], ...]
    """Other mount points, and the paths outside they show with all mounts inside."""


def count_added(text: bytes) -> Counter[bytes]:
    """Count how many more mounts each point has than in this process. Fewer are below zero."""
    return _subtract(_parse_mounts(text), _count_points(_parse_mounts(read_host_mounts())))


def read_host_mounts() -> bytes:
    """Read the kernel's list for this process."""
    return _HOST.read_bytes()


class MountCheck:
    """This process's mounts, prepared for comparison with a command's."""

    def __init__(self, plan: MountPlan, view: Counter[bytes], text: bytes) -> None:
        host = _parse_mounts(text)
        self._known = {mount[:3] for mount in host}
        self._sources = {mount.point: (mount.device, mount.shows) for mount in host}
        self._written = _kernel_paths(plan.written)
        self._below = tuple(path + b"/" for path in self._written)
        self._host = _count_points(mount for mount in host if not self._is_inside(mount.point))
        covers = _kernel_paths(plan.covers)
        self._others = Counter(point for point in covers if not self._is_inside(point))
        self._others.update(view)
        for shown in plan.shown:
            point, source = _kernel_paths(shown)
            self._others.update([point, *self._moved_mounts(source, point)])
        self._covers = sorted(point for point in covers if self._is_inside(point))
        self._fine = {self._source_at(path) for path in _kernel_paths(plan.stand_ins)}
        self._kept = _kernel_paths(plan.kept)

    def holds(self, text: bytes) -> bool:
        """Return whether these are exactly the system, view and planned mounts."""
        mounts = _parse_mounts(text)
        inside = [mount for mount in mounts if self._is_inside(mount.point)]
        top = {mount.point: mount.rest for mount in inside}
        outside = _subtract((mount for mount in mounts if mount.point not in top), self._host)
        return (
            outside == self._others
            and self._are_honest(inside)
            and all(path in top for path in self._written)
            and all(top.get(path, b"").startswith(b"ro") for path in self._kept)
        )

    def _is_inside(self, point: bytes) -> bool:
        return point.startswith(self._below) or point in self._written

    def _moved_mounts(self, source: bytes, point: bytes) -> Iterator[bytes]:
        """Yield where the mounts below a path appear if the path is mounted at a point."""
        for known in self._host.elements():
            if known.startswith(source + b"/"):
                yield point + known[len(source) :]

    def _are_honest(self, inside: Iterable[Mount]) -> bool:
        """Return whether each mount shows the path it covers, or is an expected cover."""
        strange = [
            mount
            for mount in inside
            if mount[:2] != self._source_at(mount.point) and mount[:3] not in self._known
        ]
        return sorted(mount.point for mount in strange) == self._covers and all(
            mount[:2] in self._fine or mount.is_tmpfs for mount in strange
        )

    def _source_at(self, path: bytes) -> MountSource:
        """Return the source at a real path outside, by the mount containing it."""
        top = path
        while top not in self._sources:
            top = top.rpartition(b"/")[0] or b"/"
        if top != path:  # cached for the next command
            device, shows = self._sources[top]
            self._sources[path] = device, shows.rstrip(b"/") + path[len(top.rstrip(b"/")) :]
        return self._sources[path]


def _parse_mounts(text: bytes) -> list[Mount]:
    """Read the kernel's list."""
    return [Mount(*line.split(b" ", 5)[2:]) for line in text.splitlines()]


def _kernel_paths(paths: Iterable[str]) -> tuple[bytes, ...]:
    """Return paths in the kernel's notation."""
    return tuple(
        _ESCAPED.sub(lambda match: b"\\%03o" % ord(match[0]), os.fsencode(path)) for path in paths
    )


def _count_points(mounts: Iterable[Mount]) -> Counter[bytes]:
    return Counter([mount.point for mount in mounts])


def _subtract(mounts: Iterable[Mount], host: Counter[bytes]) -> Counter[bytes]:
    more = _count_points(mounts)
    more.subtract(host)
    return more
