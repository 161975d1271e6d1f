"""`handrail runs`: list, show and watch runs, and list what waits for a person."""

from __future__ import annotations

import math
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import fields
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import anyio
import click

from handrail._support import format_duration
from handrail.approvals import make_printable
from handrail.cli._base.app import App, as_command, as_json
from handrail.cli._base.columns import columns, is_utf8
from handrail.cli._base.options import COUNT, DATABASE
from handrail.cli._base.printable import clip, one_line, short
from handrail.cli._runs.saved import SavedRun, readable_runs, run_ids
from handrail.cli._runs.stores import InboxCall, StoredRun, open_store
from handrail.cli._runs.timeline import Style, StyledText, fit_line, say_standing, timeline
from handrail.runs.history import CallHistory, CallMoment, PhaseSpan, RunTurn, read_history
from handrail.runs.lines import EVENTS, LineFields, as_fields
from handrail.runs.statuses import REASONS, STATUSES, WAITING, Standing
from handrail.runs.wording import describe_status

_RUN_HEADS = ("run", "started", "status", "turns", "calls", "prompt")
_GAP = 2
_MIN_PROMPT_CELLS, _MAX_PROMPT_CELLS = 20, 1_000
"""Terminal cells for a prompt."""
_LOOKS: MappingProxyType[Style, dict[str, Any]] = MappingProxyType(
    {
        "": {},
        "head": {"bold": True},
        "dim": {"dim": True},
        "good": {"fg": "green"},
        "bad": {"fg": "red"},
        "waiting": {"fg": "yellow"},
        "approval": {"fg": "magenta"},
        "running": {"fg": "cyan"},
    }
)
_CALL_HEADS = ("run", "call", "tool", "waits for", "for", "since", "waited", "request")
_POLL_SECONDS = 0.2
_MAX_CHARS = 100
_SHOWN = ("tool", "call_id", "decision", "question", "answer", "message", "status", "why", "text")
_COUNTS = ("turns", "calls")
_Show: TypeAlias = Callable[[LineFields], None]
_RUN = click.argument(
    "run",
    metavar="[RUN]",
    required=False,
    default="last",
    shell_complete=run_ids,
    help="ID of a saved run, a prefix of the ID, or last (default).",
)


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
def list_runs(app: App, *, limit: int, here: bool, status: str | None, reason: str | None) -> None:
    """List saved runs, newest first.

    Shows the ID, start time, status, turns, calls and first prompt of each run. The prompt of a
    run in another folder comes after that folder.
    """
    most = None if here else limit + 1
    runs = open_store(app).list(most, status=status or "", reason=reason or "")
    if here:
        readable = readable_runs(runs, app.say)
        runs = [run for run in readable if run.about["workspace"] == str(app.workspace)]
    items = [_describe_run(run) for run in readable_runs(runs[:limit], app.say)]
    lines = _run_lines(app, items) if items else ["no runs"]
    app.print_all("runs", items, lines)
    if len(runs) > limit:
        app.say(f"older runs are not shown; list more with `--limit {10 * limit}`")


def _describe_run(saved: StoredRun) -> dict[str, Any]:
    about = saved.about
    texts = {name: str(about[name]) for name in ("began", "command", "workspace", "prompt", "why")}
    counts = {"turns": about["turns"], "calls": about["calls"]}
    return {"id": saved.id, **texts, **saved.standing._asdict(), **counts}


def _run_lines(app: App, items: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Return one line per run, with as much prompt as fits on the terminal."""
    width, rows = app.width, [_RUN_HEADS, *(_run_row(item, app.workspace) for item in items)]
    before = sum(max(map(len, column)) + _GAP for column in list(zip(*rows, strict=True))[:-1])
    room = max(width - before, _MIN_PROMPT_CELLS) if width is not None else _MAX_PROMPT_CELLS
    return columns([(*row, fit_line(last, room)) for *row, last in rows], gap=_GAP)


def _run_row(item: dict[str, Any], here: Path) -> tuple[str, ...]:
    folder = item["workspace"]
    elsewhere = f"{short(folder, here)}: " if folder and folder != str(here) else ""
    counts = (str(item[name]) for name in ("turns", "calls"))
    began = make_printable(item["began"]).text[5:16].replace("T", " ")
    stands = say_standing(Standing(item["status"], item["reason"]))
    return (item["id"], began, stands, *counts, elsewhere + item["prompt"])


@as_command("show", "Show what happened in a run, as a timeline of its calls.", DATABASE)
@_RUN
@click.option("--full", is_flag=True, help="Show all of each text, not only its first lines.")
def show_run(app: App, *, run: str, full: bool) -> None:
    """Show what happened in a run, as a timeline of its calls.

    Each call has a row with a bar, scaled to its turn. Below it are the decision and its rule,
    what the call waited for, and how it failed.
    """
    saved = open_store(app).find(run)
    journal = saved.lines()
    if app.output == "text":
        app.print({}, _timeline_lines(saved, journal, full=full))
    else:
        _print_turns(app, saved, [_turn(turn) for turn in read_history(journal)])
    _print_next_step(app, saved)


def _timeline_lines(
    saved: StoredRun, journal: list[dict[str, Any]], *, full: bool
) -> Iterator[str]:
    width, about = shutil.get_terminal_size().columns, saved.about
    ascii_only = not is_utf8(sys.stdout.encoding or "")
    yield click.style(fit_line(f"run {saved.id}", width, ascii_only=ascii_only), bold=True)
    head = {
        "status": say_standing(saved.standing, about["why"]),
        "prompt": about["prompt"],
        "workspace": about["workspace"],
    }
    for name, value in head.items():
        text = fit_line(str(value), width - 11, ascii_only=ascii_only)
        yield f"{name.ljust(9)}  {text}".rstrip()
    yield ""
    for line in timeline(journal, width, ascii_only=ascii_only, full=full):
        yield _style(line)


def _style(line: list[StyledText]) -> str:
    """Return a line with color codes, which are removed again if there is no color."""
    parts = [
        (style, "".join(text for text, _ in several))
        for style, several in groupby(line, key=itemgetter(1))
    ]
    return "".join(click.style(text, **_LOOKS[style]) for style, text in parts).rstrip()


def _print_turns(app: App, saved: StoredRun, turns: list[dict[str, Any]]) -> None:
    if app.output == "jsonl":
        for turn in turns:
            click.echo(as_json(turn))
        return
    about = saved.about
    texts = {name: str(about[name]) for name in ("began", "command", "workspace", "prompt", "why")}
    stands = {**saved.standing._asdict(), "ended": about["ended"] and str(about["ended"])}
    app.print({"id": saved.id, **texts, **stands, "turns": turns}, ())


def _turn(turn: RunTurn) -> dict[str, Any]:
    return {**_plain(turn), "calls": [_call(call) for call in turn.calls]}


def _call(call: CallHistory) -> dict[str, Any]:
    parts = {
        "moments": [_plain(moment) for moment in call.moments],
        "spans": [_plain(span) for span in call.spans],
    }
    return {**_plain(call), **parts, "outcome": call.outcome}


def _plain(value: RunTurn | CallHistory | CallMoment | PhaseSpan) -> dict[str, Any]:
    """Return a value's fields. Nested values are not copied."""
    return {item.name: getattr(value, item.name) for item in fields(value)}


def _print_next_step(app: App, saved: StoredRun) -> None:
    """Print the command for continuing the run."""
    status, reason = saved.standing
    if status == "waiting":
        then = "" if saved.is_durable else f", then `handrail runs resume {saved.id}`"
        app.say(
            f"calls are waiting for approval: `handrail runs approve {saved.id}` or "
            f"`handrail runs deny {saved.id}`{then}"
        )
    elif saved.is_durable:
        return
    elif status == "cancelled" or reason in {"interrupted", "limit", "stopped"}:
        app.say(f"resume it with `handrail runs resume {saved.id}`")


@as_command("inbox", "List all calls that are waiting, over all runs.", DATABASE)
@click.option("--here", is_flag=True, help="List only calls of runs in this workspace.")
@click.option(
    "--for", "principal", metavar="NAME", help="List only calls on behalf of this user or service."
)
@click.option(
    "--limit", type=COUNT, metavar="N", default=100, help="Maximum number of calls (default 100)."
)
def list_waiting(app: App, *, here: bool, principal: str | None, limit: int) -> None:
    """List all calls that are waiting for a person, over all runs, the most urgent first.

    A call waits for an approval or, once it has its answer, for you to resume the run. The list
    shows on whose behalf it would run, and how long it has waited. It is in the order in which
    requests expire.
    """
    found = open_store(app).inbox(limit)
    items = [_describe_call(call) for call in found]
    if here:
        items = [item for item in items if item["workspace"] == str(app.workspace)]
    if principal is not None:
        items = [item for item in items if item["principal"] == principal]
    rows = [_CALL_HEADS, *map(_call_row, items)]
    app.print_all("calls", items, columns(rows, width=app.width) if items else ["no calls wait"])
    answerable = [item for item in items if item["waits_for"] != "resume"]
    if answerable:
        first = answerable[0]
        app.say(
            f"answer with `handrail runs approve {first['id']} {first['call_id']}` or "
            "`handrail runs deny`"
        )


def _describe_call(call: InboxCall) -> dict[str, Any]:
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


def _call_row(item: dict[str, Any]) -> tuple[str, ...]:
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


@as_command("watch", "Print the events of a run as they happen.", DATABASE)
@_RUN
def watch_run(app: App, *, run: str) -> None:
    """Print the events of a run as they happen, until no process works on it.

    Prints the events so far first. With --output jsonl, each line is one event. The text of a run
    that workers run is printed while its model replies: with jsonl, as `delta` lines.
    """
    saved = open_store(app).find(run)
    if app.output != "json":
        _follow(saved, _print_json if app.output == "jsonl" else _EventPrinter().print)
        return
    events: list[LineFields] = []
    _follow(saved, events.append, streams=False)
    app.print({"id": saved.id, **saved.standing._asdict(), "events": events}, ())


def _follow(saved: StoredRun, show: _Show, *, streams: bool = True) -> None:
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


async def _stream(saved: StoredRun, after: int, show: _Show) -> int:
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


class _EventPrinter:
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
            click.echo(f"\n{_event_line(fields)}" if self._is_open else _event_line(fields))
        self._is_open = kind == "delta"


def _event_line(fields: LineFields) -> str:
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
