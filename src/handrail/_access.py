"""What one call will touch, said before it runs: a verb and a resource."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from handrail._effect import READ, WRITE, Effect

EVERYTHING = "*"
"""The resource that contains all others."""

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:")
_PORT = re.compile(r"(.+):(\d+)")


@dataclass(frozen=True, slots=True)
class Access:
    """One thing one call will touch, such as ``write file:src/a.py``.

    A resource is ``*`` (everything) or ``scheme:path``; the path is a hierarchy of segments
    between slashes. It is stored in normal form, so equal resources compare equal.
    """

    verb: Effect
    resource: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "resource", normal(self.resource))

    def __str__(self) -> str:
        return f"{self.verb.name.lower()} {self.resource}"

    def conflicts(self, other: Access) -> bool:
        """Whether the two may not run side by side: the resources meet, and one is not a read."""
        if self.verb == READ and other.verb == READ:
            return False
        return meet(self.resource, other.resource)


def read_file(path: object) -> Access:
    """Read one file, or everything below one directory."""
    return Access(READ, f"file:{path}")


def write_file(path: object) -> Access:
    """Create or change one file, or anything below one directory."""
    return Access(WRITE, f"file:{path}")


def meet(one: str, other: str) -> bool:
    """Whether two resources may be, or hold, the same thing."""
    one, other = territory(one), territory(other)
    return contains(one, other) or contains(other, one)


@lru_cache(maxsize=4096)
def territory(resource: str) -> str:
    """The least that is certain to hold a resource.

    A path from the root or from above may be any file, so it stands for its whole scheme.
    """
    scheme, _, path = resource.partition(":")
    return f"{scheme}:" if path.startswith(("/", "..")) else resource


def contains(outer: str, inner: str) -> bool:
    """Whether the first resource is the second one or lies above it. Both in normal form."""
    if outer in (EVERYTHING, inner):
        return True
    return inner.startswith(outer if outer.endswith((":", "/")) else outer + "/")


@lru_cache(maxsize=4096)
def normal(resource: str) -> str:
    """One spelling per resource: empty and ``.`` segments dropped, ``..`` folded, a port set apart.

    A path that climbs above its root keeps its leading ``..``: it lies outside, and says so.
    """
    if resource == EVERYTHING:
        return resource
    scheme = _SCHEME.match(resource)
    if scheme is None:
        raise ValueError(f"{resource!r} is no resource: write 'scheme:path', or '*' for everything")
    head, path = scheme[0], resource[scheme.end() :]
    root = "/" if path.startswith("/") else ""
    segments = _folded(path.split("/"), rooted=bool(root))
    if head == "net:" and segments and (port := _PORT.fullmatch(segments[0])):
        segments[:1] = [port[1], port[2]]
    return head + root + "/".join(segments)


def _folded(segments: Iterable[str], *, rooted: bool) -> list[str]:
    kept: list[str] = []
    for segment in segments:
        if segment in ("", "."):
            continue
        if segment != "..":
            kept.append(segment)
        elif kept and kept[-1] != "..":
            kept.pop()
        elif not rooted:  # above a known root there is nothing; above a relative one there is
            kept.append(segment)
    return kept
