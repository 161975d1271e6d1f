"""Finds an edit's locations in a text, and the text to write there.

The steps go from strict to tolerant, and the first successful one decides. None of them
ignores a letter, a digit or a sign.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Literal, TypeAlias

from handrail.tools._edit.copied_text import restore_characters, strip_line_numbers
from handrail.tools._edit.indentation import SAME, IndentRule, find_rule, indent_of
from handrail.tools._edit.lines import Lines, Region, merge_lines, split_around
from handrail.tools._edit.lookalikes import (
    SPACES,
    find_column,
    keep_characters,
    unify_lookalikes,
    unify_unseen,
)

How: TypeAlias = Literal[
    "line endings", "trailing whitespace", "indentation", "line numbers", "look-alikes", "spelling"
]
"""A difference between old_string and the file."""
Lens: TypeAlias = Callable[[str], str]
"""Returns one spelling for all texts treated as equal."""

MAX_PLACES = 100_000
"""Locations one edit can change at once. One more is searched for, to know if there are more."""
_MAX_LISTED_PLACES = 100
"""Locations reported if only one is allowed."""
_MAX_LINE_CHARS = 100_000
"""Characters searched for look-alikes in a line."""
MAX_WHOLE_CHARS = 4_000_000
"""Text size above which only parts are searched, in characters."""
_PIECE = re.compile(r"[\w()\[\]{}<>,;:=+*/&|!?@#$%]+(?: [\w()\[\]{}<>,;:=+*/&|!?@#$%]+)*", re.ASCII)
"""A text piece with one spelling in every tolerated form."""
_NEAR_LINES = 400
"""Lines before and after a location, for finding a file's indentation."""
_MIN_LETTERS = 3
"""Letters and digits a text needs for an inexact match."""
_MAX_INDENT = 80
"""The deepest indentation, in characters, a first line may lack."""


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Replace a text by another one: at its only location, or everywhere."""

    old: str
    new: str
    everywhere: bool = False
    after: int | None = None
    """A line number, from 0: only the first occurrence from there on is meant."""


@dataclass(frozen=True, slots=True)
class EditSpan:
    """A text part, and its replacement.

    Attributes:
        start: Where it starts.
        end: Where it ends.
        line: Its first line's number, from 0.
        count: How many lines it has.
        text: The replacement; None if it is unknown.
        how: The differences between old_string and the file.
    """

    start: int
    end: int
    line: int
    count: int
    text: str | None
    how: frozenset[How] = frozenset()


class _Unclear(Exception):
    """A new line's indentation is unknown, or whether it keeps the file's characters."""


def find_places(lines: Lines, edit: TextEdit) -> list[EditSpan]:
    """Return all locations the strictest successful step finds."""
    some = (
        [lines]
        if len(lines.text) <= MAX_WHOLE_CHARS or edit.everywhere
        else _likely_parts(lines, edit.old)
    )
    # a tolerant match beside an exact one would change a wrong place: decision 020
    for step in (
        _find_exact,
        _find_whole_lines,
        _find_without_numbers,
        _find_without_spelling,
        _find_lookalikes,
    ):
        spans = [span for part in some for span in step(part, edit)]
        if edit.after is not None:
            spans = [span for span in spans if span.line >= edit.after][:1]
        if spans:
            return spans
    return []


def _likely_parts(lines: Lines, old: str) -> list[Lines]:
    """Return a large text's parts with the longest piece every step needs."""
    piece = max(_PIECE.findall(old), key=len, default="")
    hits = [*islice(find_starts(lines.text, piece), _MAX_LISTED_PLACES)]
    common = len(piece) < _MIN_LETTERS or len(hits) == _MAX_LISTED_PLACES
    return [lines] if common else split_around(lines, hits, old.count("\n") + _NEAR_LINES)


def _find_exact(lines: Lines, edit: TextEdit) -> list[EditSpan]:
    if any("\r" in text for text in (lines.text, edit.old, edit.new)):
        return _find_within(lines, edit, str)
    count, size = _count_lines(edit.old), len(edit.old)
    return [
        EditSpan(at + lines.offset, at + lines.offset + size, line + lines.line, count, edit.new)
        for line, _, at in islice(_iterate_hits(lines.text, edit.old), MAX_PLACES + 1)
    ]


def _count_lines(text: str) -> int:
    return text.removesuffix("\n").count("\n") + 1


def _iterate_hits(text: str, part: str) -> Iterator[tuple[int, int, int]]:
    """Yield where a part is: the line, where the line starts, and where the part starts."""
    line = left = seen = 0
    for start in find_starts(text, part):
        line += text.count("\n", seen, start)
        left = text.rfind("\n", seen, start) + 1 or left
        seen = start
        yield line, left, start


def find_starts(text: str, part: str) -> Iterator[int]:
    """Yield a part's positions in a text; they may overlap."""
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _find_whole_lines(lines: Lines, edit: TextEdit) -> list[EditSpan]:
    return _find_lines(lines, edit, str)


def _find_without_numbers(lines: Lines, edit: TextEdit) -> list[EditSpan]:
    bare = strip_line_numbers(lines.normal(edit.old), lines.normal(edit.new))
    if bare is None:
        return []
    plain = TextEdit(bare.old, bare.new or "", edit.everywhere)
    spans = _find_lines(lines, plain, str) or _find_lines(lines, plain, unify_lookalikes)
    if not bare.sure:
        spans = [span for span in spans if span.line + 1 == bare.first]
    return [
        replace(span, how=span.how | {"line numbers"}, text=None if bare.new is None else span.text)
        for span in spans
    ]


def _find_without_spelling(lines: Lines, edit: TextEdit) -> list[EditSpan]:
    real = restore_characters(edit.old, edit.new, lines.text)
    if real is None:
        return []
    plain = TextEdit(*real, edit.everywhere)
    spans = _find_exact(lines, plain) or _find_lines(lines, plain, str)
    return [replace(span, how=span.how | {"spelling"}) for span in spans]


def _find_lookalikes(lines: Lines, edit: TextEdit) -> list[EditSpan]:
    if lines.text.isascii() and edit.old.isascii():
        return []
    return _find_within(lines, edit, unify_lookalikes) or _find_lines(lines, edit, unify_lookalikes)


def _find_within(lines: Lines, edit: TextEdit, lens: Lens) -> list[EditSpan]:
    """Return a text's locations anywhere within lines, ignoring line endings."""
    old, new = lines.normal(edit.old), lines.normal(edit.new)
    needle = lens(old)
    if lens is unify_lookalikes and not is_telling(needle):
        return []
    limit = MAX_PLACES + 1 if lens is not unify_lookalikes else _MAX_LISTED_PLACES
    write = _Merger(old.split("\n"), new.split("\n"), lens)
    spans = list[EditSpan]()
    for line, left, start in islice(_iterate_hits(lens(lines.plain), needle), limit):
        last, right = line + needle.count("\n"), start + len(needle) - left
        if "\n" in needle:
            right = len(needle) - needle.rfind("\n") - 1
        there = _region_through(lines, lens, (line, start - left), (last, right))
        if there is not None:
            spans.append(write.span(there, lines.line))
    return spans


class _Merger:
    """Computes the replacement at each location; equal locations are computed once."""

    def __init__(self, old: Sequence[str], new: Sequence[str], lens: Lens) -> None:
        self._old, self._new, self._lens = old, new, lens
        self._known = dict[tuple[str, ...], str | None]()

    def span(self, there: Region, line: int) -> EditSpan:
        key = (*there.ends, there.newline, *there.contents)
        if key not in self._known:
            self._known[key] = self._merge(there)
        how = set[How]()
        if any(end != "\n" for end in there.ends):
            how.add("line endings")
        if there.contents != self._old:
            how.add("look-alikes")
        first, count = there.line + line, _count_lines("\n".join(self._old))
        return EditSpan(there.start, there.end, first, count, self._known[key], frozenset(how))

    def _merge(self, there: Region) -> str | None:
        try:
            return merge_lines(there, self._old, self._new, self._write_line)
        except _Unclear:
            return None

    def _write_line(self, new: str, old: str | None, theirs: str) -> str:
        return (
            new
            if old is None or self._lens is not unify_lookalikes
            else _keep_unseen(new, old, theirs)
        )


def _keep_unseen(new: str, old: str, theirs: str) -> str:
    """Return a changed line with the file's characters where no reader sees the difference.

    Raises _Unclear for others, such as quotes: they may be what the edit is to replace.
    """
    kept = keep_characters(new, old, theirs)
    if unify_unseen(kept) != unify_unseen(new):
        raise _Unclear
    return kept


def _region_through(
    lines: Lines, lens: Lens, first: tuple[int, int], last: tuple[int, int]
) -> Region | None:
    """Return a region by its positions in the normalized text; None if it splits a character."""
    if lens is not unify_lookalikes:
        return lines.region(first, last)
    top, bottom = lines.contents[first[0]], lines.contents[last[0]]
    if max(len(top), len(bottom)) > _MAX_LINE_CHARS:
        return None
    left, right = find_column(top, first[1], after=True), find_column(bottom, last[1], after=False)
    if left is None or right is None:
        return None
    return lines.region((first[0], left), (last[0], right))


def is_telling(text: str) -> bool:
    """Return whether a text has enough letters and digits to be unmistakable."""
    return sum(map(str.isalnum, text)) >= _MIN_LETTERS


def _find_lines(lines: Lines, edit: TextEdit, lens: Lens) -> list[EditSpan]:
    """Return whole lines' locations, ignoring trailing whitespace."""
    old, new = lines.normal(edit.old), lines.normal(edit.new)
    if not old.strip():
        return []
    if old.endswith("\n") and new and not new.endswith("\n"):
        # the next line is not to be joined: only new_string lacks its line ending
        spans = _find_lines(lines, replace(edit, old=old[:-1]), lens)
        return [replace(span, how=span.how | {"line endings"}) for span in spans]
    wanted = old.removesuffix("\n").split("\n")
    needle = _strip_lines([lens(line) for line in wanted])
    hay = _strip_lines(lens(lines.plain).split("\n"))
    closed = old.endswith("\n")
    spans = [
        _make_span(lines, _take_block(lines, line, len(wanted), closed=closed), edit, lens)
        for line, _, _ in islice(_iterate_hits(hay, needle), _MAX_LISTED_PLACES)
    ]
    return spans if is_telling(old) else [span for span in spans if not span.how - {"line endings"}]


def _strip_lines(lines: Sequence[str]) -> str:
    return "\n".join(["", *(line.strip(" \t") for line in lines), ""])


def _take_block(lines: Lines, line: int, count: int, *, closed: bool) -> Region:
    """Return whole lines; if closed, with the last line's ending, even if the file has none."""
    last = line + count - 1
    if closed and last + 1 < len(lines.contents):
        return lines.region((line, 0), (last + 1, 0))
    there = lines.region((line, 0), (last, len(lines.contents[last])))
    if closed:
        return replace(there, contents=[*there.contents, ""], ends=[*there.ends, ""])
    return there


def _make_span(lines: Lines, there: Region, edit: TextEdit, lens: Lens) -> EditSpan:
    old, new = (lines.normal(text).split("\n") for text in (edit.old, edit.new))
    theirs = [lens(line) for line in there.contents]
    near = lines.contents[max(there.line - _NEAR_LINES, 0) : there.line + len(old) + _NEAR_LINES]
    how = _find_tolerance(there, old, theirs, lens)
    count = _count_lines(lines.normal(edit.old))
    span = EditSpan(there.start, there.end, there.line + lines.line, count, None, how)
    rule = find_rule(theirs, old, new, near)
    if rule is None:
        rule = _find_rule_but_first(theirs, old, new, near)
    if rule is None:
        return span
    try:
        return replace(span, text=merge_lines(there, old, new, partial(_indent_line, (lens, rule))))
    except _Unclear:
        return span


def _find_rule_but_first(
    theirs: list[str], old: list[str], new: list[str], near: Sequence[str]
) -> IndentRule | None:
    """Return the rule if only the first line lacks its indentation, and indent that line."""
    lacks = indent_of(theirs[0]) and not indent_of(old[0]) and not indent_of(new[0])
    rule = find_rule(theirs[1:], old[1:], new[1:], near) if lacks and any(old[1:]) else None
    if rule is None:
        return None
    indents = [
        indent_of(theirs[0]),
        *("\t" * n for n in range(_MAX_INDENT)),
        *(" " * n for n in range(_MAX_INDENT)),
    ]
    pad = next((indent for indent in indents if rule.follow(indent) == indents[0]), None)
    if pad is None:
        return None
    old[0], new[0] = pad + old[0], pad + new[0]
    return rule


def _indent_line(by: tuple[Lens, IndentRule], new: str, old: str | None, theirs: str) -> str:
    """Return a new line with its indentation in the file."""
    lens, rule = by
    if not new.strip():
        return new if rule is SAME else ""
    indent = rule.follow(indent_of(new))
    if indent is None:
        raise _Unclear
    body = new[len(indent_of(new)) :]
    if lens is unify_lookalikes and old is not None:
        body = _keep_unseen(body, old.strip(SPACES), theirs.strip(SPACES))
    return indent + body


def _find_tolerance(there: Region, old: list[str], theirs: list[str], lens: Lens) -> frozenset[How]:
    how = set[How]()
    if any(end != "\n" for end in there.ends):
        how.add("line endings")
    for mine, line, real in zip(old, theirs, there.contents, strict=True):
        if mine[len(mine.rstrip(" \t")) :] != line[len(line.rstrip(" \t")) :]:
            how.add("trailing whitespace")
        if mine.strip() and indent_of(mine) != indent_of(line):
            how.add("indentation")
        if lens is unify_lookalikes and mine.strip(SPACES) != real.strip(SPACES):
            how.add("look-alikes")
    return frozenset(how)
