"""`handrail runs prune`."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any

import click

from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import quantity
from handrail.cli._base.options import COUNT, DATABASE
from handrail.cli._base.printable import one_line
from handrail.cli._runs.saved import run_ids
from handrail.cli._runs.stores import CommandRuns, StoredRun, open_store

_AGE = re.compile(r"(\d{1,6})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class _Age(click.ParamType[float]):
    """A number and a time unit."""

    name = "age"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the age in seconds."""
        match = _AGE.fullmatch(str(value))
        if match is None:
            self.fail(f"must be a number and s, m, h, d or w, as in 30d; got {value!r}", param, ctx)
        return int(match[1]) * float(_SECONDS[match[2]])


@as_command("prune", "Delete old runs.", DATABASE)
@click.argument(
    "runs",
    nargs=-1,
    metavar="[RUN]...",
    shell_complete=run_ids,
    help="IDs of saved runs to delete, or prefixes of IDs.",
)
@click.option(
    "--older-than",
    type=_Age(),
    metavar="AGE",
    help="Delete runs that last changed this long ago: 30d, 12h, 4w.",
)
@click.option(
    "--max-seconds",
    type=COUNT,
    metavar="N",
    help="With --database and --older-than: stop after N seconds, even if more runs are left.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and delete nothing.")
def command(
    app: App,
    *,
    runs: Sequence[str],
    older_than: float | None,
    max_seconds: int | None,
    dry_run: bool,
) -> None:
    """Delete old runs, with their messages, results and events.

    With --older-than, runs that wait for approval are kept. A run that a process is working on is
    never deleted. Durable runs are deleted many at a time, and counted.
    """
    if bool(runs) == (older_than is not None):
        raise click.UsageError("name the runs, or pass `--older-than AGE`")
    store = open_store(app)
    if app.settings["database"] and older_than is not None and not dry_run:
        count = _prune(store, older_than, max_seconds)
        app.print(_document(count, dry_run=False), [f"{quantity(count, 'run')} deleted"])
        return
    named = [store.find(name) for name in runs]
    found = named if older_than is None else _list_old(store, time.time() - older_than)
    removed: list[dict[str, str]] = []
    kept: list[dict[str, str]] = []
    for saved in found:
        reason = _find_reason(saved, named=bool(named))
        (kept if reason else removed).append({"id": saved.id, "reason": reason})
        if not (reason or dry_run):
            saved.remove()
    names = [item["id"] for item in removed]
    document = _document(len(names), removed=names, kept=kept, dry_run=dry_run)
    done = "would be deleted" if dry_run else "deleted"
    lines = [f"{one_line(name)}  {done}" for name in names]
    lines += [f"{one_line(item['id'])}  kept: {item['reason']}" for item in kept]
    app.print(document, [*lines, f"{quantity(len(names), 'run')} {done}"])


def _document(
    count: int,
    *,
    dry_run: bool,
    removed: Sequence[str] = (),
    kept: Sequence[dict[str, str]] = (),
) -> dict[str, Any]:
    return {"count": count, "removed": list(removed), "kept": list(kept), "dry_run": dry_run}


def _prune(store: CommandRuns, older_than: float, max_seconds: int | None) -> int:
    from handrail.cli._runs.durable_run import act  # loads the agent

    return act(
        store.journal, lambda runs: runs.prune(older_than=older_than, max_seconds=max_seconds)
    )


def _list_old(store: CommandRuns, before: float) -> list[StoredRun]:
    return [saved for saved in store.list() if saved.head.changed < before]


def _find_reason(saved: StoredRun, *, named: bool) -> str:
    """Return why to keep a run; empty if it can be deleted."""
    if saved.busy:
        return "a process is working on it"
    if not named and saved.head.status == "waiting":
        return "it waits for approval"
    return ""
