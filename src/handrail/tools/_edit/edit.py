"""The edit tool: replaces text in a file, only if the location is unambiguous."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NotRequired

from typing_extensions import TypedDict

from handrail import Access, Context, Refused, Tool, ToolFailed, tool
from handrail.permissions import FileChange
from handrail.tools._descriptions import EDIT_DESCRIPTION
from handrail.tools._edit.apply import AppliedEdit, EditedContent, NoMatch, TextEdit
from handrail.tools._edit.cells import edit_file
from handrail.tools._files.encoding import decode_text
from handrail.tools._files.replace import open_for_change, peek
from handrail.tools._files.workspace import Workspace
from handrail.tools._habits import EDIT_INSTEAD_OF, EDIT_SYNONYMS

_MAX_EDITS = 100
_MAX_PLACES = 5
"""Locations listed for one edit."""
_READ_AGAIN = "\n[The file had also changed elsewhere since it was read. Read it again.]"


class Replacement(TypedDict):
    """One of several replacements."""

    old_string: str
    """Text to replace, exactly as in the file."""
    new_string: str
    """Replacement text."""
    replace_all: NotRequired[bool]
    """Replace every occurrence."""


def edit(workspace: Workspace) -> Tool[..., Any]:
    """Make a tool that changes parts of files in a workspace."""

    def touches(file_path: str, **_: object) -> tuple[Access, ...]:
        return workspace.change(file_path)

    def preview(file_path: str, idempotency_key: str, **others: Any) -> FileChange | str:
        return _preview(workspace, file_path, others, idempotency_key)[0]

    def headline(file_path: str, **others: Any) -> str:
        return f"Edit {file_path}{_preview(workspace, file_path, others)[1]}"

    @tool(
        description=EDIT_DESCRIPTION,
        touches=touches,
        preview=preview,
        headline=headline,
        timeout=30.0,
        strict="on",
        synonyms=EDIT_SYNONYMS,
        instead_of=EDIT_INSTEAD_OF,
    )
    def edit(
        file_path: str,
        old_string: str,
        new_string: str,
        *,
        replace_all: bool = False,
        edits: list[Replacement] | None = None,
        context: Context,
    ) -> str:
        """Replace text in a file.

        Args:
            file_path: Path of the file, relative to the workspace.
            old_string: Text to replace, exactly as in the file, without line numbers.
            new_string: Replacement text; empty to delete old_string.
            replace_all: Replace every occurrence.
            edits: More replacements in the same file, applied after this one in their order. If
                one fails, none is applied.
            context: The call's context.
        """
        wanted = _collect_edits(old_string, new_string, replace_all=replace_all, edits=edits)
        _check_exists(workspace, file_path, wanted)
        with open_for_change(workspace, file_path, context) as change:
            before = change.before or b""
            workspace.shown.check(context, change.real, before)
            changed = _changed_since_read(workspace, change.real, before)
            outcome = _apply(change.real, before, wanted, changed=changed)
            change.write(outcome.data, context.call_id)
            return _describe_edit(change.real, outcome) + _READ_AGAIN * changed

    return edit


def _preview(
    workspace: Workspace, file_path: str, others: dict[str, Any], key: str | None = None
) -> tuple[FileChange | str, str]:
    """Return the exact change a call would make, and its location."""
    shown: dict[str, bytes] = {}
    try:
        wanted = _collect_edits(**others)
        real, before = peek(workspace, file_path)
        shown[real] = before or b""
        outcome = _apply(real, before or b"", wanted)
    except (ToolFailed, Refused) as error:
        return f"The call would fail. {error}", ""
    finally:
        if key is not None:
            workspace.shown.note(key, shown)
    old = decode_text(before or b"")
    change = FileChange(real, old.text, old.decode(outcome.data))
    where = [_lines(change) for change in outcome.changes]
    return change, f", {where[0]}" if len(where) == 1 else f", {len(where)} replacements"


def _apply(
    real: str, before: bytes, wanted: list[TextEdit], *, changed: bool = False
) -> EditedContent:
    outcome = edit_file(real, before, wanted)
    if isinstance(outcome, NoMatch):
        stale = "The file changed since it was read. " * (changed and outcome.reason == "absent")
        raise ToolFailed(f"{stale}{outcome.message}")
    return outcome


def _collect_edits(
    old_string: str, new_string: str, *, replace_all: bool, edits: list[Replacement] | None
) -> list[TextEdit]:
    more = [
        TextEdit(edit["old_string"], edit["new_string"], edit.get("replace_all", False))
        for edit in edits or []
    ]
    if len(more) >= _MAX_EDITS:
        raise ToolFailed(f"Not edited: pass at most {_MAX_EDITS} replacements.")
    if more and not old_string and not new_string:
        return more
    return [TextEdit(old_string, new_string, replace_all), *more]


def _check_exists(workspace: Workspace, path: str, wanted: list[TextEdit]) -> None:
    """Refuse to create a file: models know an empty old_string that does so."""
    if wanted[0].old:
        return
    missing = list[str]()
    with suppress(OSError, Refused):  # open_for_change explains these
        _, missing = workspace.resolve(workspace.inside(path))
    if missing:
        raise ToolFailed(f"{path!r} does not exist. To create it, use write.")


def _changed_since_read(workspace: Workspace, real: str, before: bytes) -> bool:
    return workspace.seen.knows(real) and not workspace.seen.current(real, before)


def _describe_edit(real: str, outcome: EditedContent) -> str:
    """Return what was changed, and how old_string differed from the file."""
    if len(outcome.changes) == 1:
        return f"Edited {real!r}, {_where(outcome.changes[0])}."
    each = "".join(f"\n{n}. {_where(change)}." for n, change in enumerate(outcome.changes, 1))
    return f"Edited {real!r}, {len(outcome.changes)} replacements:{each}"


def _where(change: AppliedEdit) -> str:
    lines = _lines(change)
    return f"{lines}. {change.note.rstrip('.')}" if change.note else lines


def _lines(change: AppliedEdit) -> str:
    places = [str(a) if a == b else f"{a}-{b}" for a, b in change.lines]
    more = f" and {len(places) - _MAX_PLACES} more" if len(places) > _MAX_PLACES else ""
    plain = len(places) == 1 and "-" not in places[0]
    return f"{'line' if plain else 'lines'} {', '.join(places[:_MAX_PLACES])}{more}"
