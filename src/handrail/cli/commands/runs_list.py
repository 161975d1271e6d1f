"""`handrail runs list`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from handrail.approvals import make_printable
from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import columns
from handrail.cli._base.exits import Halt
from handrail.cli._base.options import COUNT
from handrail.cli._runs.saved import SavedRun, list_runs, readable_runs
from handrail.cli._runs.timeline import one_line

_HEADS = ("run", "started", "status", "turns", "calls", "prompt")
_GAP = 2
_MIN_PROMPT_CELLS, _MAX_PROMPT_CELLS = 20, 1_000
"""Terminal cells of a prompt."""


@as_command("list", "List saved runs, newest first.")
@click.option(
    "--limit",
    type=COUNT,
    metavar="N",
    default=20,
    help="Maximum number of runs to list (default 20).",
)
@click.option("--here", is_flag=True, help="List only runs of this workspace.")
def command(app: App, *, limit: int, here: bool) -> None:
    """List saved runs, newest first.

    Shows the ID, start time, status, turns, calls and first prompt of each run.
    """
    runs = list_runs()
    if here:
        readable = readable_runs(runs, app.say)
        runs = [run for run in readable if run.about["workspace"] == str(app.workspace)]
    items = [_document(run) for run in readable_runs(runs[:limit], app.say)]
    lines = _lines(items, app.width) if items else ["no runs"]
    app.print_all("runs", items, lines)
    if len(runs) > limit:
        app.say(
            f"{len(runs) - limit} older runs are not shown; list them with `--limit {len(runs)}`"
        )


def _document(saved: SavedRun) -> dict[str, Any]:
    about = saved.about
    turns, calls = _counts(saved)
    texts = {name: str(about[name]) for name in ("began", "command", "workspace", "prompt", "why")}
    return {"id": saved.id, **texts, "stop": str(saved.stop), "turns": turns, "calls": calls}


def _counts(saved: SavedRun) -> tuple[int | None, int | None]:
    """Return the number of turns and of calls; None if the state cannot be read."""
    try:
        state = saved.state()
    except Halt:
        return None, None
    return state.turns, state.calls


def _lines(items: Sequence[dict[str, Any]], width: int | None) -> Iterator[str]:
    """Return one line per run, with as much of the prompt as fits on the terminal."""
    rows = [_HEADS, *(_row(item) for item in items)]
    before = sum(max(map(len, column)) + _GAP for column in list(zip(*rows, strict=True))[:-1])
    room = max(width - before, _MIN_PROMPT_CELLS) if width is not None else _MAX_PROMPT_CELLS
    return columns([(*row, one_line(last, room)) for *row, last in rows], gap=_GAP)


def _row(item: dict[str, Any]) -> tuple[str, ...]:
    counts = ("?" if item[name] is None else str(item[name]) for name in ("turns", "calls"))
    began, stop = (make_printable(item[name]).text for name in ("began", "stop"))
    return (item["id"], began[5:16].replace("T", " "), stop, *counts, item["prompt"])
