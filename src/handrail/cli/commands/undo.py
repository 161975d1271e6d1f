"""`handrail undo`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from handrail import ToolFailed
from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import columns
from handrail.cli._base.exits import Exit, Halt, safe
from handrail.cli._base.options import COUNT
from handrail.cli._project.kit import Kit
from handrail.cli._runs.undone import join_names, shorten, undo_lines
from handrail.tools import UndoEntry, UndoReport, list_changes, undo

_HEADS = ("change", "time", "paths", "made by")


@as_command("undo", "Undo the latest change of a tool or command.")
@click.argument("change", required=False, type=COUNT, metavar="[N]", help="Number of a change.")
@click.option("--list", "listing", is_flag=True, help="List the changes, newest first.")
def command(app: App, change: int | None, *, listing: bool) -> Exit:
    """Undo the latest change that a tool or command made in this workspace, in any process.

    Restores files, links, folders and their permissions, and deletes what did not exist before.
    A path that has changed since stays, and is named. N is a number of `handrail undo --list`.
    """
    workspace = Kit(app).workspace
    if listing:
        items = [_describe(entry) for entry in reversed(list_changes(workspace))]
        app.print_all("changes", items, _lines(items) if items else ["nothing to undo"])
        return Exit.DONE
    try:
        report = undo(workspace, change)
    except ToolFailed as error:
        hint = "list the changes with `handrail undo --list`"
        raise Halt(str(error), code="not_undone", hint=hint, exits=Exit.FAILED) from None
    app.print_all("changes", [_describe(report.entry, report)], map(safe, undo_lines(report)))
    return Exit.FAILED if report.left else Exit.DONE


def _describe(entry: UndoEntry, report: UndoReport | None = None) -> dict[str, Any]:
    left: Mapping[str, str] = report.left if report is not None else {}
    return {
        "number": entry.number,
        "time": datetime.fromtimestamp(entry.when, UTC).isoformat(timespec="seconds"),
        "call_id": entry.call_id,
        "command": entry.command,
        "paths": list(entry.paths),
        "not_kept": list(entry.not_kept),
        "undone": report is not None,
        "restored": list(report.restored) if report is not None else [],
        "deleted": list(report.deleted) if report is not None else [],
        "left": [{"path": path, "reason": reason} for path, reason in left.items()],
    }


def _lines(items: Sequence[dict[str, Any]]) -> Iterator[str]:
    return columns([_HEADS, *(_row(item) for item in items)])


def _row(item: dict[str, Any]) -> tuple[str, ...]:
    made_by = shorten(item["command"]) or f"a change to {join_names(item['paths'])}"
    when = item["time"][5:16].replace("T", " ")
    return (str(item["number"]), when, str(len(item["paths"])), safe(made_by))
