"""Calls, results and changes as the lines that a person reads in a chat; all safe to print."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, cast

from handrail import Call, Kind, Result
from handrail.agent import State
from handrail.approvals import Line
from handrail.cli._chat_words import MARGIN, columns, fits, fitting, safe

Look: TypeAlias = Literal["plain", "added", "removed", "warning"]
SIGN = "▸ "
OUTSIDE = "│ "
"""Before each line that a tool gave."""
_MOST_ROWS = 6
"""Rows of a result that are shown; the model reads all of it."""
_MOST_DIFF = 40
_MOST_COMPARED = 100_000
"""Characters of a file up to which it is compared: the time for it grows with the square."""
_MOST_ARGS = 2_000
_SOON = 1.0
"""Seconds from which it is said how long something took."""
_LOOKS: Mapping[str, Look] = MappingProxyType({"+": "added", "-": "removed"})


def call_line(call: Call, width: int) -> Line:
    """A call on one row, as far as it fits."""
    args = _args(call)
    told = safe(_short(args) if isinstance(args, str) else ", ".join(map(_named, args.items())))
    return Line(fitting(f"{SIGN}{safe(call.name)}({told})".replace("\n", " "), width), "title")


def _args(call: Call) -> Mapping[str, Any] | str:
    args: Any = call.args
    if isinstance(args, str):
        try:
            args = json.loads(args)
        except (ValueError, RecursionError):
            return call.args if isinstance(call.args, str) else ""
    return cast("Mapping[str, Any]", args) if isinstance(args, Mapping) else _json(args)


def _named(item: tuple[str, Any]) -> str:
    return f"{item[0]}: {_short(_json(item[1]))}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)


def _short(text: str) -> str:
    return text[:_MOST_ARGS]


def result_lines(result: Result, width: int, seconds: float = 0.0) -> Iterator[Line]:
    """A result, shortened: how it failed, its first rows, how long it took."""
    failure = result.failure
    look: Look = "plain"
    words = result.text.rstrip() or "(nothing)"
    if failure is not None and failure.kind is Kind.PENDING:
        words = "waits for an answer"  # the rest of it is for the model
    elif failure is not None:
        words, look = f"{failure.kind}: {failure.message.rstrip()}", "warning"
    rows = list(_rows(words, width))
    yield from (Line(row, look) for row in rows[:_MOST_ROWS])
    notes = [f"{len(rows) - _MOST_ROWS} more rows"] if len(rows) > _MOST_ROWS else []
    notes += [elapsed(seconds)] if seconds >= _SOON else []
    if notes:
        yield Line(f"{OUTSIDE}[{' · '.join(notes)}]")


def _rows(text: str, width: int) -> Iterator[str]:
    """A text in rows behind a margin; only as much of it as could be shown is looked at."""
    room = max(width - columns(OUTSIDE), 1)
    for line in safe(text[:_MOST_COMPARED]).split("\n"):
        row = line
        while columns(row) > room:
            at = max(fits(row, room), 1)
            yield OUTSIDE + row[:at]
            row = row[at:]
        yield OUTSIDE + row


def diff_lines(name: str, before: bytes | None, after: bytes, width: int) -> Iterator[Line]:
    """What became of a file."""
    old, new = (before or b"").decode(errors="replace"), after.decode(errors="replace")
    if len(old) + len(new) > _MOST_COMPARED:
        yield Line(f"{OUTSIDE}{safe(name)} changed: {len(old):,} to {len(new):,} characters")
        return
    kept, gone = old.split("\n"), new.split("\n")
    if old.endswith("\n") and new.endswith("\n"):  # else one more empty line tells them apart
        kept, gone = kept[:-1], gone[:-1]
    if before is None:
        kept = []
    rows = list(islice(difflib.unified_diff(kept, gone, lineterm=""), 2, None))
    for row in rows[:_MOST_DIFF]:
        look = _LOOKS.get(row[:1], "plain")
        yield Line(fitting(f"{OUTSIDE}{row[:1]}{safe(row[1:])}", width), look)
    if len(rows) > _MOST_DIFF:
        yield Line(f"{OUTSIDE}[{len(rows) - _MOST_DIFF} more rows]")


def elapsed(seconds: float) -> str:
    """How long something took, for a person."""
    whole = int(seconds)
    if whole < 60:  # noqa: PLR2004  a minute
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s"


def live_line(running: Iterable[str], words: str, seconds: float, width: int) -> str:
    """What goes on now, on one row."""
    first, *others = running
    more = f" and {len(others)} more" if others else ""
    told = f" · {safe(words[:_MOST_ARGS])}" if words else ""
    return fitting(f"{MARGIN}{first}{more} … {elapsed(seconds)}{told}".replace("\n", " "), width)


def cost_lines(state: State, seconds: float) -> Iterator[str]:
    """What a chat took so far."""
    used = state.usage
    cached = f", {used.cached:,} of them cached" if used.cached else ""
    yield f"tokens  {used.sent:,} sent{cached}; {used.received:,} received"
    yield f"turns   {state.turns}"
    yield f"calls   {state.calls}"
    yield f"time    {elapsed(seconds)} in this process"
