"""Calls and their results as rows: what a call does, how it ended, and some output."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from handrail import Call, FailureKind, Result
from handrail._support import format_duration
from handrail.cli._base.columns import cells
from handrail.cli._screen.rows import (
    MAX_PROSE_COLUMNS,
    Row,
    Span,
    count_fitting,
    fold,
    plain,
    safe_line,
    strip_end,
    width_of,
)
from handrail.sources import unframe

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
OUTSIDE = Span("  │ ", "muted")
"""Starts each row in a tool's output."""
_GOES_ON = Span("  ┊ ", "muted")
_MAX_OUTPUT_ROWS = 3
_MAX_FAILURE_ROWS = 6
_LAST_ROWS = 2
"""Rows to show of a command's longer output: most programs say at the end how it went."""
_MAX_CHARS = 20_000
"""Longest output to wrap."""
_MAX_TITLE_CHARS = 2_000
_MIN_SHOWN_SECONDS = 1.0
_BAR_COLUMNS = 40
_VERBS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "apply_patch": ("Patch", "input"),
        "ask_user": ("Ask", "question"),
        "bash": ("Run", "command"),
        "edit": ("Edit", "file_path"),
        "finish_plan": ("Ask about the plan", ""),
        "glob": ("List", "pattern"),
        "grep": ("Search", "pattern"),
        "read": ("Read", "file_path"),
        "task": ("Explore", "task"),
        "todo": ("Plan", ""),
        "web_fetch": ("Fetch", "url"),
        "write": ("Write", "file_path"),
    }
)
"""What the coding tools do, and the argument naming their object."""
_READS = frozenset({"glob", "grep", "read", "todo", "web_fetch"})
"""Tools whose result is shown as a count."""
_ASKS = frozenset({"ask_user", "finish_plan"})
"""Tools whose question and answer are above their row."""
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.*)$", re.MULTILINE)
"""A file in a patch."""
_STEPS = re.compile(r"\[(\d+ of \d+) steps completed\.\]")
"""The last line in a ``todo`` result."""
_EXIT = re.compile(
    r"\[(?:exit code (\d++)[^,\]]*+|(killed by \w++)), ([\d.]++) s(?:, ([\d,]++) lines)?[^\]]*+\]"
)
"""The last line in a command's result. It counts lines missing from the result, too."""
_JOB = re.compile(r"\[job (\d+), running[^\]]*\]")
"""The last line for a command continuing in the background."""


class Ending(NamedTuple):
    """How a call ended."""

    glyph: Span
    summary: str
    """In a few words."""
    output: tuple[str, ...]
    """The output lines to show."""
    note: str = ""
    """What is not shown."""
    is_end: bool = False
    """Whether the lines are the last ones, below what is not shown."""


def title_of(call: Call) -> Row:
    """Return what a call does: a verb and what it is about, safe to print."""
    args = read_args(call)
    verb, key = _VERBS.get(call.name, ("", ""))
    given = args.get(key) if isinstance(args, Mapping) else None
    if verb and (not key or isinstance(given, str)):
        text = str(given or "")
        if call.name == "apply_patch":
            text = ", ".join(path.strip() for path in _PATCHED.findall(text)) or text
        return _title(verb, _on_one_line(text))
    about = next(iter(args.values()), "") if isinstance(args, Mapping) else args
    text = about if isinstance(about, str) else _json(about)
    return _title(_on_one_line(call.name), _on_one_line(text))


def _title(verb: str, about: str) -> Row:
    return (Span(verb), Span(" "), Span(about, "path")) if about else (Span(verb),)


def read_args(call: Call) -> Mapping[str, Any] | str:
    """Return a call's arguments by name, or as text if they are not an object."""
    args: Any = call.args
    if isinstance(args, str):
        try:
            args = json.loads(args)
        except (ValueError, RecursionError):
            return str(call.args)
    return cast("Mapping[str, Any]", args) if isinstance(args, Mapping) else _json(args)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)


def _on_one_line(text: str) -> str:
    """Return a text's first line, with an ellipsis if there are more."""
    lines = [line for line in text[:_MAX_TITLE_CHARS].splitlines() if line.strip()]
    words = safe_line(" ".join(lines[0].split())) if lines else ""
    return f"{words} …" if len(lines) > 1 else words


def title_row(first: Span, title: Row, right: str, width: int) -> Row:
    """Return a row with a sign at its start and muted words at its right end."""
    edge = min(width, MAX_PROSE_COLUMNS)
    room = max(edge - width_of((first,)) - 1 - len(right) - 2 * bool(right), 8)
    left = (first, Span(" "), *shorten(title, room))
    if not right:
        return left
    gap = max(edge - cells(plain(left)) - len(right), 2)
    return (*left, Span(" " * gap), Span(right, "muted"))


def shorten(row: Row, room: int) -> Row:
    """Return a fitting row, without its last words if it must be, and then with an ellipsis."""
    if width_of(row) <= room:
        return row
    text = plain(row)
    at = count_fitting(text, max(room - 3, 1))
    at = text.rfind(" ", 1, at + 1) if " " in text[1 : at + 1] else at
    return (*strip_end(_cut(row, at)), Span(" …", "muted"))


def _cut(row: Row, at: int) -> Row:
    spans: list[Span] = []
    for span in row:
        if at > 0:
            spans.append(Span(span.text[:at], span.role))
        at -= len(span.text)
    return tuple(spans)


def ending_of(call: Call, result: Result, seconds: float, *, words: bool = False) -> Ending:
    """Return how a call ended, and which output to show. ``words`` spells units out."""
    failure = result.failure
    took = _took(seconds, words=words)
    if failure is not None:
        denied = failure.kind is FailureKind.DENIED
        if failure.kind is FailureKind.PENDING:
            return Ending(Span("?", "ask"), "waiting for approval", ())
        glyph = Span("⊘" if denied else "✗", "bad")
        lines = failure.message.strip()[:_MAX_CHARS].splitlines()
        summary = " · ".join([str(failure.kind).replace("_", " "), *took])
        return _first_rows(glyph, summary, lines, _MAX_FAILURE_ROWS)
    lines = unframe(result.text).rstrip().splitlines()
    if call.name == "bash" and lines and (ended := _EXIT.fullmatch(lines[-1])):
        return _command_ending(ended, lines[:-1], words=words)
    if call.name == "bash" and lines and (job := _JOB.fullmatch(lines[-1])):
        return Ending(Span("✓", "ok"), f"started as job {job[1]}", ())
    said = _summarize_talk(call.name, lines)
    summary = said or " · ".join([_count(len(lines)), *took])
    if said or call.name in _READS:
        return Ending(Span("✓", "ok"), summary, ())
    return _first_rows(Span("✓", "ok"), summary, lines, _MAX_OUTPUT_ROWS)


def _summarize_talk(name: str, lines: Sequence[str]) -> str:
    """Return how a question or a plan ended; empty for any other call."""
    last = lines[-1] if lines else ""
    if name in _ASKS:
        return "not answered" if last.startswith("Not answered") else "answered"
    steps = _STEPS.fullmatch(last) if name == "todo" else None
    return f"{steps[1]} done" if steps else ""


def _count(lines: int) -> str:
    return "1 line" if lines == 1 else f"{lines:,} lines"


def _first_rows(glyph: Span, summary: str, lines: Sequence[str], most: int) -> Ending:
    left = len(lines) - most
    return Ending(glyph, summary, tuple(lines[:most]), f"… {left:,} more lines" if left > 0 else "")


def _took(seconds: float, *, words: bool) -> list[str]:
    return [format_duration(seconds, words=words)] if seconds >= _MIN_SHOWN_SECONDS else []


def _command_ending(ended: re.Match[str], lines: Sequence[str], *, words: bool) -> Ending:
    code, killed = ended[1], ended[2]
    summary = " · ".join([killed or f"exit {code}", *_took(float(ended[3]), words=words)])
    failed = code != "0"
    glyph = Span("✗", "bad") if failed else Span("✓", "ok")
    count = int(ended[4].replace(",", "")) if ended[4] else len(lines)
    if count <= _MAX_OUTPUT_ROWS:
        return Ending(glyph, summary, tuple(lines))
    note = f"… {_count(count - _LAST_ROWS)} above"
    return Ending(glyph, summary, tuple(lines[-_LAST_ROWS:]), note, is_end=True)


def output_rows(
    lines: Sequence[str], note: str, width: int, *, is_end: bool = False
) -> Iterator[Row]:
    """Yield lines of a tool's output behind a margin, and a note about what is not shown."""
    said: list[Row] = [(Span(f"    {note}", "muted"),)] if note else []
    if is_end:
        yield from said
    for line in lines:
        room = width - width_of((OUTSIDE,))
        for number, row in enumerate(fold((Span(safe_line(line)),), room)):
            yield strip_end((_GOES_ON if number else OUTSIDE, *row))
    if not is_end:
        yield from said


def bar_row(fraction: float, words: str, width: int) -> Row:
    """Return how much is done as a bar, with what the tool says about it."""
    share = min(max(fraction, 0.0), 1.0)
    size = min(_BAR_COLUMNS, max(width // 4, 4))
    done = int(size * share)
    said = f"  {_on_one_line(words)}" if words.strip() else ""
    row = (
        Span("    "),
        Span("█" * done, "bar.runs"),
        Span("░" * (size - done), "bar.waits"),
        Span(f" {share:.0%}{said}"),
    )
    return shorten(tuple(span for span in row if span.text), width)
