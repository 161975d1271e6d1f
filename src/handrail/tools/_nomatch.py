"""What a model is told of an edit that was not applied, or not exactly where it said."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import unescape
from typing import Literal, TypeAlias

from handrail.tools._closest import Close, Row, closest
from handrail.tools._differ import LEGEND, differing
from handrail.tools._find import MOST_PLACES, Edit, How, Span, places, telling
from handrail.tools._lines import Lines

Reason: TypeAlias = Literal[
    "absent", "several", "already", "same", "empty", "unclear", "torn", "unwritable", "binary"
]
"""Why an edit was not applied."""

BINARY = "The file is not text, and only text can be edited."
EMPTY = (
    "old_string is empty, so it says no place. To add text, take a line next to the place as "
    "old_string and repeat it in new_string; to fill a file, use write."
)
SAME = "old_string and new_string are the same: nothing would change."
_MOST_LINES = 20
"""Line numbers that are listed."""
_BACKSLASHED = re.compile(r"\\([nt\"'\\])")
_SURE = 0.75
"""How close a text has to be to say more than that the new text is there already."""


@dataclass(frozen=True, slots=True)
class NoMatch:
    """Why nothing was changed.

    Attributes:
        reason: In one word.
        message: For the model.
        edit: Which of the edits it was, from 1.
        lines: The lines that it is about, from 1: all places, or the first and last line of one.
    """

    reason: Reason
    message: str
    edit: int = 1
    lines: tuple[int, ...] = ()


def named(found: NoMatch, number: int, count: int) -> NoMatch:
    """The same, with the number of the edit where there are several."""
    if count == 1:
        return found
    said = f"Edit {number} of {count} failed, so none was applied. {found.message}"
    return replace(found, edit=number, message=said)


def several(spans: Sequence[Span], *, every: bool) -> NoMatch:
    """The text is at more places than one, or at more than can be changed."""
    lines = tuple(sorted({one.line + 1 for one in spans}))
    many = f"more than {MOST_PLACES:,}" if len(spans) > MOST_PLACES else f"{len(spans):,}"
    times = f"{many} times, at {_listed(lines)}"
    how = frozenset[How]().union(*(one.how for one in spans)) - {"line ends"}
    if every:
        message = f"old_string is in the file {many} times. Use a command for that."
    elif how:
        message = (
            f"old_string is not in the file exactly. But for {_words(how)} it is there {times}. "
            "Copy the one that you mean exactly, with lines around it."
        )
    else:
        message = (
            f"old_string is in the file {times}. Add lines around the one that you mean, or set "
            "replace_all to change all of them."
        )
    return NoMatch("several", message, lines=lines)


def same(spans: Sequence[Span]) -> NoMatch:
    """The edit would leave every byte as it is."""
    lines = (spans[0].line + 1, spans[0].line + spans[0].count)
    message = (
        f"Nothing would change: the file already has new_string at {_at(*lines)}. "
        "Line ends stay as the file has them."
    )
    return NoMatch("same", message, lines=lines)


def nested(lines: Lines, at: int, edit: Edit) -> NoMatch:
    """What is to be replaced is there only as a part of what should replace it."""
    first = lines.text.count(lines.mark, 0, at) + 1
    last = first + edit.new.removesuffix(lines.mark).count(lines.mark)
    message = (
        f"old_string is in the file only within new_string, at {_at(first, last)}: this edit seems "
        "to be applied already. To apply it once more, give more of the lines around it."
    )
    return NoMatch("already", message, lines=(first, last))


def torn(spans: Sequence[Span]) -> NoMatch:
    """A place may be in the middle of a character."""
    line = spans[0].line + 1
    message = (
        f"The text at line {line} begins or ends next to a byte that is not UTF-8, perhaps in the "
        "middle of a character. Take more of the line into old_string, with such bytes as \\xNN."
    )
    return NoMatch("torn", message, lines=(line, line))


def unclear(lines: Lines, span: Span, edit: Edit) -> NoMatch:
    """The place is found, but not how the new lines are to be written there."""
    first, last = span.line + 1, span.line + span.count
    if "line numbers" in span.how:
        message = (
            f"old_string is at {_at(first, last)}, but for its line numbers; in new_string, some "
            "lines have numbers and some have none. Leave the numbers out of both."
        )
        return NoMatch("unclear", message, lines=(first, last))
    theirs = Lines(lines.text[span.start : span.end], lines.mark).contents
    rows = differing(
        lines.normal(edit.old).split("\n"),
        [Row(at, span.line + at, line) for at, line in enumerate(theirs[: span.count])],
    )
    message = (
        f"old_string is at {_at(first, last)} but for {_words(span.how)}, and it cannot be told "
        f"how new_string should be indented there. {LEGEND}:\n{rows}\n"
        "Give both as the file is indented."
    )
    return NoMatch("unclear", message, lines=(first, last))


def absent(lines: Lines, edit: Edit) -> NoMatch:
    """The text is nowhere: whether the new one is, or else what comes closest."""
    found = _escaped(lines, edit)
    if found:
        return found
    close = closest(lines, edit.old)
    there = _already(lines, edit, close)
    if there:
        message = (
            f"old_string is not in the file, but new_string is, at {_at(*there)}: this edit seems "
            "to be applied already. Go on, or read the file if you are not sure."
        )
        return NoMatch("already", message, lines=there)
    if close is None:
        return NoMatch("absent", "old_string is not in the file, nor anything like it. Read it.")
    rows = differing(lines.normal(edit.old).strip("\n").split("\n"), close.rows)
    message = (
        f"old_string is not in the file. The closest is at {_at(close.first + 1, close.last + 1)}"
        f"{_others(close.others)}. {LEGEND}:\n{rows}\n"
        "Copy old_string exactly as the file has it, without the marks."
    )
    return NoMatch("absent", message, lines=(close.first + 1, close.last + 1))


def _escaped(lines: Lines, edit: Edit) -> NoMatch | None:
    """Where the text is, if it was escaped once too often."""
    plain = {
        unescape(edit.old): "&lt; for <",
        _BACKSLASHED.sub(_plain, edit.old): "\\n for a line end",
    }
    for old, how in plain.items():
        spans = places(lines, Edit(old, "")) if old != edit.old and telling(old) else []
        if len(spans) == 1:
            first, last = spans[0].line + 1, spans[0].line + spans[0].count
            message = (
                f"old_string is not in the file. It is at {_at(first, last)} if it is escaped once "
                f"too often, as in {how}. Send the characters themselves."
            )
            return NoMatch("absent", message, lines=(first, last))
    return None


def _plain(found: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t"}.get(found[1], found[1])


def _already(lines: Lines, edit: Edit, close: Close | None) -> tuple[int, int] | None:
    """Where the new text is, if the old one was there before, as far as can be told."""
    if not telling(edit.new) or (close and _still_there(edit, close)):
        return None
    spans = places(lines, Edit(edit.new, ""))
    near = [
        one
        for one in spans
        if close and one.line <= close.last and one.line + one.count > close.first
    ]
    if not near and len(spans) == 1 and (close is None or close.score < _SURE):
        near = spans
    if not near:
        return None
    count = lines.normal(edit.new).removesuffix("\n").count("\n")
    return near[0].line + 1, near[0].line + 1 + count


def _still_there(edit: Edit, close: Close) -> bool:
    """Whether the closest text has a line that the edit would take away."""
    kept = {line.strip() for line in edit.new.splitlines()}
    old = {line.strip() for line in edit.old.splitlines()}
    return any(row.theirs.strip() in old - kept for row in close.rows if row.line >= 0)


def noted(how: frozenset[How]) -> str:
    """What a model should know of an edit that was applied though it was not exact."""
    said = list[str]()
    if blanks := how & {"indentation", "trailing blanks", "look-alikes"}:
        said.append(f"old_string differed from the file in {_words(blanks)}; the file's was kept.")
    if "line numbers" in how:
        said.append("The line numbers were left out: they are not part of the file.")
    if "spelling" in how:
        said.append("Characters that were spelled out were taken for the characters themselves.")
    if "line ends" in how:
        said.append("The file's own line ends were kept.")
    return " ".join(said)


def _words(how: frozenset[How]) -> str:
    *most, last = sorted(how)
    return f"{', '.join(most)} and {last}" if most else last


def _at(first: int, last: int) -> str:
    return f"line {first}" if first == last else f"lines {first}-{last}"


def _others(count: int) -> str:
    if not count:
        return ""
    return " (1 other place is similar)" if count == 1 else f" ({count} other places are similar)"


def _listed(lines: Sequence[int]) -> str:
    """Some line numbers in words."""
    if len(lines) == 1:
        return f"line {lines[0]}"
    some = ", ".join(map(str, lines[:_MOST_LINES]))
    return (
        f"lines {some} and {len(lines) - _MOST_LINES:,} more"
        if len(lines) > _MOST_LINES
        else f"lines {some}"
    )
