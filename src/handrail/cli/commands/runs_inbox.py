"""`handrail runs inbox`."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from handrail._support import format_duration
from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import columns
from handrail.cli._base.options import COUNT, DATABASE
from handrail.cli._base.printable import one_line
from handrail.cli._runs.stores import InboxCall, open_store

_HEADS = ("run", "call", "tool", "waits for", "for", "since", "waited", "request")


@as_command("inbox", "List all calls that are waiting, over all runs.", DATABASE)
@click.option("--here", is_flag=True, help="List only calls of runs in this workspace.")
@click.option(
    "--for", "principal", metavar="NAME", help="List only calls on behalf of this user or service."
)
@click.option(
    "--limit", type=COUNT, metavar="N", default=100, help="Maximum number of calls (default 100)."
)
def command(app: App, *, here: bool, principal: str | None, limit: int) -> None:
    """List all calls that are waiting for a person, over all runs, the most urgent first.

    A call waits for an approval or, once it has its answer, for you to resume the run. The list
    shows on whose behalf it would run, and how long it has waited. It is in the order in which
    requests expire.
    """
    found = open_store(app).inbox(limit)
    items = [_item(call) for call in found]
    if here:
        items = [item for item in items if item["workspace"] == str(app.workspace)]
    if principal is not None:
        items = [item for item in items if item["principal"] == principal]
    app.print_all("calls", items, _lines(items, app.width) if items else ["no calls wait"])
    answerable = [item for item in items if item["waits_for"] != "resume"]
    if answerable:
        first = answerable[0]
        app.say(
            f"answer with `handrail runs approve {first['id']} {first['call_id']}` or "
            "`handrail runs deny`"
        )


def _item(call: InboxCall) -> dict[str, Any]:
    pending, expires = call.pending, call.pending.expires_at
    return {
        "id": call.run.id,
        "workspace": call.run.about["workspace"],
        "principal": pending.principal,
        "pending": pending.id,
        "call_id": pending.call.id,
        "tool": pending.call.name,
        "question": pending.question,
        "rule": str(pending.origin) if pending.origin else "",
        "waits_for": "resume" if call.answer else pending.kind,
        "answer": call.answer,
        "asked": _format_time(pending.asked_at),
        "waited": max(0.0, time.time() - pending.asked_at),
        "expires": None if expires == math.inf else _format_time(expires),
    }


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _lines(items: Sequence[dict[str, Any]], width: int | None) -> Iterator[str]:
    return columns([_HEADS, *(_row(item) for item in items)], width=width)


def _row(item: dict[str, Any]) -> tuple[str, ...]:
    since = item["asked"][5:16].replace("T", " ")
    names = (one_line(item[name]) for name in ("id", "call_id", "tool", "waits_for"))
    whose = one_line(item["principal"] or "-")
    return (
        *names,
        whose,
        since,
        format_duration(item["waited"]),
        one_line(item["question"]),
    )
