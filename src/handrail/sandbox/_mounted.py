"""Whether bubblewrap mounted what it was told to.

It resolves paths on the host, while commands that run already may put links in their way: a mount
could then show another folder than the one that was meant, or lie elsewhere. So the mounts that a
command would see are looked at before it runs. In a folder that commands write, each has to show
the very place that it lies on; elsewhere there may be none but those of the host and of the view.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

_ESCAPED: Final = re.compile(rb"[ \t\n\\]")
_HOST: Final = Path("/proc/self/mountinfo")
Place: TypeAlias = tuple[bytes, bytes]
"""What a mount shows, whatever its name here: a device, and a path in its file system."""


class Mount(NamedTuple):
    """One line of the kernel's list. Paths stay as they are written there: there are many."""

    device: bytes
    shows: bytes
    point: bytes
    rest: bytes
    """Its options, with "ro" or "rw" first, and the kind of its file system."""

    @property
    def blank(self) -> bool:
        """Whether it is a whole file system in memory."""
        return self.shows == b"/" and b" - tmpfs " in self.rest


@dataclass(frozen=True, slots=True)
class Plan:
    """What there is to be mounted, besides the view of the host."""

    written: tuple[str, ...]
    kept: tuple[str, ...]
    """Has to be read-only."""
    covers: tuple[str, ...]
    """Points that show something else than what the host has there."""
    stand_ins: tuple[str, ...]
    """What they may show, besides an empty folder."""


def added(text: bytes) -> Counter[bytes]:
    """How many more mounts there are at each point than in this process; fewer are below zero."""
    return _more(_mounts(text), _points(_mounts(host())))


def host() -> bytes:
    """The kernel's list for this process."""
    return _HOST.read_bytes()


class Check:
    """The mounts of the host, made ready to compare others with them."""

    def __init__(self, plan: Plan, view: Counter[bytes], text: bytes) -> None:
        host = _mounts(text)
        self._known = {one[:3] for one in host}
        self._places = {one.point: (one.device, one.shows) for one in host}
        self._written = _all(plan.written)
        self._below = tuple(one + b"/" for one in self._written)
        self._host = _points(one for one in host if not self._inside(one.point))
        covers = _all(plan.covers)
        self._others = Counter(one for one in covers if not self._inside(one))
        self._others.update(view)
        self._covers = sorted(one for one in covers if self._inside(one))
        self._fine = {self._at(one) for one in _all(plan.stand_ins)}
        self._kept = _all(plan.kept)

    def holds(self, text: bytes) -> bool:
        """Whether these mounts are the host's, the view's and the plan's, and no others."""
        found = _mounts(text)
        inside = [one for one in found if self._inside(one.point)]
        top = {one.point: one.rest for one in inside}
        outside = _more((one for one in found if one.point not in top), self._host)
        return (
            outside == self._others
            and self._honest(inside)
            and all(one in top for one in self._written)
            and all(top.get(one, b"").startswith(b"ro") for one in self._kept)
        )

    def _inside(self, point: bytes) -> bool:
        return point.startswith(self._below) or point in self._written

    def _honest(self, inside: Iterable[Mount]) -> bool:
        """Whether each shows the place that it lies on, or is the one that covers it."""
        strange = [
            one for one in inside if one[:2] != self._at(one.point) and one[:3] not in self._known
        ]
        return sorted(one.point for one in strange) == self._covers and all(
            one[:2] in self._fine or one.blank for one in strange
        )

    def _at(self, path: bytes) -> Place:
        """What the host has at a real path: by the mount that it lies in."""
        top = path
        while top not in self._places:
            top = top.rpartition(b"/")[0] or b"/"
        if top != path:  # kept: the next command asks the same
            device, shows = self._places[top]
            self._places[path] = device, shows.rstrip(b"/") + path[len(top.rstrip(b"/")) :]
        return self._places[path]


def _mounts(text: bytes) -> list[Mount]:
    """Read the kernel's list."""
    return [Mount(*line.split(b" ", 5)[2:]) for line in text.splitlines()]


def _all(paths: Iterable[str]) -> tuple[bytes, ...]:
    """Paths as the kernel writes them."""
    return tuple(_ESCAPED.sub(lambda one: b"\\%03o" % ord(one[0]), os.fsencode(p)) for p in paths)


def _points(mounts: Iterable[Mount]) -> Counter[bytes]:
    return Counter([one.point for one in mounts])


def _more(found: Iterable[Mount], host: Counter[bytes]) -> Counter[bytes]:
    more = _points(found)
    more.subtract(host)
    return more
