"""Preview: what a call would do, as its tool describes it, for the person who approves it.

A preview never makes a call fail. If it raises, the approval request has no preview.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import islice, takewhile
from typing import Any, TypeAlias, TypeVar

from anyio import CapacityLimiter, to_thread

from handrail._definition.beside import KEY, takes_key
from handrail._definition.tool import call_beside
from handrail._permissions.checked_call import CheckedCall
from handrail._values.access import Access, contains, territory, writes_file
from handrail._values.pending import FileChange, PlannedChange, Undoable
from handrail._values.strict_json import clip

T = TypeVar("T")
Shown: TypeAlias = tuple[str, tuple[PlannedChange, ...]]
"""A headline and changes, which a person sees beside a call's arguments."""
log = logging.getLogger("handrail")
MAX_HEADLINE_CHARS = 200
MAX_CHANGES = 100
MAX_CHANGES_CHARS = 100_000
"""Limit over all changes: approval requests are stored and sent."""
_CONTEXT_LINES = 3
"""Lines to show around a change in a long file."""


def has_preview(checked: CheckedCall) -> bool:
    """Return whether a call's tool can describe what the call would do."""
    tool = checked.tool
    return tool is not None and (tool.preview is not None or tool.headline is not None)


async def preview_call(checked: CheckedCall) -> Shown:
    """Return a tool's call description. Runs in a thread, since it may read files."""
    work = partial(_preview, checked)
    return await to_thread.run_sync(work, abandon_on_cancel=True, limiter=CapacityLimiter(1))


def _preview(checked: CheckedCall) -> Shown:
    tool: Any = checked.tool
    return (
        _call(checked, tool.headline, _read_headline, ""),
        _call(checked, tool.preview, partial(_read_changes, checked.accesses), ()),
    )


def _call(
    checked: CheckedCall, fn: Callable[..., Any] | None, read: Callable[[Any], T], default: T
) -> T:
    if fn is None:
        return default
    tool: Any = checked.tool
    try:
        key = {KEY: checked.key} if fn is tool.preview and takes_key(fn) else {}
        return read(call_beside(tool, fn, {**key, **checked.args}))
    except BaseException:
        log.exception("the preview of the tool %r (%s) is broken", checked.name, tool.origin)
        return default


def _read_headline(given: str) -> str:
    first, *others = given.split("\n")
    return clip(f"{first} …" if others else first, MAX_HEADLINE_CHARS)


def _read_changes(
    accesses: tuple[Access, ...], given: PlannedChange | Iterable[PlannedChange]
) -> tuple[PlannedChange, ...]:
    """Check a tool's returned changes, and limit their size."""
    several = (given,) if isinstance(given, str | FileChange | Undoable) else given
    changes = list[PlannedChange]()
    room = MAX_CHANGES_CHARS
    for change in islice(several, MAX_CHANGES + 1):
        _check_change(change, accesses)
        bounded = _bound(change, room) if len(changes) < MAX_CHANGES else _MORE
        room -= _count_chars(bounded)
        changes.append(bounded)
    return tuple(changes)


def _check_change(change: Any, accesses: tuple[Access, ...]) -> None:
    """Reject values other than changes, and files the call does not declare."""
    if isinstance(change, str | Undoable):
        return
    if type(change) is not FileChange:
        raise TypeError(f"A preview must return FileChange or str, got {clip(repr(change))}.")
    texts: tuple[object, ...] = _texts(change)
    if {*map(type, texts)} != {str} or type(change.line) is not int:
        raise TypeError(f"{clip(repr(change))} has fields of other types.")
    file = writes_file(change.path).resource
    if not any(contains(territory(access.resource), file) for access in accesses):
        raise ValueError(f"The preview shows a change of {file}, which the call does not touch.")


def _bound(change: PlannedChange, room: int) -> PlannedChange:
    """Return a fitting change: the whole, only the changing lines, or a note."""
    if isinstance(change, str | Undoable):
        return change if _count_chars(change) <= room else f"{_TOO_LONG}."
    if _count_chars(change) > room:
        change = _excerpt(change)
    return change if _count_chars(change) <= room else f"{_TOO_LONG}: {clip(change.path)}"


def _count_chars(change: PlannedChange) -> int:
    if isinstance(change, str):
        return len(change)
    if isinstance(change, Undoable):
        return len(change.description) + sum(map(len, change.left_out))
    return sum(map(len, _texts(change)))


def _texts(change: FileChange) -> tuple[str, str, str]:
    return change.path, change.before or "", change.after or ""


def _excerpt(change: FileChange) -> FileChange:
    """Return a file's changing lines only, and some around them."""
    if change.before is None or change.after is None:
        return change
    old, new = change.before.split("\n"), change.after.split("\n")
    first = _count_equal(old, new)
    last = _count_equal(old[first:][::-1], new[first:][::-1])
    start, end = max(first - _CONTEXT_LINES, 0), max(last - _CONTEXT_LINES, 0)
    before, after = ("\n".join(lines[start : len(lines) - end]) for lines in (old, new))
    return replace(change, before=before, after=after, line=change.line + start)


def _count_equal(old: list[str], new: list[str]) -> int:
    """Return how many lines at the start are equal."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


_MORE = "More changes than can be shown here."
_TOO_LONG = "The change is too long to show here"
