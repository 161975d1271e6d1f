"""An approval request as a page shows it: a command's parts, a diff, or the arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

from handrail.approvals import (
    FormField,
    RequestView,
    diff_rows,
    name_grade,
    read_form,
    view_request,
)
from handrail.console._figures import count
from handrail.console._shown import Clear, Piece, pieces
from handrail.permissions import FileChange, Grade, Origin, Pending
from handrail.runs.records import to_path

SHORT_BYTES = 4_000
"""A longer request is first shown in part, and is approved only where all of it is shown."""
MAX_BYTES = 200_000
"""A longer change is never approved from a page."""
MAX_COMPARED = 250_000
"""Lines before a change times lines after it, for all changes. More cannot be approved here."""
_SHORT_CHARS = 400
_SHORT_ROWS = 12
LOOKS = {
    Grade.UNKNOWN: Clear(""),
    Grade.CHANGE: Clear(""),
    Grade.UNCONFINED: Clear("warn"),
    Grade.LEAVES: Clear("warn"),
    Grade.LOSES: Clear("bad"),
}
SIGNS = {
    "+": (Clear("add"), Clear("+"), Clear("added")),
    "-": (Clear("del"), Clear("\u2212"), Clear("removed")),
    " ": (Clear(""), Clear(""), Clear("")),
}
"""A changed line's look, sign and word."""
NOTHING = Clear("")


class ArgumentView(NamedTuple):
    """An argument: its name, and its value as lines."""

    name: str
    lines: list[list[Piece]]
    cut: Clear = NOTHING


class ChangeView(NamedTuple):
    """A file's change."""

    path: str
    note: Clear
    rows: list[tuple[str, int, str]]
    """Each line's sign, number and text."""
    cut: Clear = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPage:
    """A request, ready for the template."""

    path: str
    title: str
    look: Clear
    tag: Clear
    tool: str
    grave: bool
    hides: bool
    """Whether the arguments are kept from a person who may not answer."""
    command: list[list[Piece]]
    removes: tuple[str, ...]
    arguments: list[ArgumentView]
    changes: list[ChangeView]
    notes: tuple[str, ...]
    hidden: int
    mixed: tuple[str, ...]
    origin: Origin | None
    question: str
    sources: list[str]
    """Who named the values in the call, if not its user."""
    too_long: bool
    full: bool
    """Whether the person asked for the whole request."""
    complete: bool
    """Whether the whole request is on the page."""
    args_text: Clear = field(repr=False)
    is_form: bool = False
    """Whether a person fills in a form, in place of an approval."""
    fields: tuple[FormField, ...] = ()


def make_page(pending: Pending, *, full: bool, may_answer: bool) -> RequestPage:
    """Return a request as the page shows it.

    Without ``full``, a long request is shown in part. Who may not answer sees no arguments.
    """
    view = view_request(pending)
    chars, compared = view.measure()
    wide = compared > MAX_COMPARED or chars > MAX_BYTES
    if wide or not may_answer:  # comparing them takes too long, or is for nothing
        view = replace(view, pending=replace(pending, changes=()))
    size = _size(view)
    complete = may_answer and size <= (MAX_BYTES if full else SHORT_BYTES)
    args, grade = view.beside, view.grade
    too_long = wide or view.too_long or size > MAX_BYTES
    return RequestPage(
        path=to_path(pending.id),
        title=view.title if may_answer else f"Call {pending.call.name}?",
        look=LOOKS[grade],
        tag=Clear(view.tag) if may_answer else tag_of(grade, is_command=bool(pending.parts)),
        tool=pending.call.name,
        grave=grade is Grade.LOSES,
        hides=not may_answer,
        command=_command(view, complete=complete) if may_answer else [],
        removes=tuple(path for part in pending.parts for path in part.removes or ()),
        arguments=[
            _argument(name, args[name], complete=complete) if may_answer else ArgumentView(name, [])
            for name in args
        ],
        changes=[] if too_long else list(_changes(view, complete=complete)),
        notes=view.notes,
        hidden=view.hidden,
        mixed=view.mixed if may_answer else (),
        origin=pending.origin,
        question=view.question if may_answer else "",
        sources=view.sources if may_answer else [],
        too_long=too_long,
        full=full,
        complete=complete and not too_long,
        args_text=_format_args(pending) if may_answer else Clear(""),
        is_form=pending.kind == "form",
        fields=read_form(pending).fields if pending.kind == "form" and may_answer else (),
    )


def tag_of(grade: Grade, *, is_command: bool) -> Clear:
    """Return how grave a call is, for a list."""
    return Clear(name_grade(grade, is_command=is_command) or "changes files")


def _size(view: RequestView) -> int:
    paths = [change.path for change in view.files]
    paths += [path for part in view.pending.parts for path in part.removes or ()]
    several = (view.title, *paths, *view.notes)
    return view.size + view.measure()[0] + sum(len(text) for text in several)


def _command(view: RequestView, *, complete: bool) -> list[list[Piece]]:
    """Return a command unchanged, with its grave parts marked."""
    if not view.command:
        return []
    marks = [
        (part.start, part.end, "grave")
        for part in view.pending.parts
        if view.grade > Grade.CHANGE and part.grade >= view.grade
    ]
    return pieces(view.command if complete else view.command[:_SHORT_CHARS], marks * complete)


def _argument(name: str, value: Any, *, complete: bool) -> ArgumentView:
    text = json.dumps(value, ensure_ascii=False, default=repr, indent=None)
    if isinstance(value, str) and "\n" in value:
        text = value  # multi-line text reads better as lines
    if complete or len(text) <= _SHORT_CHARS:
        return ArgumentView(str(name), pieces(text))
    facts = count(len(text), "character")
    cut = Clear(f"… ({facts}, {count(text.count(chr(10)) + 1, 'line')})")
    start = "\n".join(text[:_SHORT_CHARS].split("\n")[:_SHORT_ROWS])
    return ArgumentView(str(name), pieces(start), cut)


def _changes(view: RequestView, *, complete: bool) -> Iterator[ChangeView]:
    for change in view.files:
        rows = list(diff_rows(change))
        most = len(rows) if complete else _SHORT_ROWS
        more = len(rows) - most
        cut = Clear(f"… {count(more, 'more line')}") if more > 0 else NOTHING
        yield ChangeView(change.path, _note(change), rows[:most], cut)


def _note(change: FileChange) -> Clear:
    if change.before is None:
        return Clear("a new file")
    if change.after is None:
        return Clear("would be deleted")
    return Clear("no change" if change.before == change.after else "")


def _format_args(pending: Pending) -> Clear:
    """Return the arguments as ASCII JSON, making every character visible and editable."""
    text = str(pending.call.args)
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return Clear(ascii(text))
    return Clear(json.dumps(value, indent=2))


def read_args(text: str) -> Mapping[str, Any] | None:
    """Return edited arguments, or None if they are not a JSON object."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
