"""`handrail runs watch`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Any, TypeAlias

import anyio
import click

from handrail.cli._base.app import App, as_command, as_json
from handrail.cli._base.options import DATABASE
from handrail.cli._base.printable import one_line
from handrail.cli._runs.denials import clip
from handrail.cli._runs.saved import SavedRun, run_ids
from handrail.cli._runs.stores import StoredRun, open_store
from handrail.runs.lines import EVENTS, LineFields, as_fields
from handrail.runs.statuses import WAITING
from handrail.runs.wording import describe_status

_POLL_SECONDS = 0.2
_MAX_CHARS = 100
_SHOWN = ("tool", "call_id", "decision", "question", "answer", "message", "status", "why", "text")
_COUNTS = ("turns", "calls")
Show: TypeAlias = Callable[[LineFields], None]


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

    Prints the events so far first. With --output jsonl, each line is one event. The text of a run
    that workers run is printed while its model replies: with jsonl, as `delta` lines.
    """
    saved = open_store(app).find(run)
    if app.output != "json":
        _follow(saved, _print_json if app.output == "jsonl" else _Lines().print)
        return
    events: list[LineFields] = []
    _follow(saved, events.append, streams=False)
    app.print({"id": saved.id, **saved.standing._asdict(), "events": events}, ())


def _follow(saved: StoredRun, show: Show, *, streams: bool = True) -> None:
    after, running = 0, True
    while running:
        running = saved.busy  # before reading: the last events come before the release
        for entry in saved.journal.read(saved.id, after=after, kinds=EVENTS):
            after = entry.number
            show(as_fields(entry))
        if running and streams and not isinstance(saved, SavedRun):  # workers run it
            after = anyio.run(_stream, saved, after, show)
        elif running:
            time.sleep(_POLL_SECONDS)


async def _stream(saved: StoredRun, after: int, show: Show) -> int:
    """Show events and text until no worker works on the run. Returns the last event's number."""
    if saved.busy:  # still: so another status comes
        found: Any = saved.journal.watch(saved.id, after=str(after))
        async with aclosing(found) as updates:
            async for place, fields in updates:
                show(fields)
                after = int(place.partition("-")[0])
                if fields.get("status") == WAITING.status:
                    break
    return after


def _print_json(fields: LineFields) -> None:
    click.echo(as_json(fields))


class _Lines:
    """Prints events as lines, and a reply's text as one that grows."""

    def __init__(self) -> None:
        self._is_open = False

    def print(self, fields: LineFields) -> None:
        kind = fields["event"]
        if kind == "args" or fields.get("thought"):
            return
        if kind == "delta":
            click.echo("" if self._is_open else "--:--:--  text  ", nl=False)
            words = re.split("[ \n]", str(fields["text"]))
            click.echo(" ".join(map(one_line, words)), nl=False)
        else:
            click.echo(f"\n{_line(fields)}" if self._is_open else _line(fields))
        self._is_open = kind == "delta"


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
