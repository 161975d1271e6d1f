"""Render an approval request as lines for a person. Nothing is masked.

A mask that hides a secret could also hide where it goes, and the person must see both.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeGuard

from handrail._support import format_duration
from handrail.approvals._display import (
    MAX_PROMPT_BYTES,
    Look,
    Printable,
    RenderedLine,
    count_bytes,
    inline,
    make_printable,
    render_line,
    wrap_line,
)
from handrail.approvals._form import read_form
from handrail.approvals._preview import diff_lines, expand_patterns
from handrail.permissions import FileChange, Pending
from handrail.sources import describe_sources, split_question

MARGIN = "│ "
"""Before each line of untrusted text, to keep it from the left edge."""
CONTINUATION = "┊ "
"""Before the rest of a line wider than the screen."""
_PLAIN_NAME = re.compile(r"[\w.-]+", re.ASCII)
_HEAD_ROWS, _TAIL_ROWS = 24, 8
"""Rows first shown for one argument: at its start and at its end."""
_MAX_SHORT_CHARS = 200
"""Longer texts are shown with their length."""


@dataclass(frozen=True, slots=True)
class RenderedRequest:
    """An approval request, ready to show."""

    lines: tuple[RenderedLine, ...]
    details: tuple[RenderedLine, ...]
    """The complete request: every argument in full, and what the answer is tied to."""
    cut: bool
    """Whether the lines omit something shown only in the details."""
    hidden: int
    """How many invisible characters are shown as escapes."""
    mixed: tuple[str, ...]
    """Words with mixed scripts or look-alike letters."""
    size: int
    """Bytes of untrusted text."""

    @property
    def too_long(self) -> bool:
        """Whether the request is longer than a person can be expected to read."""
        return self.size > MAX_PROMPT_BYTES

    @property
    def condensed(self) -> bool:
        """Whether a line shows a count instead of a long whitespace run."""
        return any(line.condensed for line in self.lines)


@dataclass(frozen=True, slots=True)
class Argument:
    """A call's argument, ready to show."""

    name: str
    shown: Printable
    is_text: bool


def render_request(
    pending: Pending,
    *,
    workspace: str | os.PathLike[str] | None = None,
    width: int = 80,
) -> RenderedRequest:
    """Return an approval request as lines of at most this width, all safe to print.

    If the tool has a ``preview``, its changes are shown as a diff. Pass the ``workspace`` for shell
    commands to show the files matching their patterns.
    """
    args = read_args(pending)
    outside = tuple(_outside_texts(pending, args))
    if (length := sum(map(count_bytes, outside))) > MAX_PROMPT_BYTES:
        title = RenderedLine("This call is too long to show.", "title")
        return RenderedRequest((title,), (title,), cut=True, hidden=0, mixed=(), size=length)
    counted = [make_printable(text) for text in outside]
    hidden = sum(text.hidden for text in counted)
    mixed = tuple(dict.fromkeys(word for text in counted for word in text.mixed))
    arguments = [make_argument(name, value) for name, value in args.items()]
    show_first = _name_argument if is_shown_as_change(pending) else argument_lines
    follows = [wrap_rows(lines, width) for lines in _follow_ups(pending, args, workspace)]
    first = [*(wrap_rows(show_first(argument), width) for argument in arguments), *follows]
    head, notes = wrap_rows(_head(pending), width), wrap_rows(note_lines(hidden, mixed), width)
    return RenderedRequest(
        lines=(*head, *_join(map(shorten, first)), *notes),
        details=(
            *head,
            *_join(wrap_rows(argument_lines(argument), width) for argument in arguments),
            *_join(follows),
            *wrap_rows(_binding(pending), width),
            *notes,
        ),
        cut=any(len(rows) > len(shorten(rows)) for rows in first),
        hidden=hidden,
        mixed=mixed,
        size=length,
    )


_join = chain.from_iterable


def is_shown_as_change(pending: Pending) -> bool:
    """Return whether the tool shows the call's whole effect as file changes."""
    return bool(pending.changes) and all(
        isinstance(change, FileChange) for change in pending.changes
    )


def wrap_rows(lines: Iterable[RenderedLine], width: int) -> list[RenderedLine]:
    """Return lines as rows of at most this width."""
    return [row for line in lines for row in wrap_line(line, width, CONTINUATION)]


def read_args(pending: Pending) -> Mapping[str, Any]:
    """Return the arguments by name, or what a form asks for.

    A value other than an object is named ``arguments``.
    """
    if pending.kind == "form":
        return {field.label: field.describe() for field in read_form(pending).fields}
    text = str(pending.call.args)  # a pending call has them as text
    try:
        args: Any = json.loads(text)
    except (ValueError, RecursionError):
        return {"arguments": text}
    return args if _is_object(args) else {"arguments": args}


def _outside_texts(pending: Pending, args: Mapping[str, Any]) -> Iterator[str]:
    """Yield every untrusted text shown."""
    yield from (pending.call.name, pending.call.id, pending.question)
    yield from (access.resource for access in pending.accesses)
    if pending.origin is not None:
        yield str(pending.origin)
    yield from _texts(args)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif _is_object(value):
        for key, field in value.items():
            yield str(key)
            yield from _texts(field)
    elif _is_list(value):
        for item in value:
            yield from _texts(item)
    else:
        yield _json(value)


def _is_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def _is_list(value: object) -> TypeGuard[Iterable[Any]]:
    return isinstance(value, list | tuple)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)


def make_argument(name: Any, value: Any) -> Argument:
    """Return an argument, ready to show."""
    is_text = isinstance(value, str) and value != ""  # which JSON shows better
    written = str(name) if _PLAIN_NAME.fullmatch(str(name)) else _json(name)
    return Argument(inline(written), make_printable(value if is_text else _json(value)), is_text)


def _head(pending: Pending) -> Iterator[RenderedLine]:
    effect, call = pending.effect.name.lower(), pending.call
    if pending.headline:
        yield render_line(MARGIN + "{}", pending.headline, look="title")
    if pending.kind == "form":
        yield render_line("question: {}", pending.question)
        return
    title = f"{{}} wants to run ({effect}; call {{}})"
    yield render_line(title, call.name, call.id, look="title")
    for access in pending.accesses:
        yield render_line("  {}", str(access))
    yield render_line("question: {}", split_question(pending.question, pending.sources))
    for line in describe_sources(pending.sources):
        yield render_line("  {}", line)
    if pending.origin is not None:
        yield render_line("asked by: {}", str(pending.origin))


def _follow_ups(
    pending: Pending, args: Mapping[str, Any], workspace: str | os.PathLike[str] | None
) -> Iterator[Iterable[RenderedLine]]:
    """Yield the changes previewed by the tool, and the files matching patterns."""
    for change in pending.changes:
        if isinstance(change, FileChange):
            yield _change_lines(change)
        elif said := change if isinstance(change, str) else change.description:
            yield block(said)
    command = args.get("command")
    if isinstance(command, str) and workspace is not None:
        yield expand_patterns(command, workspace)


def _name_argument(argument: Argument) -> Iterator[RenderedLine]:
    """Yield a short argument, or the length of a long one shown as a change."""
    shown = argument.shown
    if shown.lines == 1 and shown.length <= _MAX_SHORT_CHARS:
        return argument_lines(argument)
    return iter([RenderedLine(f"{argument.name} ({_measure(shown)}): shown as a change")])


def _measure(shown: Printable) -> str:
    lines = f", {shown.lines} lines" if shown.lines > 1 else ""
    return f"{shown.length} characters{lines}"


def argument_lines(argument: Argument) -> Iterator[RenderedLine]:
    """Yield a string after a colon, or any other value as JSON after an equals sign."""
    shown, sign = argument.shown, ":" if argument.is_text else " ="
    if shown.lines == 1 and shown.length <= _MAX_SHORT_CHARS:
        text = f"{argument.name}{sign} {shown.text}"
        yield RenderedLine(text, condensed=shown.condensed)
        return
    yield RenderedLine(f"{argument.name} ({_measure(shown)}){sign}")
    yield from _margin_lines(shown)


def block(text: str) -> Iterator[RenderedLine]:
    """Return a text's lines, whatever its length."""
    return _margin_lines(make_printable(text, most=len(text)))


def _margin_lines(shown: Printable) -> Iterator[RenderedLine]:
    return (
        RenderedLine(f"{MARGIN}{line}", condensed=shown.condensed)
        for line in shown.text.split("\n")
    )


def _change_lines(change: FileChange) -> Iterator[RenderedLine]:
    path, before, after = change.path, change.before, change.after
    if before is None:
        yield render_line("{} does not exist yet; its new text:", path)
    elif after is None:
        yield render_line("{} would be deleted; its text:", path)
    elif before == after:
        yield render_line("{} already has this text:", path)
    else:
        yield render_line("change to {}:", path)
        yield from _diff(change)
        return
    text = after or before or ""
    yield from block(text) if text else [RenderedLine("  (empty)")]


def _diff(change: FileChange) -> Iterator[RenderedLine]:
    looks: dict[str, Look] = {"+": "added", "-": "removed"}
    for line in diff_lines(change):
        sign = line[:1]
        look = looks.get(sign, "plain")
        yield render_line(f"{MARGIN}{sign}{{}}", line[1:], look=look, prose=True)


def shorten(rows: list[RenderedLine]) -> list[RenderedLine]:
    """Return a long block's first and last rows, with the number in between."""
    between = len(rows) - _HEAD_ROWS - _TAIL_ROWS
    if between <= 1:
        return rows
    gap = RenderedLine(f"[… {between} more rows; d shows them …]", "warning")
    return [*rows[:_HEAD_ROWS], gap, *rows[-_TAIL_ROWS:]]


def _binding(pending: Pending) -> Iterator[RenderedLine]:
    """Yield what the answer is tied to, and how long it is valid."""
    seconds = pending.expires_at - pending.asked_at
    lasts = format_duration(seconds, words=True)
    limit = f", within {lasts} of this request" if seconds < math.inf else ""
    yield render_line("fingerprint: {}", pending.fingerprint)
    yield RenderedLine(f"the answer is valid for this call only, once{limit}")


def note_lines(hidden: int, mixed: tuple[str, ...]) -> Iterator[RenderedLine]:
    """Yield what a reader should know about the characters."""
    if hidden:
        are = "characters are" if hidden > 1 else "character is"
        yield RenderedLine(f"{hidden} invisible {are} shown as \\u{{...}}", "warning")
    if mixed:
        yield RenderedLine(
            f"words with mixed scripts or look-alike letters: {', '.join(mixed)}", "warning"
        )
