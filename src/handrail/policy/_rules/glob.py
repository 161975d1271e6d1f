"""Globs, compiled once. Matching takes time linear in the text, for every pattern.

``*`` and ``?`` match within a segment; ``**`` matches any segments. Everything else is literal,
including brackets and braces. The text between two stars matches at the first possible position,
without backtracking: a later position never matches more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

_Match = Callable[[str], bool]


def is_glob(pattern: str) -> bool:
    """Return whether a pattern has wildcards."""
    return "*" in pattern or "?" in pattern


@lru_cache(maxsize=4096)
def name_glob(pattern: str) -> _Match:
    """Compile a glob over a name without segments, such as a tool's: ``*`` matches any text."""
    return (
        _matcher(_segment_pattern(pattern, r"[\s\S]") + r"\Z")
        if is_glob(pattern)
        else pattern.__eq__
    )


@lru_cache(maxsize=4096)
def path_glob(pattern: str) -> _Match:
    """Compile a glob over a path with segments between slashes. ``a/**`` matches ``a`` too."""
    if not is_glob(pattern):
        return pattern.__eq__
    segments = pattern.split("/")
    return _matcher(_path_pattern(segments)) if segments != ["**"] else lambda _: True


def compile_segments(patterns: Iterable[str]) -> _Match:
    """Compile several globs over one segment, as a test for any match."""
    regexes = [rf"(?:{_segment_pattern(pattern, '[^/]')})\Z" for pattern in patterns]
    return _matcher("|".join(regexes)) if regexes else lambda _: False


def literal_prefix(pattern: str) -> str:
    """Return the segments before the first one with a wildcard."""
    literal: list[str] = []
    for segment in pattern.split("/"):
        if is_glob(segment):
            break
        literal.append(segment)
    return "/".join(literal)


def _matcher(pattern: str) -> _Match:
    match = re.compile(pattern).match
    return lambda text: match(text) is not None


def _path_pattern(segments: Sequence[str]) -> str:
    """Return a regex: literal runs between double stars, the first and the last anchored."""
    runs: list[list[str]] = [[]]
    for segment in segments:
        if segment == "**":
            runs.append([])
        else:
            runs[-1].append(segment)
    first, *others = [
        "/".join(_segment_pattern(segment, "[^/]") for segment in run) if run else None
        for run in runs
    ]
    if not others:
        return rf"{first}\Z"
    *middle, last = others
    end = "/" if last is not None else r"(?:/|\Z)"
    inner = [run for run in middle if run is not None]
    pattern = "" if first is None else f"{first}/" if inner else f"{first}{end}"
    pattern += "".join(f"(?>(?:[^/]*/)*?{run}/)" for run in inner[:-1])
    pattern += "".join(f"(?>(?:[^/]*/)*?{run}{end})" for run in inner[-1:])
    return pattern if last is None else rf"{pattern}(?:[^/]*/)*{last}\Z"


def _segment_pattern(segment: str, any_letter: str) -> str:
    """Return a regex for one segment: each piece where it first matches, the last at the end."""
    first, *others = [
        "".join(any_letter if character == "?" else re.escape(character) for character in piece)
        for piece in segment.split("*")
    ]
    if not others:
        return first
    *middle, last = others
    between = "".join(f"(?>{any_letter}*?{piece})" for piece in middle if piece)
    return f"{first}{between}{any_letter}*{last}"
