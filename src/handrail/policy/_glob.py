"""Globs: compiled once, and matched in time that grows with the text, whatever the pattern.

``*`` and ``?`` stay within a segment, ``**`` stands for any number of segments. Everything else is
literal, brackets and braces too. What stands between two stars is taken at the first place where it
fits, and never given back: an earlier place is never a worse one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

_Match = Callable[[str], bool]


def is_glob(pattern: str) -> bool:
    """Whether a pattern stands for more than itself."""
    return "*" in pattern or "?" in pattern


@lru_cache(maxsize=4096)
def name_glob(pattern: str) -> _Match:
    """A glob over a plain name, such as a tool's: ``*`` is any text."""
    return _matcher(_stars(pattern, r"[\s\S]") + r"\Z") if is_glob(pattern) else pattern.__eq__


@lru_cache(maxsize=4096)
def path_glob(pattern: str) -> _Match:
    """A glob over a path of segments between slashes. What lies at ``a`` matches ``a/**`` too."""
    if not is_glob(pattern):
        return pattern.__eq__
    segments = pattern.split("/")
    return _matcher(_path(segments)) if segments != ["**"] else lambda _: True


def fixed_part(pattern: str) -> str:
    """The path above the first segment that is not literal."""
    kept: list[str] = []
    for segment in pattern.split("/"):
        if is_glob(segment):
            break
        kept.append(segment)
    return "/".join(kept)


def _matcher(pattern: str) -> _Match:
    match = re.compile(pattern).match
    return lambda text: match(text) is not None


def _path(segments: Sequence[str]) -> str:
    """Runs of segments between double stars: the first at the start, the last at the end."""
    runs: list[list[str]] = [[]]
    for segment in segments:
        if segment == "**":
            runs.append([])
        else:
            runs[-1].append(segment)
    first, *others = ["/".join(_stars(one, "[^/]") for one in run) if run else None for run in runs]
    if not others:
        return rf"{first}\Z"
    *middle, last = others
    end = "/" if last is not None else r"(?:/|\Z)"
    inner = [run for run in middle if run is not None]
    found = "" if first is None else f"{first}/" if inner else f"{first}{end}"
    found += "".join(f"(?>(?:[^/]*/)*?{run}/)" for run in inner[:-1])
    found += "".join(f"(?>(?:[^/]*/)*?{run}{end})" for run in inner[-1:])
    return found if last is None else rf"{found}(?:[^/]*/)*{last}\Z"


def _stars(segment: str, any_letter: str) -> str:
    """One segment: each piece between stars where it first fits, the last one at the end."""
    first, *others = [
        "".join(any_letter if one == "?" else re.escape(one) for one in piece)
        for piece in segment.split("*")
    ]
    if not others:
        return first
    *middle, last = others
    between = "".join(f"(?>{any_letter}*?{piece})" for piece in middle if piece)
    return f"{first}{between}{any_letter}*{last}"
