"""Reads .gitignore and .ignore files, to mark ignored folder entries."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from handrail import ToolFailed
from handrail.tools._files.glob_pattern import GlobPattern

ReadText: TypeAlias = Callable[[str], str]
"""Returns a file's text by its path in the workspace; empty if it cannot be read."""

_MAX_RULES = 1_000
"""Rules read from one file."""
_FILES = (".gitignore", ".ignore")
_TRAILING_SPACES = re.compile(r"(?:(?<![\\ \t\r])|(?<=\\[ \t\r]))[ \t\r]++$")


class _IgnoreRule(NamedTuple):
    base: str
    """The folder the pattern is relative to, with a slash at its end; empty for the root."""
    pattern: GlobPattern
    ignores: bool
    """False for a rule that includes ignored files again."""
    folders_only: bool

    def matches(self, path: str, *, is_folder: bool) -> bool:
        if self.folders_only and not is_folder:
            return False
        return path.startswith(self.base) and bool(self.pattern.means(path[len(self.base) :]))


class IgnoreRules:
    """One folder's rules, from the workspace root down."""

    def __init__(self, folder: str, read_text: ReadText) -> None:
        steps = folder.split("/") if folder else []
        above = ["/".join(steps[:count]) for count in range(len(steps) + 1)]
        self._rules = [*_parse_rules("", read_text(".git/info/exclude"))]
        for place in above:
            base = f"{place}/" if place else ""
            for name in _FILES:
                self._rules += _parse_rules(base, read_text(f"{base}{name}"))
        self.ignores_all = any(self.ignore(place, is_folder=True) for place in above[1:])
        """Whether the folder itself is ignored."""

    def ignore(self, path: str, *, is_folder: bool) -> bool:
        """Return whether the last matching rule ignores an entry."""
        for rule in reversed(self._rules):
            if rule.matches(path, is_folder=is_folder):
                return rule.ignores
        return False


@lru_cache(maxsize=256)
def _parse_rules(base: str, text: str) -> tuple[_IgnoreRule, ...]:
    return tuple(_iterate_rules(base, text))


def _iterate_rules(base: str, text: str) -> Iterator[_IgnoreRule]:
    for line in text.split("\n")[:_MAX_RULES]:
        spelled = _TRAILING_SPACES.sub("", line)
        if not spelled or spelled.startswith("#"):
            continue
        ignores = not spelled.startswith("!")
        spelled = spelled if ignores else spelled[1:]
        bare = spelled.rstrip("/")
        try:
            pattern = GlobPattern(bare.removeprefix("/"), anywhere="/" not in bare, hidden=True)
        except ToolFailed:  # too long, or outside the folder
            continue
        yield _IgnoreRule(base, pattern, ignores, spelled.endswith("/"))
