"""edit: replace a text in a file, at the right place or nowhere."""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict

from handrail import Access, Context, Tool, ToolFailed, tool
from handrail.tools._change import changing
from handrail.tools._match import Change, Edit, NoMatch, Replaced, replaced
from handrail.tools._workspace import Workspace

_MOST_EDITS = 100
_MOST_PLACES = 5
"""Places of one edit that are named."""


class Replacement(TypedDict):
    """One of several replacements."""

    old_string: str
    """The text to replace, exactly as it is in the file."""
    new_string: str
    """The text to put in its place."""
    replace_all: NotRequired[bool]
    """Replace it wherever it occurs."""


def edit(workspace: Workspace) -> Tool[..., Any]:
    """A tool that changes parts of files in a workspace."""

    def touches(file_path: str, **_: object) -> tuple[Access, ...]:
        return workspace.change(file_path)

    @tool(touches=touches, timeout=30.0)
    def edit(
        file_path: str,
        old_string: str = "",
        new_string: str = "",
        *,
        replace_all: bool = False,
        edits: list[Replacement] | None = None,
        context: Context,
    ) -> str:
        """Replace a text in a file by another. All else in the file stays as it is, byte by byte.

        Use it to change a part of a file; to replace all of it, use write. The old text has to be
        in the file once: give some lines around it to make it so, or set replace_all. Blanks, tabs
        and line ends may differ where only one place can be meant. If it is not found, the answer
        shows the closest place.

        Args:
            file_path: The path, relative to the workspace.
            old_string: The text to replace, exactly as it is in the file, without line numbers.
            new_string: The text to put in its place; leave it out to delete.
            replace_all: Replace the text wherever it occurs.
            edits: Instead of the three above: several replacements, made one after the other; if
                one of them fails, none is made.
            context: Of the call.
        """
        wanted = _wanted(old_string, new_string, replace_all=replace_all, edits=edits)
        with changing(workspace, file_path, context) as change:
            before = change.before or b""
            outcome = replaced(before, wanted)
            if isinstance(outcome, NoMatch):
                raise ToolFailed(outcome.message)
            drifted = _drift(workspace, change.real, before)
            change.write(outcome.data, context.call_id)
            return _told(change.real, outcome) + drifted

    return edit


def _wanted(
    old: str, new: str, *, replace_all: bool, edits: list[Replacement] | None
) -> list[Edit]:
    if edits is None:
        return [Edit(old, new, replace_all)]
    if old or new:
        raise ToolFailed("Give either old_string and new_string, or edits. Nothing was changed.")
    if not 0 < len(edits) <= _MOST_EDITS:
        raise ToolFailed(f"Give between 1 and {_MOST_EDITS} edits. Nothing was changed.")
    return [
        Edit(one["old_string"], one["new_string"], one.get("replace_all", False)) for one in edits
    ]


def _drift(workspace: Workspace, real: str, before: bytes) -> str:
    """Whether the file is not as it was read; the text was found, so the edit still holds."""
    if not workspace.seen.knows(real) or workspace.seen.current(real, before):
        return ""
    return " (The file had changed elsewhere since it was read: read it again before you go on.)"


def _told(real: str, outcome: Replaced) -> str:
    """What was changed where, and what was overlooked to find it."""
    if len(outcome.changes) == 1:
        return f"Edited {real!r}, {_where(outcome.changes[0])}."
    each = "".join(f"\n{n}. {_where(one)}." for n, one in enumerate(outcome.changes, 1))
    return f"Edited {real!r}, {len(outcome.changes)} replacements:{each}"


def _where(change: Change) -> str:
    places = [str(a) if a == b else f"{a}-{b}" for a, b in change.lines]
    more = f" and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
    plain = len(places) == 1 and "-" not in places[0]
    lines = f"{'line' if plain else 'lines'} {', '.join(places[:_MOST_PLACES])}{more}"
    return f"{lines}. {change.note.rstrip('.')}" if change.note else lines
