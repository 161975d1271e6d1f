"""Calls, results and changes as rows of a chat, all safe to print."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, cast

from handrail import Call, FailureKind, Result
from handrail.agent import RunState
from handrail.approvals import RenderedLine
from handrail.cli._chat.text import MARGIN, columns, count_fitting, safe, truncate

LineLook: TypeAlias = Literal["plain", "added", "removed", "warning"]
SIGN = "▸ "
OUTSIDE = "│ "
"""Starts each row of a tool's output."""
_MAX_RESULT_ROWS = 6
"""Rows of a result to show. The model gets all of it."""
_MAX_DIFF_ROWS = 40
_MAX_COMPARED_CHARS = 100_000
"""Longest text to compare or wrap: the time for a diff grows with the square of its length."""
_MAX_ARGS_CHARS = 2_000
_MIN_SHOWN_SECONDS = 1.0
"""Shortest duration to show."""
_MINUTE = 60
_LOOKS: Mapping[str, LineLook] = MappingProxyType({"+": "added", "-": "removed"})


def call_line(call: Call, width: int) -> RenderedLine:
    """Return a call on one row, truncated to the width."""
    args = _args(call)
    shown = safe(
        _short(args) if isinstance(args, str) else ", ".join(map(_format_arg, args.items()))
    )
    return RenderedLine(
        truncate(f"{SIGN}{safe(call.name)}({shown})".replace("\n", " "), width), "title"
    )


def _args(call: Call) -> Mapping[str, Any] | str:
    args: Any = call.args
    if isinstance(args, str):
        try:
            args = json.loads(args)
        except (ValueError, RecursionError):
            return call.args if isinstance(call.args, str) else ""
    return cast("Mapping[str, Any]", args) if isinstance(args, Mapping) else _json(args)


def _format_arg(item: tuple[str, Any]) -> str:
    return f"{item[0]}: {_short(_json(item[1]))}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)


def _short(text: str) -> str:
    return text[:_MAX_ARGS_CHARS]


def result_lines(result: Result, width: int, seconds: float = 0.0) -> Iterator[RenderedLine]:
    """Yield a shortened result: how it failed, its first rows, and how long it took."""
    failure = result.failure
    look: LineLook = "plain"
    text = result.text.rstrip() or "(no output)"
    if failure is not None and failure.kind is FailureKind.PENDING:
        text = "waiting for approval"  # the full text is for the model
    elif failure is not None:
        text, look = f"{failure.kind}: {failure.message.rstrip()}", "warning"
    rows = list(_rows(text, width))
    yield from (RenderedLine(row, look) for row in rows[:_MAX_RESULT_ROWS])
    notes = [f"{len(rows) - _MAX_RESULT_ROWS} more rows"] if len(rows) > _MAX_RESULT_ROWS else []
    notes += [format_elapsed(seconds)] if seconds >= _MIN_SHOWN_SECONDS else []
    if notes:
        yield RenderedLine(f"{OUTSIDE}[{' · '.join(notes)}]")


def _rows(text: str, width: int) -> Iterator[str]:
    """Wrap a text into rows behind a margin. A very long text is cut first."""
    room = max(width - columns(OUTSIDE), 1)
    for line in safe(text[:_MAX_COMPARED_CHARS]).split("\n"):
        row = line
        while columns(row) > room:
            at = max(count_fitting(row, room), 1)
            at = row.rfind(" ", at // 2, at) + 1 or at  # between words, if there is a space
            yield OUTSIDE + row[:at]
            row = row[at:]
        yield OUTSIDE + row


def diff_lines(name: str, before: bytes | None, after: bytes, width: int) -> Iterator[RenderedLine]:
    """Yield a diff of a changed file, or its sizes if it is too long to compare."""
    old, new = (before or b"").decode(errors="replace"), after.decode(errors="replace")
    if len(old) + len(new) > _MAX_COMPARED_CHARS:
        yield RenderedLine(
            f"{OUTSIDE}{safe(name)} changed: {len(old):,} to {len(new):,} characters"
        )
        return
    before_lines, after_lines = old.split("\n"), new.split("\n")
    if old.endswith("\n") and new.endswith(
        "\n"
    ):  # otherwise the extra empty line shows the difference
        before_lines, after_lines = before_lines[:-1], after_lines[:-1]
    if before is None:
        before_lines = []
    rows = list(islice(difflib.unified_diff(before_lines, after_lines, lineterm=""), 2, None))
    for row in rows[:_MAX_DIFF_ROWS]:
        look = _LOOKS.get(row[:1], "plain")
        yield RenderedLine(truncate(f"{OUTSIDE}{row[:1]}{safe(row[1:])}", width), look)
    if len(rows) > _MAX_DIFF_ROWS:
        yield RenderedLine(f"{OUTSIDE}[{len(rows) - _MAX_DIFF_ROWS} more rows]")


def format_elapsed(seconds: float) -> str:
    """Format a duration for people."""
    whole = int(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    return f"{whole // _MINUTE} min {whole % _MINUTE} s"


def live_line(running: Iterable[str], progress: str, seconds: float, width: int) -> str:
    """Return the current activity on one row."""
    first, *others = running
    more = f" and {len(others)} more" if others else ""
    detail = f" · {safe(progress[:_MAX_ARGS_CHARS])}" if progress else ""
    return truncate(
        f"{MARGIN}{first}{more} … {format_elapsed(seconds)}{detail}".replace("\n", " "), width
    )


def cost_lines(state: RunState, seconds: float) -> Iterator[str]:
    """Yield what a chat has used so far."""
    used = state.usage
    cached = f" ({used.cached_tokens:,} cached)" if used.cached_tokens else ""
    yield f"tokens  {used.input_tokens:,} in{cached}; {used.output_tokens:,} out"
    yield f"turns   {state.turns}"
    yield f"calls   {state.calls}"
    yield f"time    {format_elapsed(seconds)} in this process"
