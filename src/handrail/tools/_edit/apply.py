"""Applies edits to a file's bytes, only at unambiguous locations.

An edit is applied where the file has its old text. Without an exact match, whitespace, line
endings and look-alikes may differ if that gives one location. Otherwise the result explains what
the file has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from handrail import ToolFailed
from handrail.tools._edit.advice import (
    BINARY,
    EMPTY,
    SAME,
    NoMatch,
    Reason,
    describe_tolerance,
    explain_absent,
    explain_nested,
    explain_same,
    explain_several,
    explain_torn,
    explain_unclear,
    number_failure,
)
from handrail.tools._edit.lines import Lines
from handrail.tools._edit.places import (
    MAX_PLACES,
    EditSpan,
    How,
    TextEdit,
    find_places,
    find_starts,
)
from handrail.tools._files.encoding import DecodedText, decode_text, media

__all__ = ["AppliedEdit", "EditedContent", "How", "NoMatch", "Reason", "TextEdit", "apply_edits"]

_STRICT = frozenset[How](("line endings",))
"""The only differences allowed when a text is replaced everywhere."""
_ANY_TEXT = decode_text(b"")
_TRAILS = range(0x30, 0x7F)
"""ASCII for second halves in two-byte encodings."""
_HIGH_HALVES = range(0xDCA1, 0xDD00)
"""Invalid bytes from A1 on: with these, both bytes in a two-byte character are high."""


@dataclass(frozen=True, slots=True)
class AppliedEdit:
    """One edit's effect.

    Attributes:
        lines: Each location's first and last line, from 1, in the new content.
        how: The differences between old_string and the file; empty for an exact match.
        note: A note for the model about them; empty for an exact match.
    """

    lines: tuple[tuple[int, int], ...]
    how: frozenset[How] = frozenset()
    note: str = ""


@dataclass(frozen=True, slots=True)
class EditedContent:
    """A file's new content, and each edit's effect."""

    data: bytes
    changes: tuple[AppliedEdit, ...]


def apply_edits(data: bytes, edits: Sequence[TextEdit]) -> EditedContent | NoMatch:
    """Apply edits one after the other; all or none."""
    if media(data) != "text":
        return NoMatch("binary", BINARY)
    file = decode_text(data)
    body = data[len(file.bom) :]
    changes = list[AppliedEdit]()
    for number, edit in enumerate(edits, 1):
        spans = _find_spans(file, edit)
        if isinstance(spans, NoMatch):
            return number_failure(spans, number, len(edits))
        lines = Lines(file.text)
        text, body = _splice(file, body, spans)
        changes = [
            *(_shift(change, lines, spans) for change in changes),
            _report_edit(lines, spans),
        ]
        file = replace(file, text=text)
    return EditedContent(file.bom + body, tuple(changes))


def _find_spans(file: DecodedText, edit: TextEdit) -> list[EditSpan] | NoMatch:
    """Return one edit's locations in order, or why there are none."""
    refused = _check_edit(file, edit)
    if refused:
        return refused
    lines = Lines(file.text)
    spans = _choose_spans(lines, find_places(lines, edit), edit)
    if not spans:
        return explain_absent(lines, edit)
    return _find_doubt(file, lines, spans, edit) or spans


def _find_doubt(
    file: DecodedText, lines: Lines, spans: Sequence[EditSpan], edit: TextEdit
) -> NoMatch | None:
    """Return why an edit should not be applied at the locations found, or None."""
    text = file.text
    every = edit.everywhere and all(span.how <= _STRICT for span in spans)
    if len(spans) > (MAX_PLACES if every else 1):
        return explain_several(spans, every=every)
    if any(span.text is None for span in spans):
        return explain_unclear(lines, spans[0], edit)
    if any(_may_tear(file, at) for span in spans for at in (span.start, span.end)):
        return explain_torn(spans)
    if all(span.text == text[span.start : span.end] for span in spans):
        return explain_same(spans)
    around = [_find_around(text, span.start, edit) for span in spans]
    if all(at is not None for at in around):
        return explain_nested(lines, around[0] or 0, edit)
    return None


def _check_edit(file: DecodedText, edit: TextEdit) -> NoMatch | None:
    if not edit.old:
        return NoMatch("empty", EMPTY)
    if edit.old == edit.new:
        return NoMatch("same", SAME)
    try:
        file.check(edit.new)
        _ANY_TEXT.check(edit.old)
    except ToolFailed as error:
        return NoMatch("unwritable", str(error))
    return None


def _choose_spans(lines: Lines, spans: list[EditSpan], edit: TextEdit) -> list[EditSpan]:
    """Prefer one exact match to others with different line endings, and drop overlaps."""
    spans = [
        replace(span, how=frozenset())
        if span.how and lines.text[span.start : span.end] == edit.old
        else span
        for span in spans
    ]
    if not edit.everywhere:
        exact = [span for span in spans if not span.how]
        return exact if len(exact) == 1 else spans
    apart = list[EditSpan]()
    for span in spans:
        if not apart or span.start >= apart[-1].end:
            apart.append(span)
    return apart


def _find_around(text: str, start: int, edit: TextEdit) -> int | None:
    """Return where the new text is if it contains the match: it was replaced before."""
    before = (start - at for at in find_starts(edit.new, edit.old) if at <= start)
    return next((at for at in before if text.startswith(edit.new, at)), None)


def _may_tear(file: DecodedText, at: int) -> bool:
    """Return whether a position may be inside a character in an unknown encoding."""
    before, after = file.text[at - 1 : at], file.text[at : at + 1]
    if not file.escapes or not "\udc80" <= before <= "\udcff":
        return False
    if not after or not (ord(after) in _TRAILS or "\udc80" <= after <= "\udcff"):
        return False
    run = at
    while run and ord(file.text[run - 1]) in _HIGH_HALVES:
        run -= 1
    whole = run == 0 or not "\udc80" <= file.text[run - 1] <= "\udcff"
    return not (whole and (at - run) % 2 == 0)


def _splice(file: DecodedText, body: bytes, spans: Sequence[EditSpan]) -> tuple[str, bytes]:
    """Return the text and the bytes with the spans replaced; the rest is copied."""
    text, data = list[str](), list[bytes]()
    at = offset = 0
    for span in spans:
        start = offset + len(file.part(file.text[at : span.start]))
        text += (file.text[at : span.start], span.text or "")
        data += (body[offset:start], file.part(span.text or ""))
        at, offset = span.end, start + len(file.part(file.text[span.start : span.end]))
    return "".join([*text, file.text[at:]]), b"".join([*data, body[offset:]])


def _report_edit(lines: Lines, spans: Sequence[EditSpan]) -> AppliedEdit:
    """Return an edit's effect, in the new text's line numbers."""
    places = list[tuple[int, int]]()
    more = 0
    for span in spans:
        first = span.line + more + 1
        places.append((first, first + lines.normal(span.text or "").removesuffix("\n").count("\n")))
        more += _growth(lines, span)
    how = frozenset[How]().union(*(span.how for span in spans))
    return AppliedEdit(tuple(places), how, describe_tolerance(how))


def _shift(change: AppliedEdit, lines: Lines, spans: Sequence[EditSpan]) -> AppliedEdit:
    """Return an earlier change with the latest text's line numbers."""
    growths = [(span.line + 1, _growth(lines, span)) for span in spans]

    def shift_line(line: int) -> int:
        return line + sum(by for at, by in growths if at < line)

    return replace(
        change, lines=tuple((shift_line(first), shift_line(last)) for first, last in change.lines)
    )


def _growth(lines: Lines, span: EditSpan) -> int:
    """Return how many lines a span adds."""
    before, after = lines.text[span.start : span.end], span.text or ""
    return lines.normal(after).count("\n") - lines.normal(before).count("\n")
