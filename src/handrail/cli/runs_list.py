"""`handrail runs list`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from handrail.approvals import displayed
from handrail.cli._app import App, as_command
from handrail.cli._columns import columns
from handrail.cli._exits import Halt
from handrail.cli._saved import Saved, readable, saved_runs
from handrail.cli._timeline import one_line

_HEADS = ("run", "began", "stop", "turns", "calls", "prompt")
_GAP = 2
_LEAST, _MOST = 20, 1_000
"""Columns of a prompt."""


@as_command("list", "List saved runs, the newest first.")
@click.option("--limit", type=click.IntRange(min=1), default=20, help="List so many. 20 if unsaid.")
@click.option("--here", is_flag=True, help="Only runs of this workspace.")
def command(app: App, *, limit: int, here: bool) -> None:
    """List saved runs, the newest first.

    Of each: its id, when it began, how it stands, turns and calls so far, and its first prompt.
    """
    runs = saved_runs()
    if here:
        whole = readable(runs, app.say)
        runs = [one for one in whole if one.about["workspace"] == str(app.workspace)]
    items = [_told(one) for one in readable(runs[:limit], app.say)]
    lines = _lines(items, app.width) if items else ["no runs"]
    app.print_all("runs", items, lines)
    if len(runs) > limit:
        app.say(f"{len(runs) - limit} older ones are left out: give --limit")


def _told(saved: Saved) -> dict[str, Any]:
    about = saved.about
    turns, calls = _counts(saved)
    told = {name: str(about[name]) for name in ("began", "command", "workspace", "prompt", "why")}
    return {"id": saved.id, **told, "stop": str(saved.stop), "turns": turns, "calls": calls}


def _counts(saved: Saved) -> tuple[int | None, int | None]:
    """Turns and calls; None where the state cannot be read."""
    try:
        state = saved.state()
    except Halt:
        return None, None
    return state.turns, state.calls


def _lines(items: Sequence[dict[str, Any]], width: int | None) -> Iterator[str]:
    """One line for each run; on a terminal, as much of its prompt as there is room for."""
    rows = [_HEADS, *(_row(one) for one in items)]
    before = sum(max(map(len, column)) + _GAP for column in list(zip(*rows, strict=True))[:-1])
    room = max(width - before, _LEAST) if width is not None else _MOST
    return columns([(*row, one_line(last, room)) for *row, last in rows], gap=_GAP)


def _row(item: dict[str, Any]) -> tuple[str, ...]:
    so_far = ("?" if item[name] is None else str(item[name]) for name in ("turns", "calls"))
    began, stop = (displayed(item[name]).text for name in ("began", "stop"))
    return (item["id"], began[5:16].replace("T", " "), stop, *so_far, item["prompt"])
