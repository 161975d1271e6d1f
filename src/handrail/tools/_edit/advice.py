"""Texts for the model about rejected edits and approximate matches."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import unescape
from typing import Literal, NamedTuple, TypeAlias

from handrail._support.visible import spell_out
from handrail.tools._descriptions import join_words
from handrail.tools._edit.lines import Lines
from handrail.tools._edit.lookalikes import SPACES, unify_lookalikes
from handrail.tools._edit.nearest import LinePair, NearestPlace, find_nearest
from handrail.tools._edit.places import MAX_PLACES, EditSpan, How, TextEdit, find_places, is_telling

Reason: TypeAlias = Literal[
    "absent", "several", "already", "same", "empty", "unclear", "torn", "unwritable", "binary"
]
"""Why an edit was not applied."""

BINARY = "Not edited: the file is binary, and only text can be edited."
EMPTY = (
    "old_string is empty. To insert text, pass a line next to it as old_string and repeat that "
    "line in new_string. To write the whole file, use write."
)
SAME = "old_string and new_string are the same: nothing would change."
_MAX_LISTED_LINES = 20
"""Line numbers listed."""
_BACKSLASHED = re.compile(r"\\([nt\"'\\])")
_MIN_SURE_SCORE = 0.75
"""The similarity from which the closest text is shown even if new_string is in the file."""
_MAX_ROWS = 24
"""Rows shown."""
_MAX_ROW_CHARS = 140
"""Characters in a row."""
_CHARS_BEFORE = 40
"""Characters before the first difference in an overlong row."""
_MARKS = ("·", "→", "<U+")
_VISIBLE = str.maketrans({" ": "·", "\t": "→", "\r": "␍"})


@dataclass(frozen=True, slots=True)
class NoMatch:
    """Why nothing was changed.

    Attributes:
        reason: The reason in one word.
        message: The text for the model.
        edit: The failed edit's number, from 1.
        lines: The lines concerned, from 1: all locations, or one location's first and last line.
    """

    reason: Reason
    message: str
    edit: int = 1
    lines: tuple[int, ...] = ()


def number_failure(failure: NoMatch, number: int, count: int) -> NoMatch:
    """Add the edit's number if there are several."""
    if count == 1:
        return failure
    message = f"Edit {number} of {count} failed, so none was applied. {failure.message}"
    return replace(failure, edit=number, message=message)


def explain_several(spans: Sequence[EditSpan], *, every: bool) -> NoMatch:
    """Explain that the text is at several locations, or at more than can be changed."""
    lines = tuple(sorted({span.line + 1 for span in spans}))
    many = f"more than {MAX_PLACES:,}" if len(spans) > MAX_PLACES else f"{len(spans):,}"
    times = f"{many} times, at {_format_line_list(lines)}"
    how = frozenset[How]().union(*(span.how for span in spans)) - {"line endings"}
    if every:
        message = f"old_string is in the file {many} times. Use a command instead."
    elif how:
        message = (
            f"old_string is not in the file exactly. Apart from {_join_words(how)} it is there "
            f"{times}. Copy the one you mean exactly, with surrounding lines."
        )
    else:
        message = (
            f"old_string is in the file {times}. Add lines around the one you mean, or set "
            "replace_all to change them all."
        )
    return NoMatch("several", message, lines=lines)


def explain_same(spans: Sequence[EditSpan]) -> NoMatch:
    """Explain that the edit would not change a byte."""
    lines = (spans[0].line + 1, spans[0].line + spans[0].count)
    message = (
        f"Nothing would change: the file already has new_string at {_format_range(*lines)}. "
        "Line endings stay as they are in the file."
    )
    return NoMatch("same", message, lines=lines)


def explain_nested(lines: Lines, at: int, edit: TextEdit) -> NoMatch:
    """Explain that old_string occurs only inside new_string."""
    first = lines.text.count(lines.mark, 0, at) + 1
    last = first + edit.new.removesuffix(lines.mark).count(lines.mark)
    message = (
        f"old_string is in the file only within new_string, at {_format_range(first, last)}: this "
        "edit seems to be applied already. To apply it again, add surrounding lines."
    )
    return NoMatch("already", message, lines=(first, last))


def explain_torn(spans: Sequence[EditSpan]) -> NoMatch:
    """Explain that the text may start or end inside a character."""
    line = spans[0].line + 1
    message = (
        f"The text at line {line} starts or ends next to a byte that is not UTF-8, perhaps inside "
        "a character. Add more of the line to old_string, with such bytes as \\xNN."
    )
    return NoMatch("torn", message, lines=(line, line))


def explain_unclear(lines: Lines, span: EditSpan, edit: TextEdit) -> NoMatch:
    """Explain that the location is known, but not how to write the new lines there."""
    first, last = span.line + 1, span.line + span.count
    if "line numbers" in span.how:
        message = (
            f"old_string matches {_format_range(first, last)} without its line numbers, but only "
            "some lines of new_string have numbers. Remove the numbers from both."
        )
        return NoMatch("unclear", message, lines=(first, last))
    theirs = Lines(lines.text[span.start : span.end], lines.mark).contents
    difference = _format_difference(
        lines.normal(edit.old).split("\n"),
        [LinePair(at, span.line + at, line) for at, line in enumerate(theirs[: span.count])],
    )
    place = f"old_string matches {_format_range(first, last)} apart from {_join_words(span.how)}"
    if "look-alikes" in span.how:
        message = (
            f"{place}, and whether to replace those is unclear. {_format_rows(difference)}\n"
            "Copy old_string from the file, and write the characters that you want in new_string."
        )
        return NoMatch("unclear", message, lines=(first, last))
    message = (
        f"{place}, but how to indent new_string there is unclear. {_format_rows(difference)}\n"
        "Indent both as the file does."
    )
    return NoMatch("unclear", message, lines=(first, last))


def explain_absent(lines: Lines, edit: TextEdit) -> NoMatch:
    """Explain that the text is absent: the edit was applied before, or this is the closest text."""
    escapes = _explain_escapes(lines, edit)
    if escapes:
        return escapes
    close = find_nearest(lines, edit.old)
    there = _find_new_text(lines, edit, close)
    if there:
        message = (
            f"old_string is not in the file, but new_string is, at {_format_range(*there)}. If "
            "this edit was applied before, continue; otherwise read the file again."
        )
        return NoMatch("already", message, lines=there)
    if close is None:
        message = "old_string is not in the file, and nothing is similar. Read the file again."
        return NoMatch("absent", message)
    difference = _format_difference(lines.normal(edit.old).strip("\n").split("\n"), close.rows)
    marks = ", without the marks" * difference.has_marks
    where = _format_range(close.first + 1, close.last + 1)
    message = (
        f"old_string is not in the file. The closest text is at {where}"
        f"{_format_others(close.others)}. {_format_rows(difference)}\n"
        f"Copy old_string exactly from the file{marks}."
    )
    return NoMatch("absent", message, lines=(close.first + 1, close.last + 1))


def _explain_escapes(lines: Lines, edit: TextEdit) -> NoMatch | None:
    """Explain where the text is without one escaping level."""
    plain = {
        unescape(edit.old): "&lt; for <",
        _BACKSLASHED.sub(_unescape, edit.old): "\\n for a line break",
    }
    for old, how in plain.items():
        spans = find_places(lines, TextEdit(old, "")) if old != edit.old and is_telling(old) else []
        if len(spans) == 1:
            first, last = spans[0].line + 1, spans[0].line + spans[0].count
            message = (
                f"old_string is escaped twice, as in {how}; unescaped, it is at "
                f"{_format_range(first, last)}. Send the characters themselves."
            )
            return NoMatch("absent", message, lines=(first, last))
    return None


def _unescape(found: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t"}.get(found[1], found[1])


def _find_new_text(
    lines: Lines, edit: TextEdit, close: NearestPlace | None
) -> tuple[int, int] | None:
    """Return where the new text is, if it probably replaced the old one before."""
    if not is_telling(edit.new) or (close and _has_removed_line(edit, close)):
        return None
    spans = find_places(lines, TextEdit(edit.new, ""))
    near = [
        span
        for span in spans
        if close and span.line <= close.last and span.line + span.count > close.first
    ]
    if not near and len(spans) == 1 and (close is None or close.score < _MIN_SURE_SCORE):
        near = spans
    if not near:
        return None
    count = lines.normal(edit.new).removesuffix("\n").count("\n")
    return near[0].line + 1, near[0].line + 1 + count


def _has_removed_line(edit: TextEdit, close: NearestPlace) -> bool:
    """Return whether the closest text has a line the edit would remove."""
    new = {line.strip() for line in edit.new.splitlines()}
    old = {line.strip() for line in edit.old.splitlines()}
    return any(row.theirs.strip() in old - new for row in close.rows if row.line >= 0)


def describe_tolerance(how: frozenset[How]) -> str:
    """Return a note about an approximate match; empty for an exact match."""
    notes = list[str]()
    if spacing := how & {"indentation", "trailing whitespace"}:
        notes.append(f"old_string differed in {_join_words(spacing)}; the file's was kept.")
    if "look-alikes" in how:
        notes.append(
            "old_string differed in characters that look the same; unchanged text keeps the file's."
        )
    if "line numbers" in how:
        notes.append("Line numbers were removed.")
    if "spelling" in how:
        notes.append("Spelled out characters were read as the characters themselves.")
    if "line endings" in how:
        notes.append("The file's line endings were kept.")
    return " ".join(notes)


def _join_words(how: frozenset[How]) -> str:
    return join_words(sorted(how))


def _format_rows(difference: _Difference) -> str:
    legend = " (· is a space, → a tab)" * difference.has_marks
    return f"Line by line{legend}:\n{difference.rows}"


def _format_range(first: int, last: int) -> str:
    return f"line {first}" if first == last else f"lines {first}-{last}"


def _format_others(count: int) -> str:
    if not count:
        return ""
    return " (1 other place is similar)" if count == 1 else f" ({count} other places are similar)"


def _format_line_list(lines: Sequence[int]) -> str:
    """Return some line numbers as text."""
    if len(lines) == 1:
        return f"line {lines[0]}"
    some = ", ".join(map(str, lines[:_MAX_LISTED_LINES]))
    return (
        f"lines {some} and {len(lines) - _MAX_LISTED_LINES:,} more"
        if len(lines) > _MAX_LISTED_LINES
        else f"lines {some}"
    )


class _Difference(NamedTuple):
    """Two texts, line by line."""

    rows: str
    has_marks: bool
    """Whether characters are marked in them."""


def _format_difference(old: Sequence[str], rows: Sequence[LinePair]) -> _Difference:
    """Format two texts line by line: as the old text has it, and as the file has it."""
    shown_rows = [line for row in rows for line in _format_pair(old, row)]
    some = shown_rows[:_MAX_ROWS]
    if len(shown_rows) > _MAX_ROWS:
        some.append(f"... {len(shown_rows) - _MAX_ROWS} more rows")
    text = "\n".join(some)
    return _Difference(text, any(mark in text for mark in _MARKS))


def _format_pair(old: Sequence[str], row: LinePair) -> Iterator[str]:
    number = str(row.line + 1)
    if row.line < 0:
        yield _format_row("yours", "", spell_out(old[row.mine]), 0)
    elif row.mine < 0:
        yield _format_row("file", number, spell_out(row.theirs), 0)
    elif old[row.mine] == row.theirs:
        yield _format_row("both", number, spell_out(row.theirs), 0)
    else:
        yield from _format_change(old[row.mine], row.theirs, number)


def _format_change(mine: str, theirs: str, number: str) -> Iterator[str]:
    spaces = _differ_in_spaces(mine, theirs)
    ours, other = (_mark_characters(line, spaces=spaces) for line in (mine, theirs))
    differs = zip(ours, other, strict=False)
    at = next((at for at, (a, b) in enumerate(differs) if a != b), min(len(ours), len(other)))
    yield _format_row("yours", "", ours, at)
    yield _format_row("file", number, other, at)


def _differ_in_spaces(mine: str, theirs: str) -> bool:
    """Return whether whitespace differs at two lines' ends, or nothing else differs."""
    ends = [
        (line[: len(line) - len(line.lstrip(SPACES))], line[len(line.rstrip(SPACES)) :])
        for line in (mine, theirs)
    ]
    return ends[0] != ends[1] or "".join(unify_lookalikes(mine).split()) == "".join(
        unify_lookalikes(theirs).split()
    )


def _mark_characters(line: str, *, spaces: bool) -> str:
    seen = spell_out(line.translate(_VISIBLE) if spaces else line)
    return (
        "".join(_with_code(character) for character in seen[: _MAX_ROW_CHARS * 4])
        + seen[_MAX_ROW_CHARS * 4 :]
    )


def _with_code(character: str) -> str:
    """Return a character, with its code point if it looks like another one."""
    if (
        character.isascii()
        or character in "·→␍"
        or (unify_lookalikes(character) == character and not unicodedata.combining(character))
    ):
        return character
    return f"{character}<U+{ord(character):04X}>"


def _format_row(who: str, number: str, text: str, at: int) -> str:
    start = at - _CHARS_BEFORE if at > _MAX_ROW_CHARS - _CHARS_BEFORE else 0
    cut = text[start : start + _MAX_ROW_CHARS]
    cut = f"...{cut}" if start else cut
    cut = f"{cut}..." if len(text) > start + _MAX_ROW_CHARS else cut
    return f"{who:>5} {number:>6} |{cut}"
