"""Render a question for a terminal: what would happen, the change or the command, and who asks."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from handrail.approvals._display import (
    Look,
    RenderedLine,
    Span,
    count_columns,
    inline,
    make_printable,
    render_line,
)
from handrail.approvals._patterns import expand_patterns
from handrail.approvals._prompt import argument_lines, block, change_lines, note_lines, wrap_rows
from handrail.approvals._view import RequestView, diff_rows
from handrail.permissions import FileChange, Grade

_INDENT = "  "
_CONTEXT_LINES = 1
_MEASURE = 98
"""Columns in a headline: text further right is not seen."""
_HEAD_ROWS, _TAIL_ROWS = 24, 8
"""Rows first shown for one block: at its start and at its end."""
_RAIL = re.compile("[┃║] ?")
_CHANGED = re.compile(r" *(\d+) [-+] ?(.*)", re.DOTALL)
_COUNTS = re.compile(r"\+(\d+) -(\d+)")
_BLANKS = re.compile(" {2,}")
_KEYS = re.compile(" {3,}")
_GOES_ON, _OUTSIDE = re.compile("^┊ "), re.compile("^│ ")
_SIGNS = {"!! ": "warning: ", "! ": "note: ", " · ": ", "}

LOOKS: dict[Grade, Look] = {
    Grade.UNKNOWN: "ask",
    Grade.CHANGE: "ask",
    Grade.UNCONFINED: "warning",
    Grade.LEAVES: "warning",
    Grade.LOSES: "bad",
}


@dataclass(frozen=True, slots=True)
class Question:
    """A question, ready to show behind a rail."""

    lines: tuple[RenderedLine, ...]
    cut: bool
    """Whether the lines omit something shown only in the details."""

    @property
    def seen(self) -> str:
        """Its text's SHA-256."""
        text = "\n".join(line.text for line in self.lines)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def render_question(
    view: RequestView,
    *,
    workspace: str | os.PathLike[str] | None,
    width: int,
    undo: str = "",
) -> Question:
    """Return a question as rows of at most this width, all safe to print.

    ``undo`` is how a person can undo changes, such as a command.
    """
    blocks = [wrap_rows(lines, width) for lines in _body(view, workspace)]
    rows = [row for one in blocks if one for row in (RenderedLine(""), *_shorten(one))]
    said = [replace(one, text=_INDENT + one.text) for one in note_lines(view)]
    why = wrap_rows([*said, _why_line(view)], width)
    named = wrap_rows([render_line(f"{_INDENT}{{}}", line) for line in view.sources], width)
    named = [RenderedLine(""), *named] if named else []
    title = wrap_rows(_title_lines(view, width, undo), width)
    return Question(
        lines=(*title, *named, *rows, RenderedLine(""), *why),
        cut=any(len(one) > len(_shorten(one)) for one in blocks),
    )


def _shorten(rows: list[RenderedLine]) -> list[RenderedLine]:
    """Return a long block's first and last rows, with the number in between."""
    between = len(rows) - _HEAD_ROWS - _TAIL_ROWS
    if between <= 1:
        return rows
    gap = RenderedLine(f"[… {between} more rows; d shows them …]", "warning")
    return [*rows[:_HEAD_ROWS], gap, *rows[-_TAIL_ROWS:]]


def _title_lines(view: RequestView, width: int, undo: str) -> list[RenderedLine]:
    """Return what the call would do, as a question, with its grade at the right."""
    pending, grade = view.pending, view.grade
    title, tag = inline(view.title), view.tag
    if pending.parts and pending.kind != "login" and count_columns(title) > width:
        title = "Run this command?"  # which follows in full
    if undo and grade is Grade.CHANGE and pending.kind != "form":
        tag = " · ".join(filter(None, [tag, f"{undo} can undo it"]))
    look: Look = "muted" if grade <= Grade.CHANGE else LOOKS[grade]
    room = min(width, _MEASURE) - count_columns(title) - count_columns(tag)
    if room < 2:  # noqa: PLR2004  blanks between the two
        return [RenderedLine(title, "title"), RenderedLine(_INDENT + tag, look)]
    start = len(title) + room
    text = f"{title}{' ' * room}{tag}"
    spans: tuple[Span, ...] = ((start, len(text), look),)
    return [RenderedLine(text, "title", spans=spans)]


def _body(
    view: RequestView, workspace: str | os.PathLike[str] | None
) -> Iterator[Iterable[RenderedLine]]:
    """Yield the change, the command or the arguments, and what the tool says about them."""
    if view.command:
        patterns = () if workspace is None else expand_patterns(view.command, workspace)
        yield [*_command_lines(view), *patterns]
    is_change = bool(view.files) and len(view.files) == len(view.pending.changes)
    yield [
        RenderedLine(_INDENT + line.text, line.look, line.condensed)
        for name, value in view.beside.items()
        if not (is_change and _is_on_screen(value, view.files))
        for line in argument_lines(name, value)
    ]
    for change in view.files:
        is_named = len(view.files) == 1 and change.path in view.pending.headline
        heading = "" if is_named else "{}"
        yield change_lines(change, heading=heading, context=_CONTEXT_LINES)
    yield from map(block, view.notes)


def _is_on_screen(value: object, changes: Iterable[FileChange]) -> bool:
    """Return whether the changes shown contain an argument."""
    if not isinstance(value, str) or not value:
        return False
    parts = [part for part in value.split("\n") if part.strip()]
    for change in changes:
        if value in {change.path, change.before, change.after}:
            return True
        if value in (change.before or "") or value in (change.after or ""):
            rows = [text for _, _, text in diff_rows(change, 0) if text.strip()]
            if any(part in row or row in part for part in parts for row in rows):
                return True  # it is not only in lines that stay as they are
    return False


def _command_lines(view: RequestView) -> Iterator[RenderedLine]:
    """Yield a command unchanged, with its grave parts marked."""
    shown, grade = make_printable(view.command), view.grade
    is_same = shown.text == view.command
    start = 0
    for line in shown.text.split("\n"):
        spans: list[Span] = [
            (len(_INDENT) + first, len(_INDENT) + last, LOOKS[part.grade])
            for part in (view.pending.parts if is_same and grade > Grade.CHANGE else ())
            if part.grade is grade
            and (first := max(part.start - start, 0)) < (last := min(part.end - start, len(line)))
        ]
        yield RenderedLine(_INDENT + line, condensed=shown.condensed, spans=tuple(spans))
        start += len(line) + 1


def _why_line(view: RequestView) -> RenderedLine:
    """Return the policy's question, and the rule asking it, without the command shown above it."""
    question, origin = view.question, view.pending.origin
    if view.command:
        question = question.replace(f"? `{view.command}`", "?", 1)
    if question.endswith(")") and question.count("? (") == 1:
        question = f"{question[:-1]}.".replace("? (", "? Reason: ")
    if origin is None:
        return render_line(f"{_INDENT}{{}}", question, look="muted")
    stop = "" if question.endswith((".", "?", "!")) else "."
    asked = f"{_INDENT}{{}}{stop} Asked by {{}}."
    return render_line(asked, question, str(origin), look="muted")


def put_in_words(line: RenderedLine) -> RenderedLine:
    """Return a question's row without its rail, and with words for its signs."""
    rail = _RAIL.match(line.text)
    text = line.text[rail.end() :] if rail is not None else line.text
    if line.look in {"added", "removed"} and (changed := _CHANGED.fullmatch(text)) is not None:
        return RenderedLine(f"  | {line.look} {changed[1]}: {changed[2]}")
    if line.look == "title":
        words = _COUNTS.sub(r"\1 added, \2 removed", _BLANKS.sub(" ", text.strip()))
        for sign, word in _SIGNS.items():
            words = words.replace(sign, word)
        return RenderedLine(f"Question: {words}")
    if line.look == "plain" and text.startswith("  ") and text.endswith("? more"):
        return RenderedLine(f"Answer with {_list_choices(text)}.")
    if rail is None:
        return replace(line, spans=())
    return RenderedLine(f"  {_OUTSIDE.sub('| ', _GOES_ON.sub('', text.lstrip()))}")


def _list_choices(text: str) -> str:
    """Return a row's keys, each with what it does."""
    *others, last = [
        f"{key} ({label})"
        for key, _, label in (one.partition(" ") for one in _KEYS.split(text.strip()))
    ]
    return f"{', '.join(others)} or {last}"
