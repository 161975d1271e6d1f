"""Finds the folders that a glob pattern matches: ripgrep lists files only."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from functools import cache, partial
from typing import Final

from handrail.tools._files.folder_listing import read_rules
from handrail.tools._files.ignore_rules import IgnoreRules
from handrail.tools._files.paths import quote_path
from handrail.tools._files.workspace import Workspace
from handrail.tools._search.selection import FileSelection

_MAX_ENTRIES: Final = 20_000
"""Entries of folders that are inspected."""
_MAX_NAMED: Final = 50
_PLAIN_NAME: Final = re.compile(r"\.?[\w -]+")
"""A name that a folder may have, without wildcards and without an ending."""


def describe_folders(workspace: Workspace, above: str, selection: FileSelection) -> str:
    """Return a note on the folders below ``above`` that match; empty if there are none."""
    found = sorted(_matching_folders(workspace, above, selection))
    if not found:
        return ""
    named = ", ".join(quote_path(f"{folder}/") for folder in found[:_MAX_NAMED])
    more = f" and {len(found) - _MAX_NAMED:,} more" * (len(found) > _MAX_NAMED)
    return f"Matching folders: {named}{more}."


def _matching_folders(workspace: Workspace, above: str, selection: FileSelection) -> Iterator[str]:
    depth = _find_depth(selection.text)
    left, todo = _MAX_ENTRIES, deque([(above.rstrip("/"), 1)])
    read_text = cache(partial(read_rules, workspace))
    while todo and left > 0:
        folder, level = todo.popleft()
        if level > depth:
            return
        entries = workspace.list_folder(folder)
        left -= len(entries) + 1
        base = f"{folder}/" if folder else ""
        inner = [f"{base}{entry.name}" for entry in entries if entry.is_folder]
        rules = IgnoreRules(folder, read_text)
        for path in inner:
            if _is_searched(path, selection, rules) and not workspace.is_hidden(path):
                todo.append((path, level + 1))
                if selection.picks(path[len(above) :]):
                    yield path


def _is_searched(path: str, selection: FileSelection, rules: IgnoreRules) -> bool:
    name = path.rpartition("/")[2]
    if name == ".git" or (name.startswith(".") and not selection.scope.hidden):
        return False
    return selection.ignored or rules.ignores_all or not rules.ignore(path, is_folder=True)


def _find_depth(pattern: str) -> int:
    """Return how many levels of folders can match; 0 if only files are meant."""
    steps = pattern.rstrip("/").split("/")
    if "**" not in steps:
        return len(steps)
    return _MAX_ENTRIES if _PLAIN_NAME.fullmatch(steps[-1]) else 0
