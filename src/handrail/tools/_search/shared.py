"""Shared by glob and grep: opening the path, the time limit, and notes on excluded files."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final

import anyio

from handrail import Context, Refused, ToolFailed
from handrail.tools._files.paths import quote_path
from handrail.tools._files.workspace import Workspace
from handrail.tools._search.query import SearchEnd, SearchPlace, SearchScope
from handrail.tools._search.ripgrep import Ripgrep
from handrail.tools._search.selection import FileSelection

SECONDS: Final = 20.0
_MAX_EXAMPLES: Final = 3
_WILDCARD: Final = re.compile(r"[*?\[{]")


class Clock:
    """The time limit of a call, for all its searches."""

    def __init__(self, seconds: float) -> None:
        self._until = anyio.current_time() + seconds

    def seconds_left(self) -> float:
        """Return the seconds left; 0 after the time limit."""
        return max(self._until - anyio.current_time(), 0.0)


@contextmanager
def open_place(
    workspace: Workspace, path: str, call: Context, *, instead: str
) -> Generator[SearchPlace]:
    """Open the file or folder a model wants to search. Raises as the workspace does.

    ``instead`` is the argument to suggest for a path with wildcards.
    """
    spelled = workspace.inside(path)
    _check_searchable(workspace, spelled, path)
    with ExitStack() as stack:
        if _is_folder(workspace, spelled, path, instead=instead):
            target = stack.enter_context(workspace.folder(path, call))
            place = SearchPlace(workspace.root, target.fd, target.real)
        else:
            target = stack.enter_context(workspace.file(path, call))
            above = stack.enter_context(workspace.folder("."))
            place = SearchPlace(workspace.root, above.fd, target.real, target.fd)
        _check_searchable(workspace, target.real, path)
        yield place


def _is_folder(workspace: Workspace, spelled: str, path: str, *, instead: str) -> bool:
    try:
        fd = workspace.open(spelled)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and _WILDCARD.search(path):
            raise ToolFailed(f"path takes no wildcards: pass {instead}.") from None
        raise workspace.explain_error(error, path) from None
    try:
        return stat.S_ISDIR(os.fstat(fd).st_mode)
    finally:
        os.close(fd)


def _check_searchable(workspace: Workspace, relative: str, path: str) -> None:
    if workspace.is_hidden(relative):
        raise Refused(
            f"Not run: the rules deny reading {path!r}. Do not work around this. Continue without "
            "it, or tell the user."
        )


def check_range(name: str, value: int, least: int, most: int) -> int:
    """Return a number if it is within its bounds. Raises ToolFailed otherwise."""
    if not least <= value <= most:
        raise ToolFailed(f"{name} must be from {least} to {most}, got {value}.")
    return value


async def is_excluded(
    ripgrep: Ripgrep, place: SearchPlace, scope: SearchScope, clock: Clock
) -> bool:
    """Return whether ignore rules exclude the whole folder a model named."""
    if not place.real:
        return False
    anything = replace(scope, last=(), type="")
    end = await ripgrep.names(
        place, anything, lambda names: not names, seconds=clock.seconds_left()
    )
    return end is SearchEnd.WHOLE


def describe_excluded(count: int, paths: Sequence[str], selection: FileSelection) -> str:
    """Describe the excluded files that match, for a search that found nothing else."""
    if not count:
        return ""
    options = [
        option
        for option, given in (
            ("include_ignored=true", selection.ignored),
            ("hidden=true", selection.hidden),
        )
        if not given
    ]
    files, them = (
        ("1 ignored or hidden file", "it")
        if count == 1
        else (
            f"{count:,} ignored or hidden files",
            "them",
        )
    )
    return (
        f"{files} would match: {list_examples(count, paths)}. Pass {' and '.join(options)} to see "
        f"{them}."
    )


def describe_left_out(paths: Collection[str]) -> str:
    """Describe files that are not searched, because a model may read them only with approval."""
    if not paths:
        return ""
    count = len(paths)
    files, them = ("1 file is", "it") if count == 1 else (f"{count:,} files are", "them")
    examples = list_examples(count, sorted(paths))
    return f"{files} left out: reading {them} needs approval: {examples}"


def list_examples(count: int, paths: Sequence[str]) -> str:
    """Return the first paths of several as text."""
    some = ", ".join(quote_path(path) for path in paths[:_MAX_EXAMPLES])
    return some + " and others" * (count > _MAX_EXAMPLES)


def describe_end(end: SearchEnd, seconds: float) -> str:
    """Describe what was not searched; empty if everything was."""
    if end is SearchEnd.LATE:
        return (
            f"Incomplete: the search timed out after {seconds:g} s, so more may match. Pass a "
            "folder as path, or a narrower pattern."
        )
    return _NOT_SEARCHED.get(end, "")


_NOT_SEARCHED: Final = {
    SearchEnd.UNREADABLE: "Some files or folders could not be opened and were not searched.",
    SearchEnd.BROKEN: "Incomplete: the search was killed. Pass a folder as path, and retry.",
}
EVERYTHING_SEEN: Final = (SearchEnd.WHOLE, SearchEnd.UNREADABLE)
"""The ends after which nothing readable is missing."""
FOLDER_EXCLUDED: Final = (
    "Ignore rules exclude this whole folder; it was searched because you named it."
)
