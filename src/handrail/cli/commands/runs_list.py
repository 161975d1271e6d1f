"""`handrail runs list`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from handrail.approvals import make_printable
from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import columns
from handrail.cli._base.options import COUNT, DATABASE
from handrail.cli._rules.wording import short
from handrail.cli._runs.saved import readable_runs
from handrail.cli._runs.stores import StoredRun, open_store
from handrail.cli._runs.timeline import one_line, say_standing
from handrail.runs.statuses import REASONS, STATUSES, Standing

_HEADS = ("run", "started", "status", "turns", "calls", "prompt")
_GAP = 2
_MIN_PROMPT_CELLS, _MAX_PROMPT_CELLS = 20, 1_000
"""Terminal cells for a prompt."""


@as_command("list", "List saved runs, newest first.", DATABASE)
@click.option(
    "--limit",
    type=COUNT,
    metavar="N",
    default=20,
    help="Maximum number of runs to list (default 20).",
)
@click.option("--here", is_flag=True, help="List only runs of this workspace.")
@click.option("--status", type=click.Choice(STATUSES), help="List only runs with this status.")
@click.option(
    "--reason",
    type=click.Choice(REASONS),
    metavar="REASON",
    help=f"List only runs that ended for this reason: {', '.join(REASONS)}.",
)
def command(app: App, *, limit: int, here: bool, status: str | None, reason: str | None) -> None:
    """List saved runs, newest first.

    Shows the ID, start time, status, turns, calls and first prompt of each run. The prompt of a
    run in another folder comes after that folder.
    """
    most = None if here else limit + 1
    runs = open_store(app).list(most, status=status or "", reason=reason or "")
    if here:
        readable = readable_runs(runs, app.say)
        runs = [run for run in readable if run.about["workspace"] == str(app.workspace)]
    items = [_document(run) for run in readable_runs(runs[:limit], app.say)]
    lines = _lines(app, items) if items else ["no runs"]
    app.print_all("runs", items, lines)
    if len(runs) > limit:
        app.say(f"older runs are not shown; list more with `--limit {10 * limit}`")


def _document(saved: StoredRun) -> dict[str, Any]:
    about = saved.about
    texts = {name: str(about[name]) for name in ("began", "command", "workspace", "prompt", "why")}
    counts = {"turns": about["turns"], "calls": about["calls"]}
    return {"id": saved.id, **texts, **saved.standing._asdict(), **counts}


def _lines(app: App, items: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Return one line per run, with as much prompt as fits on the terminal."""
    width, rows = app.width, [_HEADS, *(_row(item, app.workspace) for item in items)]
    before = sum(max(map(len, column)) + _GAP for column in list(zip(*rows, strict=True))[:-1])
    room = max(width - before, _MIN_PROMPT_CELLS) if width is not None else _MAX_PROMPT_CELLS
    return columns([(*row, one_line(last, room)) for *row, last in rows], gap=_GAP)


def _row(item: dict[str, Any], here: Path) -> tuple[str, ...]:
    folder = item["workspace"]
    elsewhere = f"{short(folder, here)}: " if folder and folder != str(here) else ""
    counts = (str(item[name]) for name in ("turns", "calls"))
    began = make_printable(item["began"]).text[5:16].replace("T", " ")
    stands = say_standing(Standing(item["status"], item["reason"]))
    return (item["id"], began, stands, *counts, elsewhere + item["prompt"])
