"""Render an approval request as lines for a person. Nothing is left out, and nothing is masked.

A mask that hides a secret could also hide where it goes, and the person must see both.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from handrail._support import format_duration
from handrail.approvals._display import (
    Look,
    Printable,
    RenderedLine,
    Span,
    count_bytes,
    inline,
    make_printable,
    render_line,
    wrap_line,
)
from handrail.approvals._patterns import expand_patterns
from handrail.approvals._view import (
    Comparison,
    RequestView,
    diff_rows,
    view_request,
    write_json,
    write_value,
)
from handrail.permissions import FileChange, Pending

MARGIN = "│ "
"""Before each line of untrusted text, to keep it from the left edge."""
CONTINUATION = "┊ "
"""Before the rest of a line wider than the screen."""
_PLAIN_NAME = re.compile(r"[\w.-]+", re.ASCII)
_MAX_SHORT_CHARS = 200
"""Longer texts are shown with their length."""
_MAX_INDENT = 40
"""Spaces shown unchanged before a line of code."""
_MIN_ALIKE = 0.5
"""How much two rows must share before differing words are marked."""
_WORDS = re.compile(r"\w+|\s+|.")
_MAX_STEPS = 500_000
"""Words to compare in one file: more take too long."""


@dataclass(frozen=True, slots=True)
class RenderedRequest:
    """An approval request as lines: all of it, unless it is too long."""

    view: RequestView
    lines: tuple[RenderedLine, ...]
    details: tuple[RenderedLine, ...]
    """The same lines, and what the answer is tied to."""

    @property
    def is_plain(self) -> bool:
        """Whether every character is shown unchanged: none is an escape, and none is counted."""
        is_condensed = any(line.condensed for line in self.lines)
        return not (is_condensed or self.view.hidden or self.view.mixed)


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
    view = view_request(pending)
    if view.too_long:
        title = RenderedLine("This call is too long to show.", "title")
        return RenderedRequest(view, (title,), (title,))
    body = wrap_rows([*_head(view), *_body(view, workspace)], width)
    binding, notes = wrap_rows(_binding(pending), width), wrap_rows(note_lines(view), width)
    return RenderedRequest(view, (*body, *notes), (*body, *binding, *notes))


def _head(view: RequestView) -> Iterator[RenderedLine]:
    pending, call = view.pending, view.pending.call
    if pending.headline:
        yield render_line(MARGIN + "{}", pending.headline, look="title")
    if pending.kind == "form":
        yield render_line("question: {}", pending.question)
        return
    title = f"{{}} wants to run ({pending.effect.name.lower()}; call {{}})"
    yield render_line(title, call.name, call.id, look="title")
    for access in pending.accesses:
        yield render_line("  {}", str(access))
    yield render_line("question: {}", view.question)
    for line in view.sources:
        yield render_line("  {}", line)
    if pending.origin is not None:
        yield render_line("asked by: {}", str(pending.origin))


def _body(view: RequestView, workspace: str | os.PathLike[str] | None) -> Iterator[RenderedLine]:
    for name, value in view.args.items():
        yield from argument_lines(name, value)
    for change in view.files:
        yield from change_lines(change, heading="change to {}:", context=3)
    for note in view.notes:
        yield from block(note)
    if workspace is not None:
        yield from expand_patterns(view.command, workspace)


def _binding(pending: Pending) -> Iterator[RenderedLine]:
    """Yield what the answer is tied to, and how long it is valid."""
    seconds = pending.expires_at - pending.asked_at
    lasts = format_duration(seconds, words=True)
    limit = f", within {lasts} of this request" if seconds < math.inf else ""
    yield render_line("fingerprint: {}", pending.fingerprint)
    yield RenderedLine(f"the answer is valid for this call only, once{limit}")


def wrap_rows(lines: Iterable[RenderedLine], width: int) -> list[RenderedLine]:
    """Return lines as rows of at most this width."""
    return [row for line in lines for row in wrap_line(line, width, CONTINUATION)]


def argument_lines(name: Any, value: Any) -> Iterator[RenderedLine]:
    """Yield a string after a colon, or any other value as JSON after an equals sign."""
    label = str(name) if _PLAIN_NAME.fullmatch(str(name)) else write_json(name)
    label, text = inline(label, most=count_bytes(label)), write_value(value)
    shown, sign = make_printable(text, most=count_bytes(text)), ":" if text is value else " ="
    if shown.lines == 1 and shown.length <= _MAX_SHORT_CHARS:
        yield RenderedLine(f"{label}{sign} {shown.text}", condensed=shown.condensed)
        return
    lines = f", {shown.lines} lines" if shown.lines > 1 else ""
    yield RenderedLine(f"{label} ({shown.length} characters{lines}){sign}")
    yield from _margin_lines(shown)


def block(text: str) -> Iterator[RenderedLine]:
    """Return a text's lines, whatever its length."""
    return _margin_lines(make_printable(text, most=len(text)))


def _margin_lines(shown: Printable) -> Iterator[RenderedLine]:
    return (
        RenderedLine(f"{MARGIN}{line}", condensed=shown.condensed)
        for line in shown.text.split("\n")
    )


def change_lines(change: FileChange, *, heading: str, context: int) -> Iterator[RenderedLine]:
    """Yield a file change as numbered diff lines. ``heading`` is for an existing file."""
    if change.before == change.after:
        heading = "{} already has this text"
    elif change.before is None:
        heading = "{} is a new file"
    elif change.after is None:
        heading = "{} would be deleted"
    if heading:
        yield render_line(heading, change.path, look="muted")
    rows = list(diff_rows(change, context))
    if not rows and change.before != change.after:
        yield RenderedLine("(empty)", "muted")
    size = max((len(str(number)) for _, number, _ in rows), default=0) + 1
    looks: dict[str, Look] = {"+": "added", "-": "removed"}
    lines = [
        RenderedLine("⋯".rjust(size), "muted")
        if sign == "@"
        else render_line(
            f"{number:>{size}} {sign} {indent}{{}}",
            text[len(indent) :],
            look=looks.get(sign, "plain"),
            prose=True,
        )
        for sign, number, text in rows
        for indent in [_indentation(text)]
    ]
    yield from _mark_words(lines, size + 3)


def _indentation(text: str) -> str:
    """Return the spaces to show unchanged before a line. More than code has are dropped."""
    spaces = len(text) - len(text.lstrip(" "))
    return " " * spaces if spaces <= _MAX_INDENT else ""


def _mark_words(lines: Sequence[RenderedLine], at: int) -> Iterator[RenderedLine]:
    """Mark differing words, where one line replaces one other."""
    marked, steps = list(lines), _MAX_STEPS
    looks = ["plain", *(line.look for line in lines), "plain"]
    for index in range(len(lines) - 1):
        if looks[index : index + 4] == [looks[index], "removed", "added", looks[index + 3]] and (
            looks[index] != "removed" and looks[index + 3] != "added"
        ):
            pair, steps = _mark_pair(lines[index], lines[index + 1], at, steps)
            marked[index : index + 2] = pair
    return iter(marked)


def _mark_pair(
    old: RenderedLine, new: RenderedLine, at: int, steps: int
) -> tuple[list[RenderedLine], int]:
    """Return both lines, with differing words marked, and the steps left for others."""
    before, after = (_WORDS.findall(line.text[at:]) for line in (old, new))
    matcher = Comparison(before, after, steps)
    if matcher.ratio() < _MIN_ALIKE:
        return [old, new], matcher.steps
    spans: tuple[list[Span], list[Span]] = [], []
    for kind, *places in matcher.get_opcodes():
        if kind != "equal":
            for words, own, (first, last) in zip(
                (before, after), spans, (places[:2], places[2:]), strict=True
            ):
                start = at + len("".join(words[:first]))
                own.append((start, start + len("".join(words[first:last])), "changed"))
    marked = [replace(line, spans=tuple(own)) for line, own in zip((old, new), spans, strict=True)]
    return marked, matcher.steps


def note_lines(view: RequestView) -> Iterator[RenderedLine]:
    """Yield what a reader should know about the characters."""
    if view.hidden:
        are = "characters are" if view.hidden > 1 else "character is"
        yield RenderedLine(f"{view.hidden} invisible {are} shown as \\u{{...}}", "warning")
    if view.mixed:
        yield RenderedLine(
            f"words with mixed scripts or look-alike letters: {', '.join(view.mixed)}", "warning"
        )
