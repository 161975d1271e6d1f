"""Access: one thing a call declares it will touch, as a verb and a resource."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from handrail._values.effect import DESTROY, READ, WRITE, Effect

Verb: TypeAlias = Literal["read", "write", "destroy"]
"""An effect by its name in lower case."""

EVERYTHING = "*"
"""The resource that contains all others."""

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:")
_PORT = re.compile(r"(.+):(\d+)")
_NO_RESOURCE = "{!r} is not a resource: write 'scheme:path', or '*' for everything"


_EFFECTS: dict[str, Effect] = {"read": READ, "write": WRITE, "destroy": DESTROY}


@dataclass(frozen=True, slots=True, init=False)
class Access:
    """One thing a call will touch, such as ``Access("write", "file:src/a.py")``.

    The verb is an ``Effect`` or its name in lower case; the attribute is always the ``Effect``.
    A resource is ``*`` (everything) or ``scheme:path``, where the path has segments between
    slashes. It is stored in normal form, so equal resources compare equal. Raises ValueError for
    any other verb or resource.
    """

    verb: Effect
    resource: str

    def __init__(self, verb: Effect | Verb, resource: str) -> None:
        object.__setattr__(self, "verb", verb if type(verb) is Effect else find_effect(verb))
        object.__setattr__(self, "resource", normal(resource))

    def __str__(self) -> str:
        return f"{self.verb.name.lower()} {self.resource}"

    def conflicts(self, other: Access) -> bool:
        """Return whether two accesses must not run in parallel.

        They conflict if their resources overlap and one of them is not a read.
        """
        if self.verb == READ and other.verb == READ:
            return False
        return meet(self.resource, other.resource)


def reads_file(path: object) -> Access:
    """Return the access of reading one file, or everything below one directory."""
    return Access(READ, f"file:{path}")


def writes_file(path: object) -> Access:
    """Return the access of creating or changing one file, or anything below one directory."""
    return Access(WRITE, f"file:{path}")


def find_effect(verb: Any) -> Effect:
    """Return this name's effect. Raises ValueError for any other value."""
    effect = _EFFECTS.get(verb) if isinstance(verb, str) else None
    if effect is None:
        raise ValueError(f"{verb!r} is not a verb: write 'read', 'write' or 'destroy'")
    return effect


def meet(first: str, second: str) -> bool:
    """Return whether two resources may be, or contain, the same thing."""
    first, second = territory(first), territory(second)
    return contains(first, second) or contains(second, first)


@lru_cache(maxsize=4096)
def territory(resource: str) -> str:
    """Return the smallest resource that certainly contains this one.

    A path from the root or from above may be any file, so it is replaced by its whole scheme.
    """
    scheme, _, path = resource.partition(":")
    return f"{scheme}:" if path.startswith(("/", "..")) else resource


def contains(outer: str, inner: str) -> bool:
    """Return whether the first resource is or contains the second. Both are in normal form."""
    if outer in (EVERYTHING, inner):
        return True
    return inner.startswith(outer if outer.endswith((":", "/")) else outer + "/")


def normal(resource: str) -> str:
    """Return the one spelling of a resource: no empty or ``.`` segments, ``..`` resolved.

    The port of a network host is a segment after the host. A path that leads above its root keeps
    its leading ``..``, so it differs from a path inside.
    """
    if not isinstance(resource, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(_NO_RESOURCE.format(resource))  # noqa: TRY004  as any other wrong one
    return _normalize(resource)


@lru_cache(maxsize=4096)
def _normalize(resource: str) -> str:
    if resource == EVERYTHING:
        return resource
    scheme = _SCHEME.match(resource)
    if scheme is None:
        raise ValueError(_NO_RESOURCE.format(resource))
    head, path = scheme[0], resource[scheme.end() :]
    root = "/" if path.startswith("/") else ""
    segments = _resolve_dots(path.split("/"), rooted=bool(root))
    if head == "net:" and segments and (port := _PORT.fullmatch(segments[0])):
        segments[:1] = [port[1], port[2]]
    return head + root + "/".join(segments)


def _resolve_dots(segments: Iterable[str], *, rooted: bool) -> list[str]:
    resolved: list[str] = []
    for segment in segments:
        if segment in ("", "."):
            continue
        if segment != "..":
            resolved.append(segment)
        elif resolved and resolved[-1] != "..":
            resolved.pop()
        elif not rooted:  # nothing is above an absolute root, but a relative one has parents
            resolved.append(segment)
    return resolved
