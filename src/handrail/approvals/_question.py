"""Render a question for a terminal: what would happen, the change or the command, and who asks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from handrail.approvals._display import RenderedLine
from handrail.approvals._preview import expand_patterns
from handrail.approvals._prompt import (
    RenderedRequest,
    argument_lines,
    block,
    is_shown_as_change,
    make_argument,
    note_lines,
    read_args,
    render_request,
    shorten,
    wrap_rows,
)
from handrail.approvals._rows import (
    INDENT,
    change_lines,
    command_lines,
    describe_grade,
    source_lines,
    title_lines,
    why_line,
)
from handrail.permissions import FileChange, Grade, Pending, Undoable


@dataclass(frozen=True, slots=True)
class Question:
    """A question, ready to show behind a rail."""

    lines: tuple[RenderedLine, ...]
    cut: bool
    """Whether the lines omit something shown only in the details."""
    grade: Grade

    @property
    def seen(self) -> str:
        """Its text's SHA-256."""
        text = "\n".join(line.text for line in self.lines)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def render_question(
    pending: Pending,
    request: RenderedRequest,
    *,
    workspace: str | os.PathLike[str] | None,
    width: int,
    undo: str = "",
) -> Question:
    """Return a question as rows of at most this width, all safe to print.

    ``undo`` is how a person can undo changes, such as a command.
    """
    grade = raise_grade(pending.grade, request)
    blocks = [wrap_rows(lines, width) for lines in _body(pending, grade, workspace)]
    rows = [row for one in blocks if one for row in (RenderedLine(""), *shorten(one))]
    said = [
        replace(one, text=INDENT + one.text) for one in note_lines(request.hidden, request.mixed)
    ]
    why = wrap_rows([*said, why_line(pending, read_args(pending).get("command"))], width)
    named = wrap_rows(source_lines(pending), width)
    named = [RenderedLine(""), *named] if named else []
    title = wrap_rows(title_lines(pending, grade, width=width, undo=undo), width)
    return Question(
        lines=(*title, *named, *rows, RenderedLine(""), *why),
        cut=any(len(one) > len(shorten(one)) for one in blocks),
        grade=grade,
    )


@dataclass(frozen=True, slots=True)
class RequestSummary:
    """An approval request in the terminal's words, for your pages.

    The title and the arguments are not yet safe to show: see ``make_printable``.
    """

    title: str
    grade: Grade
    """The call's grade, one step graver if there are signs of deceit."""
    tag: str
    """The grade in a few words."""
    args: Mapping[str, Any]
    request: RenderedRequest


def summarize_request(pending: Pending) -> RequestSummary:
    """Return a page's text about an approval request, in the terminal's wording."""
    request = render_request(pending)
    grade = raise_grade(pending.grade, request)
    title = pending.headline or f"Call {pending.call.name}"
    title = f"Sign in for {pending.call.name}" if pending.kind == "login" else title
    title += "?"
    return RequestSummary(title, grade, describe_grade(pending, grade), read_args(pending), request)


def describe_changes(pending: Pending) -> list[str]:
    """Return what the tool says about a call, and what undo cannot restore."""
    notes = [
        change.description if isinstance(change, Undoable) else change
        for change in pending.changes
        if not isinstance(change, FileChange)
    ]
    return [note for note in notes if note]


def measure_changes(pending: Pending) -> tuple[int, int]:
    """Return the characters in all changing files, and how many line pairs are compared."""
    files = [change for change in pending.changes if isinstance(change, FileChange)]
    pairs = [(change.before or "", change.after or "") for change in files]
    compared = sum((old.count("\n") + 1) * (new.count("\n") + 1) for old, new in pairs)
    return sum(len(old) + len(new) for old, new in pairs), compared


def raise_grade(grade: Grade, request: RenderedRequest) -> Grade:
    """Return a call's grade. Signs of deceit make it graver by one."""
    return Grade(min(grade + 1, Grade.LOSES)) if request.hidden or request.mixed else grade


def _body(
    pending: Pending, grade: Grade, workspace: str | os.PathLike[str] | None
) -> Iterator[Iterable[RenderedLine]]:
    """Yield the change, the command or the arguments, and what the tool says about them."""
    args = dict(read_args(pending))
    command = args.get("command")
    if isinstance(command, str) and command:
        yield [
            *command_lines(args.pop("command"), pending, grade),
            *(expand_patterns(command, workspace) if workspace is not None else ()),
        ]
    if is_shown_as_change(pending):
        args = {name: value for name, value in args.items() if not _is_on_screen(value, pending)}
    yield _argument_rows(args)
    files = [change for change in pending.changes if isinstance(change, FileChange)]
    for change in files:
        yield change_lines(change, named=len(files) == 1 and change.path in pending.headline)
    for one in pending.changes:
        said = one if isinstance(one, str) else getattr(one, "description", "")
        yield block(said) if said else ()


def _argument_rows(args: Mapping[str, Any]) -> Iterator[RenderedLine]:
    for name, value in args.items():
        for line in argument_lines(make_argument(name, value)):
            yield RenderedLine(INDENT + line.text, line.look, line.condensed)


def _is_on_screen(value: object, pending: Pending) -> bool:
    """Return whether the changes shown contain an argument."""
    if not isinstance(value, str) or not value:
        return False
    changes = [change for change in pending.changes if isinstance(change, FileChange)]
    return any(
        value == change.path or value in (change.before or "") or value in (change.after or "")
        for change in changes
    )
