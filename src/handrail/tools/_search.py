"""What glob and grep share: which engine, where it begins, and what to say of what was not seen."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final, TypeAlias

import anyio

from handrail import Context, Refused, ToolFailed
from handrail.tools._fallback import Walk
from handrail.tools._ripgrep import Ripgrep
from handrail.tools._scope import Ended, Place, Scope
from handrail.tools._shown import shown
from handrail.tools._wanted import Wanted
from handrail.tools._workspace import Workspace

Engine: TypeAlias = Ripgrep | Walk
SECONDS: Final = 20.0
_EXAMPLES: Final = 3


def best_engine(workspace: Workspace) -> Engine:
    """Ripgrep where there is one, else the walk that needs nothing."""
    return Ripgrep.find(outside=workspace.root) or Walk()


class Clock:
    """The time that a call has for all that it asks."""

    def __init__(self, seconds: float) -> None:
        self._until = anyio.current_time() + seconds

    def left(self) -> float:
        """Seconds; none when it is over."""
        return max(self._until - anyio.current_time(), 0.0)


@contextmanager
def searched(workspace: Workspace, path: str, call: Context) -> Generator[Place]:
    """What a model wants searched, held open. Raises as the workspace does."""
    spelled = workspace.inside(path)
    _may_be_searched(workspace, spelled, path)
    with ExitStack() as stack:
        if _is_folder(workspace, spelled, path):
            found = stack.enter_context(workspace.folder(path, call))
            place = Place(workspace.root, found.fd, found.real)
        else:
            found = stack.enter_context(workspace.file(path, call))
            above = stack.enter_context(workspace.folder("."))
            place = Place(workspace.root, above.fd, found.real, found.fd)
        _may_be_searched(workspace, found.real, path)
        yield place


def _is_folder(workspace: Workspace, spelled: str, path: str) -> bool:
    try:
        fd = workspace.open(spelled)
    except OSError as error:
        raise workspace.explained(error, path) from None
    try:
        return stat.S_ISDIR(os.fstat(fd).st_mode)
    finally:
        os.close(fd)


def _may_be_searched(workspace: Workspace, relative: str, path: str) -> None:
    if workspace.hidden(relative):
        raise Refused(f"The rules of this workspace keep {path!r} from being searched.")


def within(name: str, value: int, least: int, most: int) -> int:
    """A number, if it is one that can be meant."""
    if not least <= value <= most:
        raise ToolFailed(f"{name} is {value}, but has to be from {least} to {most:,}.")
    return value


def quoted(path: str) -> str:
    """A path as it is shown: in quotes where it has characters that nobody expects in one."""
    if path.isprintable() and path == path.strip():
        return path
    return shown(json.dumps(path, ensure_ascii=False))


async def sees_nothing(engine: Engine, place: Place, scope: Scope, clock: Clock) -> bool:
    """Whether a folder, named as such, is left out as a whole, so that naming it asks for it."""
    if not place.real:
        return False
    anything = replace(scope, last=(), type="")
    ended = await engine.names(place, anything, lambda names: not names, seconds=clock.left())
    return ended is Ended.WHOLE


def left_out(count: int, paths: Sequence[str], wanted: Wanted) -> str:
    """What to say of files that match but were left out, where nothing else does."""
    if not count:
        return ""
    options = [
        option
        for option, given in (
            ("include_ignored=true", wanted.ignored),
            ("hidden=true", wanted.hidden),
        )
        if not given
    ]
    files, them = ("1 file", "it") if count == 1 else (f"{count:,} files", "them")
    some = ", ".join(quoted(one) for one in paths[:_EXAMPLES])
    others = " and others" * (count > _EXAMPLES)
    return (
        f"{files} that ignore rules or a leading dot leave out would match: {some}{others}. "
        f"Pass {' and '.join(options)} to see {them}."
    )


def unseen(ended: Ended, seconds: float) -> str:
    """What to say of what was not searched; nothing if all was."""
    if ended is Ended.LATE:
        return (
            f"This is not complete: the search was stopped after {seconds:g} seconds. What is not "
            "told here may match all the same. Name a folder in path, or a narrower pattern."
        )
    return _UNSEEN.get(ended, "")


_UNSEEN: Final = {
    Ended.UNREADABLE: "Some files or folders could not be opened and were not searched.",
    Ended.LARGE: (
        "This is not complete: there are too many files to look at all of them. Name a folder in "
        "path."
    ),
    Ended.BROKEN: (
        "This is not complete: the search was ended from outside. Name a folder in path, and try "
        "again."
    ),
}
SEEN: Final = (Ended.WHOLE, Ended.UNREADABLE)
"""Nothing is missing that could have been seen."""
NO_RULES: Final = "Ignore files were not looked at: what they leave out was searched too."
EVERYTHING_LEFT_OUT: Final = (
    "Ignore rules leave out all of this folder. It was searched, since it was named."
)
