"""Grade: how grave a call is, by what it would do, and not by its tool."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from handrail._values.access import EVERYTHING, Access, contains, writes_file
from handrail._values.decision import CommandPart, Grade
from handrail._values.effect import DESTROY, READ
from handrail._values.pending import FileChange, Pending, PlannedChange, Undoable

_FILE = "file:"


def grade_pending(pending: Pending) -> Pending:
    """Return a request with its call's grade, given what its tool says about it."""
    if not pending.parts:
        return replace(pending, grade=_grade_accesses(pending.accesses, pending.changes))
    parts = tuple([_grade_part(part, pending.changes) for part in pending.parts])
    named = [access for access in pending.accesses if access.resource != EVERYTHING]
    grade = max(_grade_accesses(named, pending.changes), *(part.grade for part in parts))
    return replace(pending, grade=grade, parts=parts)


def _grade_part(part: CommandPart, changes: Iterable[PlannedChange]) -> CommandPart:
    """Return a command's part. Undo can restore what it deletes, or it is lost."""
    if part.removes is None or not any(_restores(change, part.removes) for change in changes):
        return part
    return replace(part, grade=Grade.CHANGE)


def _restores(change: PlannedChange, paths: Sequence[str]) -> bool:
    if not isinstance(change, Undoable):
        return False
    left_out = [writes_file(path) for path in change.left_out]
    return not any(writes_file(path).conflicts(one) for path in paths for one in left_out)


def _grade_accesses(accesses: Iterable[Access], changes: Sequence[PlannedChange]) -> Grade:
    """Return the highest grade among these accesses."""
    return max((_grade_access(access, changes) for access in accesses), default=Grade.UNKNOWN)


def _grade_access(access: Access, changes: Sequence[PlannedChange]) -> Grade:
    resource, reads = access.resource, access.verb == READ
    if resource.startswith(_FILE):
        return Grade.UNKNOWN if reads else _grade_file(access, changes)
    if resource.startswith("net:"):
        return Grade.LOSES if access.verb == DESTROY else Grade.LEAVES
    if reads:
        return Grade.UNKNOWN
    if access.verb == DESTROY:
        return Grade.LOSES
    return Grade.LEAVES if resource.startswith("mcp:") else Grade.UNCONFINED


def _grade_file(access: Access, changes: Sequence[PlannedChange]) -> Grade:
    """Return a file change's grade. A request showing its old text keeps it."""
    shown = any(
        isinstance(change, FileChange)
        and contains(access.resource, writes_file(change.path).resource)
        for change in changes
    )
    if shown:
        return Grade.CHANGE
    return Grade.LOSES if access.verb == DESTROY else Grade.UNCONFINED
