"""Edits on the bytes of a file: the right place or none, and not a byte elsewhere.

An edit is applied where its old text stands; if it stands nowhere, where it stands but for blanks,
line ends or look-alikes, as long as that is one place. Otherwise the answer says what is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from handrail import ToolFailed
from handrail.tools._find import MOST_PLACES, Edit, How, Span, places, starts
from handrail.tools._lines import Lines
from handrail.tools._nomatch import (
    BINARY,
    EMPTY,
    SAME,
    NoMatch,
    Reason,
    absent,
    named,
    nested,
    noted,
    same,
    several,
    torn,
    unclear,
)
from handrail.tools._text import Decoded, decoded, media

__all__ = ["Change", "Edit", "How", "NoMatch", "Reason", "Replaced", "replaced"]

_STRICT = frozenset[How](("line ends",))
"""What may be overlooked when a text is replaced everywhere."""
_ANY_TEXT = decoded(b"")
_TRAILS = range(0x30, 0x7F)
"""ASCII that can be the second half of a character in a two-byte encoding."""
_PLAIN_PAIR = 0xDCA1
"""From here on, both halves of a character are high in every two-byte encoding."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one edit did.

    Attributes:
        lines: The first and the last line of each place, from 1, in the new content.
        how: What was overlooked to find it; nothing if it was there exactly.
        note: What a model should know about that; nothing if it was there exactly.
    """

    lines: tuple[tuple[int, int], ...]
    how: frozenset[How] = frozenset()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Replaced:
    """The new content of a file, and what each edit did."""

    data: bytes
    changes: tuple[Change, ...]


def replaced(data: bytes, edits: Sequence[Edit]) -> Replaced | NoMatch:
    """Apply edits one after the other, each to what the one before left; all of them or none."""
    if media(data) != "text":
        return NoMatch("binary", BINARY)
    file = decoded(data)
    body = data[len(file.bom) :]
    changes = list[Change]()
    for number, edit in enumerate(edits, 1):
        spans = _spans(file, edit)
        if isinstance(spans, NoMatch):
            return named(spans, number, len(edits))
        lines = Lines(file.text)
        text, body = _spliced(file, body, spans)
        changes = [*(_shifted(one, lines, spans) for one in changes), _change(lines, spans)]
        file = replace(file, text=text)
    return Replaced(file.bom + body, tuple(changes))


def _spans(file: Decoded, edit: Edit) -> list[Span] | NoMatch:
    """Where to apply one edit, each place once and in order; or why not."""
    refused = _nonsense(file, edit)
    if refused:
        return refused
    lines = Lines(file.text)
    spans = _chosen(lines, places(lines, edit), edit)
    if not spans:
        return absent(lines, edit)
    return _doubtful(file, lines, spans, edit) or spans


def _doubtful(file: Decoded, lines: Lines, spans: Sequence[Span], edit: Edit) -> NoMatch | None:
    """Why an edit should not be applied to what was found."""
    text = file.text
    every = edit.everywhere and all(one.how <= _STRICT for one in spans)
    if len(spans) > (MOST_PLACES if every else 1):
        return several(spans, every=every)
    if any(one.text is None for one in spans):
        return unclear(lines, spans[0], edit)
    if any(_torn(file, at) for one in spans for at in (one.start, one.end)):
        return torn(spans)
    if all(one.text == text[one.start : one.end] for one in spans):
        return same(spans)
    around = [_around(text, one.start, edit) for one in spans]
    if all(at is not None for at in around):
        return nested(lines, around[0] or 0, edit)
    return None


def _nonsense(file: Decoded, edit: Edit) -> NoMatch | None:
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


def _chosen(lines: Lines, spans: list[Span], edit: Edit) -> list[Span]:
    """One exact place before others that differ in line ends; and of places that overlap, one."""
    spans = [
        replace(one, how=frozenset())
        if one.how and lines.text[one.start : one.end] == edit.old
        else one
        for one in spans
    ]
    if not edit.everywhere:
        exact = [one for one in spans if not one.how]
        return exact if len(exact) == 1 else spans
    apart = list[Span]()
    for one in spans:
        if not apart or one.start >= apart[-1].end:
            apart.append(one)
    return apart


def _around(text: str, start: int, edit: Edit) -> int | None:
    """Where the new text is, if what was found is a part of it: then it was replaced before."""
    before = (start - at for at in starts(edit.new, edit.old) if at <= start)
    return next((at for at in before if text.startswith(edit.new, at)), None)


def _torn(file: Decoded, at: int) -> bool:
    """Whether a place may be in the middle of a character of an encoding that is not known."""
    before, after = file.text[at - 1 : at], file.text[at : at + 1]
    if not file.escapes or not "\udc80" <= before <= "\udcff":
        return False
    if not after or not (ord(after) in _TRAILS or "\udc80" <= after <= "\udcff"):
        return False
    run = at
    while run and _PLAIN_PAIR <= ord(file.text[run - 1]) <= 0xDCFF:  # noqa: PLR2004
        run -= 1
    whole = run == 0 or not "\udc80" <= file.text[run - 1] <= "\udcff"
    return not (whole and (at - run) % 2 == 0)


def _spliced(file: Decoded, body: bytes, spans: Sequence[Span]) -> tuple[str, bytes]:
    """The text and the bytes after the spans were replaced; all else is copied."""
    text, data = list[str](), list[bytes]()
    at = offset = 0
    for one in spans:
        start = offset + len(file.part(file.text[at : one.start]))
        text += (file.text[at : one.start], one.text or "")
        data += (body[offset:start], file.part(one.text or ""))
        at, offset = one.end, start + len(file.part(file.text[one.start : one.end]))
    return "".join([*text, file.text[at:]]), b"".join([*data, body[offset:]])


def _change(lines: Lines, spans: Sequence[Span]) -> Change:
    """What an edit did, by the lines of the new text."""
    found = list[tuple[int, int]]()
    more = 0
    for one in spans:
        first = one.line + more + 1
        found.append((first, first + lines.normal(one.text or "").removesuffix("\n").count("\n")))
        more += _growth(lines, one)
    how = frozenset[How]().union(*(one.how for one in spans))
    return Change(tuple(found), how, noted(how))


def _shifted(change: Change, lines: Lines, spans: Sequence[Span]) -> Change:
    """An earlier change by the lines of a text that was changed once more."""
    growths = [(one.line + 1, _growth(lines, one)) for one in spans]

    def moved(line: int) -> int:
        return line + sum(by for at, by in growths if at < line)

    return replace(change, lines=tuple((moved(one), moved(two)) for one, two in change.lines))


def _growth(lines: Lines, span: Span) -> int:
    """How many lines a span has more than before."""
    before, after = lines.text[span.start : span.end], span.text or ""
    return lines.normal(after).count("\n") - lines.normal(before).count("\n")
