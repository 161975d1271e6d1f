"""glob: files by their names."""

from __future__ import annotations

import os
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from itertools import accumulate
from typing import Any, Final

import anyio.to_thread

from handrail import READ, Access, Context, Tool, ToolFailed, tool
from handrail.tools._hits import by_name
from handrail.tools._scope import Ended, Place
from handrail.tools._search import (
    EVERYTHING_LEFT_OUT,
    NO_RULES,
    SECONDS,
    SEEN,
    Clock,
    Engine,
    best_engine,
    left_out,
    quoted,
    searched,
    sees_nothing,
    unseen,
    within,
)
from handrail.tools._wanted import Wanted
from handrail.tools._workspace import Workspace

LIMIT: Final = 200
_MOST: Final = 1_000
DATED: Final = 10_000
"""Files that are sorted by age; more of them are sorted by name."""
_CHARACTERS: Final = 20_000


def glob(
    workspace: Workspace, *, seconds: float = SECONDS, engine: Engine | None = None
) -> Tool[..., Any]:
    """A tool that finds files of a workspace by their names, with ripgrep where that is installed.

    Args:
        workspace: What is searched.
        seconds: How long one call may search; then it tells what it has found.
        engine: What searches; looked for, if left out.
    """
    chosen = engine or best_engine(workspace)

    def touches(path: str, **_: object) -> tuple[Access, ...]:
        return workspace.access(READ, path)

    @tool(
        effect=READ,
        touches=touches,
        timeout=seconds + 10,
        max_chars=_CHARACTERS * 2,
        tags=workspace.tags,
    )
    async def glob(
        pattern: str,
        path: str = ".",
        *,
        include_ignored: bool = False,
        hidden: bool = False,
        limit: int = LIMIT,
        call: Context,
    ) -> str:
        """Find files by their name or path, the newest first.

        Use it to see which files there are. To find files by what is in them use grep. Folders are
        not listed by themselves. Files that .gitignore and the like leave out are found only if
        asked for; so are files with a leading dot, unless the pattern has that dot.

        Args:
            pattern: Such as "**/*.py", "src/**/test_*.ts" or "docs/*.{md,txt}". "*" stays within
                one folder, "**/" stands for any number of folders.
            path: The folder that the pattern starts in.
            include_ignored: Whether files that ignore rules leave out are found.
            hidden: Whether files with a leading dot in their path are found.
            limit: How many files to show.
            call: Of the executor.
        """
        within("limit", limit, 1, _MOST)
        if not pattern:
            raise ToolFailed("The pattern is empty. '**/*' means every file.")
        wanted = Wanted(pattern, ignored=include_ignored, hidden=hidden)
        with searched(workspace, path, call) as place:
            if place.file is not None:
                raise ToolFailed(f"{path!r} is a file. Name a folder, or use read to see the file.")
            answer = await _Search(workspace, chosen, place, Clock(seconds)).answer(wanted)
            paths, order = await _sorted(answer.listing, place)
        answer = replace(answer, notes=[unseen(answer.ended, seconds), *answer.notes])
        return _told(answer, paths[:limit], order, _hint(pattern))

    return glob


class _Listing:
    """Files that are wanted: all of them while they are few, later the first ones by name."""

    def __init__(self, wanted: Wanted, workspace: Workspace, above: str) -> None:
        self.names: list[str] = []
        """Relative to where the search began."""
        self.count = 0
        self.above = above
        self._picks = wanted.picks
        self._concealed = workspace.hidden

    def take(self, names: list[str]) -> bool:
        """Take the next files; it never has enough, since it says how many there are."""
        picks, concealed, above = self._picks, self._concealed, self.above
        found = [one for one in names if picks(one) and not concealed(f"{above}{one}")]
        self.count += len(found)
        self.names += found
        if len(self.names) > DATED * 4:
            self.names = nsmallest(_MOST, self.names, key=by_name)
        return True


@dataclass(frozen=True, slots=True)
class _Answer:
    listing: _Listing
    ended: Ended
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Search:
    """One call of glob: what it asks, and asks again."""

    workspace: Workspace
    engine: Engine
    place: Place
    clock: Clock

    async def answer(self, wanted: Wanted) -> _Answer:
        """What is found; and where that is nothing, what could have been."""
        notes = [] if self.engine.knows_ignore_files else [NO_RULES]
        found = await self._found(wanted)
        wider = wanted.wider()
        if found.listing.count or found.ended is Ended.LATE or wider is None:
            return replace(found, notes=notes)
        others = await self._found(wider)
        listing = others.listing
        if await sees_nothing(self.engine, self.place, wanted.scope, self.clock):
            return replace(others, notes=[*notes, EVERYTHING_LEFT_OUT * bool(listing.count)])
        paths = [f"{listing.above}{one}" for one in sorted(listing.names, key=by_name)]
        return replace(found, notes=[*notes, left_out(listing.count, paths, wanted)])

    async def _found(self, wanted: Wanted) -> _Answer:
        real = self.place.real
        listing = _Listing(wanted, self.workspace, f"{real}/" if real else "")
        seconds = self.clock.left()
        ended = await self.engine.names(self.place, wanted.scope, listing.take, seconds=seconds)
        return _Answer(listing, ended)


async def _sorted(listing: _Listing, place: Place) -> tuple[list[str], str]:
    """Paths in the workspace, in the order that they are shown in, and that order in words."""
    if listing.count > DATED:
        names, order = sorted(listing.names, key=by_name), "by name, being too many to date"
    else:
        names = await anyio.to_thread.run_sync(_newest_first, listing.names, place.folder)
        order = "newest first"
    return [f"{listing.above}{name}" for name in names], order


def _newest_first(names: Sequence[str], folder: int) -> list[str]:
    dated = sorted((-_changed(name, folder), by_name(name), name) for name in names)
    return [name for _, _, name in dated]


def _changed(name: str, folder: int) -> int:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime_ns
    except OSError:  # it went, just now
        return 0


def _told(answer: _Answer, paths: Sequence[str], order: str, hint: str) -> str:
    shown = _fitting([quoted(path) for path in paths])
    nothing = f"No file matches.{hint}" if answer.ended in SEEN else "No file was found so far."
    notes = [_counted(answer.listing.count, len(shown), order) or nothing]
    notes += answer.notes
    return "\n".join([*shown, *(f"[{note}]" for note in notes if note)])


def _fitting(lines: list[str]) -> list[str]:
    """As many lines as fit; one at least."""
    fits = bisect(list(accumulate(len(line) + 1 for line in lines)), _CHARACTERS)
    return lines[: max(fits, 1)]


def _counted(count: int, shown: int, order: str) -> str:
    if count <= 1:
        return "1 file." * count
    if shown == count:
        return f"{count:,} files, {order}."
    return (
        f"{shown:,} of {count:,} files, {order}. To see others, narrow the pattern or name a "
        "folder in path."
    )


def _hint(pattern: str) -> str:
    """What a pattern that found nothing may have been meant to say."""
    if "/" in pattern or "**" in pattern:
        return ""
    return (
        " The pattern has no slash, so only the folder itself was looked at: "
        f"{f'**/{pattern}'!r} means the folders below it too."
    )
