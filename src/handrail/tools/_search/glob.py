"""The glob tool: finds files by name."""

from __future__ import annotations

import os
import re
from bisect import bisect
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from heapq import nsmallest
from itertools import accumulate
from typing import Any, Final

import anyio.to_thread

from handrail import READ, Access, Context, Tool, ToolFailed, tool
from handrail.tools._descriptions import GLOB_DESCRIPTION
from handrail.tools._files.folder_listing import read_rules
from handrail.tools._files.ignore_rules import IgnoreRules
from handrail.tools._files.paths import quote_path
from handrail.tools._files.workspace import Workspace
from handrail.tools._habits import GLOB_INSTEAD_OF, GLOB_SYNONYMS
from handrail.tools._search.hits import name_order
from handrail.tools._search.query import SearchEnd, SearchPlace
from handrail.tools._search.ripgrep import Ripgrep
from handrail.tools._search.selection import FileSelection
from handrail.tools._search.shared import (
    EVERYTHING_SEEN,
    FOLDER_EXCLUDED,
    SECONDS,
    Clock,
    check_range,
    describe_end,
    describe_excluded,
    is_excluded,
    open_place,
)

_MAX_ENTRIES: Final = 20_000
"""Inspected folder entries."""
_MAX_NAMED: Final = 50
_PLAIN_NAME: Final = re.compile(r"\.?[\w -]+")
"""A name a folder may have, without wildcards and without an ending."""


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


_DEFAULT_LIMIT: Final = 200
_MAX_LIMIT: Final = 1_000
MAX_DATED_FILES: Final = 10_000
"""Files sorted by age; more are sorted by name."""
_MAX_PAGE_CHARS: Final = 20_000


def glob(
    workspace: Workspace, *, seconds: float = SECONDS, ripgrep: str | None = None
) -> Tool[..., Any]:
    """Make a tool that finds files of a workspace by name with ripgrep.

    Args:
        workspace: The workspace to search.
        seconds: The time limit of a call; after it, the files found so far are returned.
        ripgrep: The program's path. By default it is searched for outside the workspace.
    """
    program = Ripgrep(ripgrep) if ripgrep else Ripgrep.find(outside=workspace.root)

    def touches(path: str, **_: object) -> tuple[Access, ...]:
        return workspace.access(READ, path)

    @tool(
        description=GLOB_DESCRIPTION,
        effect=READ,
        touches=touches,
        timeout=seconds + 10,
        max_chars=_MAX_PAGE_CHARS * 2,
        tags=workspace.tags,
        synonyms=GLOB_SYNONYMS,
        instead_of=GLOB_INSTEAD_OF,
    )
    async def glob(
        pattern: str,
        path: str = ".",
        *,
        include_ignored: bool = False,
        hidden: bool = False,
        limit: int = _DEFAULT_LIMIT,
        call: Context,
    ) -> str:
        """Find files by name.

        Args:
            pattern: Glob pattern, such as "**/*.py", "src/**/test_*.ts" or "docs/*.{md,txt}". "*"
                stays within one folder; "**/" matches any folders.
            path: Folder the pattern is relative to.
            include_ignored: Include files matched by .gitignore and similar.
            hidden: Include files with a leading dot in their path.
            limit: Number of files to show, at most 1000.
            call: The call's context.
        """
        engine = program or Ripgrep.require(outside=workspace.root)
        check_range("limit", limit, 1, _MAX_LIMIT)
        if not pattern:
            raise ToolFailed("The pattern is empty. '**/*' matches every file.")
        selection = FileSelection(pattern, ignored=include_ignored, hidden=hidden)
        whole = f"{path.rstrip('/')}/{pattern}"
        with open_place(workspace, path, call, instead=f"pattern={whole!r}") as place:
            if place.file is not None:
                raise ToolFailed(f"{path!r} is a file. Pass a folder as path, or use read.")
            answer = await _GlobSearch(workspace, engine, place, Clock(seconds)).answer(selection)
            paths, order = await _sort_paths(answer.listing, place)
        answer = replace(answer, notes=[describe_end(answer.end, seconds), *answer.notes])
        hint = "" if paths or answer.folders else _hint(workspace, answer.listing.above, pattern)
        return _format_answer(answer, paths[:limit], order, hint)

    return glob


class _Listing:
    """The matching files: all of them up to a limit, above it the first ones by name."""

    def __init__(self, selection: FileSelection, workspace: Workspace, above: str) -> None:
        self.names: list[str] = []
        """Relative to where the search started."""
        self.count = 0
        self.above = above
        self._picks = selection.picks
        self._is_hidden = workspace.is_hidden

    def take(self, names: list[str]) -> bool:
        """Add the next files; always return True, because the files are counted."""
        picks, is_hidden, above = self._picks, self._is_hidden, self.above
        picked = [name for name in names if picks(name) and not is_hidden(f"{above}{name}")]
        self.count += len(picked)
        self.names += picked
        if len(self.names) > MAX_DATED_FILES * 4:
            self.names = nsmallest(_MAX_LIMIT, self.names, key=name_order)
        return True


@dataclass(frozen=True, slots=True)
class _GlobAnswer:
    listing: _Listing
    end: SearchEnd
    notes: Sequence[str] = ()
    folders: str = ""
    """A note on the folders that match."""


@dataclass(frozen=True, slots=True)
class _GlobSearch:
    """The searches of one glob call."""

    workspace: Workspace
    ripgrep: Ripgrep
    place: SearchPlace
    clock: Clock

    async def answer(self, selection: FileSelection) -> _GlobAnswer:
        """Search for files, then for folders."""
        answer = await self._find(selection)
        above = answer.listing.above
        find = partial(describe_folders, self.workspace, above, selection)
        return replace(answer, folders=await anyio.to_thread.run_sync(find))

    async def _find(self, selection: FileSelection) -> _GlobAnswer:
        """Search for files. If nothing matches, find out what could have matched."""
        answer = await self._search(selection)
        wider = selection.wider()
        if answer.listing.count or answer.end is SearchEnd.LATE or wider is None:
            return answer
        others = await self._search(wider)
        listing = others.listing
        if await is_excluded(self.ripgrep, self.place, selection.scope, self.clock):
            return replace(others, notes=[FOLDER_EXCLUDED * bool(listing.count)])
        paths = [f"{listing.above}{name}" for name in sorted(listing.names, key=name_order)]
        return replace(answer, notes=[describe_excluded(listing.count, paths, selection)])

    async def _search(self, selection: FileSelection) -> _GlobAnswer:
        real = self.place.real
        listing = _Listing(selection, self.workspace, f"{real}/" if real else "")
        end = await self.ripgrep.names(
            self.place, selection.scope, listing.take, seconds=self.clock.seconds_left()
        )
        return _GlobAnswer(listing, end)


async def _sort_paths(listing: _Listing, place: SearchPlace) -> tuple[list[str], str]:
    """Return the paths in the order to show, and a description of that order."""
    if listing.count > MAX_DATED_FILES:
        names, order = sorted(listing.names, key=name_order), "by name because there are many"
    else:
        names = await anyio.to_thread.run_sync(_newest_first, listing.names, place.folder)
        order = "newest first"
    return [f"{listing.above}{name}" for name in names], order


def _newest_first(names: Sequence[str], folder: int) -> list[str]:
    dated = sorted((-_modification_time(name, folder), name_order(name), name) for name in names)
    return [name for _, _, name in dated]


def _modification_time(name: str, folder: int) -> int:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime_ns
    except OSError:  # removed in the meantime
        return 0


def _format_answer(answer: _GlobAnswer, paths: Sequence[str], order: str, hint: str) -> str:
    shown = _fitting([quote_path(path) for path in paths])
    seen = answer.end in EVERYTHING_SEEN
    nothing = f"No file matches.{hint}" if seen else "No file found so far."
    notes = [_describe_count(answer.listing.count, len(shown), order) or nothing]
    notes += [answer.folders, *answer.notes]
    return "\n".join([*shown, *(f"[{note}]" for note in notes if note)])


def _fitting(lines: list[str]) -> list[str]:
    """Return as many lines as fit, at least one."""
    fits = bisect(list(accumulate(len(line) + 1 for line in lines)), _MAX_PAGE_CHARS)
    return lines[: max(fits, 1)]


def _describe_count(count: int, shown: int, order: str) -> str:
    if count <= 1:
        return "1 file." * count
    if shown == count:
        return f"{count:,} files, {order}."
    return (
        f"{shown:,} of {count:,} files, {order}. To see others, narrow the pattern or pass a "
        "folder as path."
    )


def _hint(workspace: Workspace, above: str, pattern: str) -> str:
    """Return what a pattern that found nothing may have been meant to be."""
    folder = pattern.removesuffix("/*").rstrip("/")
    place = f"{above}{folder}"
    if workspace.is_folder(place) and not workspace.is_hidden(place):
        return f" {folder!r} is a folder: {f'{folder}/**'!r} lists the files in it."
    if "/" in pattern or "**" in pattern:
        return ""
    return f" {f'**/{pattern}'!r} would also search subfolders."
