"""A question's rows: its headline with its grade, the change or the command, and who asks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from handrail import READ
from handrail.approvals._display import (
    Look,
    RenderedLine,
    Span,
    count_columns,
    inline,
    make_printable,
    render_line,
)
from handrail.permissions import FileChange, Grade, Pending
from handrail.sources import describe_sources, split_question

INDENT = "  "
_CONTEXT_LINES = 1
_MAX_INDENT = 40
"""Spaces shown unchanged before a line of code."""
_MEASURE = 98
"""Columns in a headline: text further right is not seen."""
_MIN_ALIKE = 0.5
"""How much two rows must share before differing words are marked."""
_WORDS = re.compile(r"\w+|\s+|.")
_RAIL = re.compile("[┃║] ?")
_CHANGED = re.compile(r" *(\d+) [-+] ?(.*)", re.DOTALL)
_COUNTS = re.compile(r"\+(\d+) -(\d+)")
_BLANKS = re.compile(" {2,}")
_KEYS = re.compile(" {3,}")
_GOES_ON, _OUTSIDE = re.compile("^┊ "), re.compile("^│ ")
_SIGNS = {"!! ": "warning: ", "! ": "note: ", " · ": ", "}

TAGS: dict[Grade, str] = {
    Grade.UNKNOWN: "",
    Grade.CHANGE: "",
    Grade.UNCONFINED: "! no sandbox contains it",
    Grade.LEAVES: "! leaves this machine",
    Grade.LOSES: "!! cannot be undone",
}
"""A person's text for a call's grade."""
LOOKS: dict[Grade, Look] = {
    Grade.UNKNOWN: "ask",
    Grade.CHANGE: "ask",
    Grade.UNCONFINED: "warning",
    Grade.LEAVES: "warning",
    Grade.LOSES: "bad",
}


def title_lines(pending: Pending, grade: Grade, *, width: int, undo: str) -> list[RenderedLine]:
    """Return what the call would do, as a question, with its grade at the right."""
    title = _title(pending, width)
    tag = describe_grade(pending, grade, undo=undo)
    look: Look = "muted" if grade <= Grade.CHANGE else LOOKS[grade]
    room = min(width, _MEASURE) - count_columns(title) - count_columns(tag)
    if room < 2:  # noqa: PLR2004  blanks between the two
        return [RenderedLine(title, "title"), RenderedLine(INDENT + tag, look)]
    start = len(title) + room
    text = f"{title}{' ' * room}{tag}"
    spans: tuple[Span, ...] = ((start, len(text), look),)
    return [RenderedLine(text, "title", spans=spans)]


def describe_grade(pending: Pending, grade: Grade, *, undo: str = "") -> str:
    """Return how grave a call is, in a few words: what the terminal shows beside the title."""
    if pending.kind == "form":
        return TAGS[grade]
    if (
        grade is Grade.UNKNOWN
        and not pending.parts
        and {access.verb for access in pending.accesses} == {READ}
    ):
        return "reads only"
    tag = TAGS[grade] or _describe_change(pending, undo if grade is Grade.CHANGE else "")
    return tag or name_grade(grade, is_command=bool(pending.parts))


def name_grade(grade: Grade, *, is_command: bool = False) -> str:
    """Return how grave a call is by its grade, or "" for a change."""
    if grade is Grade.UNKNOWN:
        return "unknown command" if is_command else "unknown effect"
    return TAGS[grade]


def _title(pending: Pending, width: int) -> str:
    headline = inline(pending.headline)
    if pending.kind == "login":
        return f"Sign in for {inline(pending.call.name)}?"
    if not pending.headline:
        return f"Call {inline(pending.call.name)}?"
    if pending.parts and count_columns(headline) + 1 > width:
        return "Run this command?"  # which follows in full
    return f"{headline}?"


def _describe_change(pending: Pending, undo: str) -> str:
    """Return how many lines change, and how a person can undo it."""
    counts = [_count(change) for change in pending.changes if isinstance(change, FileChange)]
    added, removed = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
    lines = f"+{added} -{removed}" if counts else ""
    return " · ".join(filter(None, [lines, f"{undo} can undo it" if undo else ""]))


def _count(change: FileChange) -> tuple[int, int]:
    signs = [sign for sign, _, _ in diff_rows(change, 0)]
    return signs.count("+"), signs.count("-")


def _lines(text: str | None) -> list[str]:
    lines = (text or "").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def diff_rows(change: FileChange, context: int = 3) -> Iterator[tuple[str, int, str]]:
    """Yield a diff's lines: their sign, their number and their text. ``@`` is a gap.

    The texts are not yet safe to show.
    """
    old, new = _lines(change.before), _lines(change.after)
    if old == new and change.before != change.after:
        old, new = (change.before or "").split("\n"), (change.after or "").split("\n")
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for number, group in enumerate(matcher.get_grouped_opcodes(context)):
        if number and context:
            yield "@", 0, ""
        for kind, first, last, start, end in group:
            if kind == "equal":
                yield from _number(" ", new, (start, end), change.line)
            else:
                yield from _number("-", old, (first, last), change.line)
                yield from _number("+", new, (start, end), change.line)


def _number(
    sign: str, lines: Sequence[str], place: tuple[int, int], first: int
) -> Iterator[tuple[str, int, str]]:
    return ((sign, first + at, lines[at]) for at in range(*place))


def change_lines(change: FileChange, *, named: bool) -> Iterator[RenderedLine]:
    """Yield a file change as numbered diff lines."""
    if change.before == change.after:
        yield render_line("{} already has this text", change.path, look="muted")
        return
    if change.before is None:
        yield render_line("{} is a new file", change.path, look="muted")
    elif change.after is None:
        yield render_line("{} would be deleted", change.path, look="muted")
    elif not named:
        yield render_line("{}", change.path, look="muted")
    rows = list(diff_rows(change, _CONTEXT_LINES))
    if not rows:
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
    marked = list(lines)
    looks = ["plain", *(line.look for line in lines), "plain"]
    for index in range(len(lines) - 1):
        if looks[index : index + 4] == [looks[index], "removed", "added", looks[index + 3]] and (
            looks[index] != "removed" and looks[index + 3] != "added"
        ):
            marked[index : index + 2] = _mark_pair(lines[index], lines[index + 1], at)
    return iter(marked)


def _mark_pair(old: RenderedLine, new: RenderedLine, at: int) -> list[RenderedLine]:
    before, after = (_WORDS.findall(line.text[at:]) for line in (old, new))
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < _MIN_ALIKE:
        return [old, new]
    spans: tuple[list[Span], list[Span]] = [], []
    for kind, *places in matcher.get_opcodes():
        if kind != "equal":
            for words, own, (first, last) in zip(
                (before, after), spans, (places[:2], places[2:]), strict=True
            ):
                start = at + len("".join(words[:first]))
                own.append((start, start + len("".join(words[first:last])), "changed"))
    return [replace(line, spans=tuple(own)) for line, own in zip((old, new), spans, strict=True)]


def command_lines(command: str, pending: Pending, grade: Grade) -> Iterator[RenderedLine]:
    """Yield a command unchanged, with its grave parts marked."""
    shown = make_printable(command)
    is_same = shown.text == command
    start = 0
    for line in shown.text.split("\n"):
        spans: list[Span] = [
            (len(INDENT) + first, len(INDENT) + last, LOOKS[part.grade])
            for part in (pending.parts if is_same and grade > Grade.CHANGE else ())
            if part.grade is grade
            and (first := max(part.start - start, 0)) < (last := min(part.end - start, len(line)))
        ]
        yield RenderedLine(INDENT + line, condensed=shown.condensed, spans=tuple(spans))
        start += len(line) + 1


def why_line(pending: Pending, command: object = None) -> RenderedLine:
    """Return the policy's question, and the rule asking it, without the command shown above it."""
    question = split_question(pending.question, pending.sources)
    if isinstance(command, str):
        question = question.replace(f"? `{command}`", "?", 1)
    if question.endswith(")") and question.count("? (") == 1:
        question = f"{question[:-1]}.".replace("? (", "? Reason: ")
    if pending.origin is None:
        return render_line(f"{INDENT}{{}}", question, look="muted")
    stop = "" if question.endswith((".", "?", "!")) else "."
    asked = f"{INDENT}{{}}{stop} Asked by {{}}."
    return render_line(asked, question, str(pending.origin), look="muted")


def source_lines(pending: Pending) -> list[RenderedLine]:
    """Return who named the values in a call, if not the person did."""
    return [render_line(f"{INDENT}{{}}", line) for line in describe_sources(pending.sources)]


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
