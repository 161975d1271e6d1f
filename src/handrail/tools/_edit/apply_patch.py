"""The apply_patch tool: changes several files with one patch, all or none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from handrail import DESTROY, READ, Access, Context, Refused, Tool, ToolFailed, tool
from handrail.permissions import FileChange
from handrail.tools._descriptions import APPLY_PATCH_DESCRIPTION
from handrail.tools._edit.apply import NoMatch, TextEdit, apply_edits
from handrail.tools._edit.patch_format import (
    AddFile,
    DeleteFile,
    Hunk,
    UpdateFile,
    list_paths,
    parse_patch,
)
from handrail.tools._files.encoding import decode_text
from handrail.tools._files.replace import open_for_change, peek
from handrail.tools._files.undo import FileEdit
from handrail.tools._files.workspace import Workspace

_MAX_PLACES = 5
"""Places listed."""
_WORDS = {"old_string": "its old text", "new_string": "its new text"}
"""Words for edits, and their patch equivalents."""
_INVALID = Access(READ, "patch:invalid")
"""What a call touches whose patch cannot be parsed: nothing. It fails when it runs."""


class _Step(NamedTuple):
    """One file a patch writes or deletes."""

    path: str
    real: str
    before: bytes | None
    after: bytes | None
    """The new content; None to delete the file."""


def apply_patch(workspace: Workspace) -> Tool[..., Any]:
    """Make a tool that applies patches in the format V4A to a workspace's files."""

    def touches(input: str) -> tuple[Access, ...]:  # noqa: A002  as models know it
        try:
            operations = parse_patch(input)
        except ToolFailed:
            return (_INVALID,)
        return tuple(access for one in operations for access in _accesses(workspace, one))

    def preview(input: str, idempotency_key: str) -> list[FileChange] | str:  # noqa: A002
        return _preview(workspace, input, idempotency_key)

    def headline(input: str) -> str:  # noqa: A002
        with suppress(ToolFailed):
            return (
                f"Patch {', '.join(path for one in parse_patch(input) for path in list_paths(one))}"
            )
        return "Apply a patch that is not valid"

    @tool(
        description=APPLY_PATCH_DESCRIPTION,
        effect=DESTROY,
        touches=touches,
        preview=preview,
        headline=headline,
        timeout=30.0,
        synonyms={"patch": "input", "patch_text": "input"},
    )
    def apply_patch(input: str, *, context: Context) -> str:  # noqa: A002
        """Apply a patch.

        Args:
            input: The whole patch.
            context: The call's context.
        """
        steps = _plan(workspace, input)
        for step in steps:  # each is compared again before it is written
            workspace.shown.check(context, step.real, step.before)
        _run_steps(workspace, steps, context)
        edits = [FileEdit(step.real, step.before, step.after) for step in steps]
        workspace.changes.put_edits(context.call_id, edits)
        return "\n".join(["Patched:", *map(_describe_step, steps)])

    return apply_patch


def _preview(workspace: Workspace, text: str, key: str) -> list[FileChange] | str:
    """Return the exact changes a call would make."""
    try:
        steps = _plan(workspace, text)
    except (ToolFailed, Refused) as error:
        workspace.shown.note(key, {})
        return f"The call would fail. {error}"
    workspace.shown.note(key, {step.real: step.before for step in steps})
    return [_show_change(step) for step in steps]


def _accesses(
    workspace: Workspace, operation: AddFile | DeleteFile | UpdateFile
) -> Iterator[Access]:
    for path in list_paths(operation):
        yield from workspace.change(path)
    if isinstance(operation, DeleteFile) or (
        isinstance(operation, UpdateFile) and operation.target
    ):
        yield from workspace.access(DESTROY, operation.path)


def _plan(workspace: Workspace, text: str) -> list[_Step]:
    """Compute every new content before anything is written."""
    return [step for operation in parse_patch(text) for step in _plan_file(workspace, operation)]


def _plan_file(
    workspace: Workspace, operation: AddFile | DeleteFile | UpdateFile
) -> Iterator[_Step]:
    if isinstance(operation, AddFile):
        yield _plan_new(workspace, operation.path, operation.content.encode())
        return
    real, before = peek(workspace, operation.path)
    if isinstance(operation, DeleteFile):
        yield _Step(operation.path, real, before, None)
        return
    after = _apply_hunks(operation, before or b"")
    if operation.target:
        yield _plan_new(workspace, operation.target, after)
        yield _Step(operation.path, real, before, None)
    else:
        yield _Step(operation.path, real, before, after)


def _plan_new(workspace: Workspace, path: str, data: bytes) -> _Step:
    real, before = peek(workspace, path, create=True)
    if before is not None:
        raise ToolFailed(f"Not patched: {path!r} already exists. Use '*** Update File: {path}'.")
    return _Step(path, real, None, data)


def _apply_hunks(operation: UpdateFile, data: bytes) -> bytes:
    for number, hunk in enumerate(operation.hunks, 1):
        try:
            data = _apply_hunk(hunk, data)
        except ToolFailed as error:
            raise ToolFailed(f"Not patched: {operation.path!r}, hunk {number}: {error}") from None
    return data


def _apply_hunk(hunk: Hunk, data: bytes) -> bytes:
    """Return the new content. After anchors, the first place is meant; else there must be one."""
    lines, at = decode_text(data).text.split("\n"), 0
    old, new = hunk.old, hunk.new
    for anchor in hunk.anchors:
        at = _find_anchor(lines, anchor, at)
    if not old:  # only lines to add: the last anchor is the line before them
        if not hunk.anchors:
            raise ToolFailed("it has only lines to add. Add a line of context before them.")
        old = [lines[at - 1].rstrip("\r")]
        new, at = [*old, *new], at - 1
    after = at if hunk.anchors else None
    outcome = apply_edits(data, [TextEdit("\n".join(old), "\n".join(new), after=after)])
    if isinstance(outcome, NoMatch):
        raise ToolFailed(_explain(outcome))
    return outcome.data


def _explain(failure: NoMatch) -> str:
    if failure.reason == "several":
        places = ", ".join(map(str, failure.lines[:_MAX_PLACES]))
        return (
            f"its old lines occur {len(failure.lines)} times, at lines {places}. Add context, or "
            "a line '@@ ...' with a line before the right place."
        )
    for name, meaning in _WORDS.items():
        failure = replace(failure, message=failure.message.replace(name, meaning))
    return failure.message


def _find_anchor(lines: Sequence[str], anchor: str, at: int) -> int:
    """Return the line number after an anchor, from 0. Whole lines come first."""
    rest = [line.strip() for line in lines[at:]]
    whole = (n for n, line in enumerate(rest) if line == anchor)
    begins = (n for n, line in enumerate(rest) if line.startswith(anchor))
    found = next(whole, None)
    found = next(begins, None) if found is None else found
    if found is None:
        raise ToolFailed(f"no line{f' after line {at}' if at else ''} is {anchor!r}.")
    return at + found + 1


def _run_steps(workspace: Workspace, steps: Sequence[_Step], context: Context) -> None:
    done = list[_Step]()
    try:
        for step in steps:
            _run_step(workspace, step, context)
            done.append(step)
    except BaseException:
        for step in reversed(done):
            with suppress(OSError, ToolFailed, Refused):  # changed again by another program
                _run_step(workspace, step._replace(before=step.after, after=step.before), context)
        raise


def _run_step(workspace: Workspace, step: _Step, context: Context) -> None:
    with open_for_change(workspace, step.path, context, create=True) as change:
        if change.before != step.before:
            raise ToolFailed(
                f"Not patched: {step.path!r} changed at this moment. Read it, then retry."
            )
        if step.after is None:
            change.remove()
        else:
            change.write(step.after)


def _show_change(step: _Step) -> FileChange:
    before = None if step.before is None else decode_text(step.before)
    if step.after is None:
        return FileChange(step.real, before.text if before else None, None)
    after = decode_text(step.after).text if before is None else before.decode(step.after)
    return FileChange(step.real, before.text if before else None, after)


def _describe_step(step: _Step) -> str:
    verb = "created" if step.before is None else "deleted" if step.after is None else "changed"
    return f"{step.real!r}: {verb}"
