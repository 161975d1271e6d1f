"""`handrail runs watch`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import click

from handrail.cli._base.app import App, as_command, as_json
from handrail.cli._base.options import DATABASE
from handrail.cli._base.printable import one_line
from handrail.cli._runs.denials import clip
from handrail.cli._runs.saved import run_ids
from handrail.cli._runs.stores import StoredRun, open_store
from handrail.runs.lines import EVENTS, LineFields, as_fields
from handrail.runs.wording import describe_status

_POLL_SECONDS = 0.2
_MAX_CHARS = 100
_SHOWN = ("tool", "call_id", "decision", "question", "answer", "message", "status", "why", "text")
_COUNTS = ("turns", "calls")


@as_command("watch", "Print the events of a run as they happen.", DATABASE)
@click.argument(
    "run",
    metavar="[RUN]",
    required=False,
    default="last",
    shell_complete=run_ids,
    help="ID of a saved run, a prefix of the ID, or last (default).",
)
def command(app: App, *, run: str) -> None:
    """Print the events of a run as they happen, until no process works on it.

    Prints the events so far first. With --output jsonl, each line is one event.
    """
    saved = open_store(app).find(run)
    events: list[LineFields] = []
    for fields in _follow(saved):
        if app.output == "jsonl":
            click.echo(as_json(fields))
        elif app.output == "text":
            click.echo(_line(fields))
        else:
            events.append(fields)
    if app.output == "json":
        app.print({"id": saved.id, **saved.standing._asdict(), "events": events}, ())


def _follow(saved: StoredRun) -> Iterator[LineFields]:
    after, running = 0, True
    while running:
        running = saved.busy  # before reading: the last events come before the release
        for entry in saved.journal.read(saved.id, after=after, kinds=EVENTS):
            after = entry.number
            yield as_fields(entry)
        if running:
            time.sleep(_POLL_SECONDS)


def _line(fields: LineFields) -> str:
    at: Any = fields.get("at")
    clock = time.strftime("%H:%M:%S", time.gmtime(at)) if isinstance(at, float) else "--:--:--"
    words = {**fields, "status": _say_status(fields)}
    parts = [str(words[name]) for name in _SHOWN if words.get(name)]
    parts = parts or [f"{fields[name]} {name}" for name in _COUNTS if name in fields]
    return f"{clock}  {one_line(fields['event'])}  {one_line(clip('  '.join(parts), _MAX_CHARS))}"


def _say_status(fields: LineFields) -> str:
    status = str(fields.get("status", ""))
    _, words = describe_status(status, str(fields.get("reason", "")))
    return words[2:] or status
