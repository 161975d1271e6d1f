"""`handrail runs show`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import fields
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from typing import Any

import click

from handrail.cli._base.app import App, as_command, as_json
from handrail.cli._base.columns import is_utf8
from handrail.cli._base.options import DATABASE
from handrail.cli._runs.saved import run_ids
from handrail.cli._runs.stores import StoredRun, open_store
from handrail.cli._runs.timeline import Style, StyledText, one_line, say_standing, timeline
from handrail.runs.history import CallHistory, CallMoment, PhaseSpan, RunTurn, read_history

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


@as_command("show", "Show what happened in a run, as a timeline of its calls.", DATABASE)
@click.argument(
    "run",
    metavar="[RUN]",
    required=False,
    default="last",
    shell_complete=run_ids,
    help="ID of a saved run, a prefix of the ID, or last (default).",
)
@click.option("--full", is_flag=True, help="Show all of each text, not only its first lines.")
def command(app: App, *, run: str, full: bool) -> None:
    """Show what happened in a run, as a timeline of its calls.

    Each call has a row with a bar, scaled to its turn. Below it are the decision and its rule,
    what the call waited for, and how it failed.
    """
    saved = open_store(app).find(run)
    journal = saved.lines()
    if app.output == "text":
        app.print({}, _lines(saved, journal, full=full))
    else:
        _print(app, saved, [_turn(turn) for turn in read_history(journal)])
    _print_next_step(app, saved)


def _lines(saved: StoredRun, journal: list[dict[str, Any]], *, full: bool) -> Iterator[str]:
    width, about = shutil.get_terminal_size().columns, saved.about
    ascii_only = not is_utf8(sys.stdout.encoding or "")
    yield click.style(one_line(f"run {saved.id}", width, ascii_only=ascii_only), bold=True)
    head = {
        "status": say_standing(saved.standing, about["why"]),
        "prompt": about["prompt"],
        "workspace": about["workspace"],
    }
    for name, value in head.items():
        text = one_line(str(value), width - 11, ascii_only=ascii_only)
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


def _print(app: App, saved: StoredRun, turns: list[dict[str, Any]]) -> None:
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
