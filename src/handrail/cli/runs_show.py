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

from handrail.cli._app import App, as_command, as_json
from handrail.cli._checks import is_utf8
from handrail.cli._course import CallCourse, Span, Told, Turn, course
from handrail.cli._options import run_ids
from handrail.cli._saved import Saved, find_run
from handrail.cli._timeline import Piece, Style, one_line, pieces

_LOOKS: MappingProxyType[Style, dict[str, Any]] = MappingProxyType(
    {
        "": {},
        "head": {"bold": True},
        "dim": {"dim": True},
        "good": {"fg": "green"},
        "bad": {"fg": "red"},
        "waits": {"fg": "yellow"},
        "asks": {"fg": "magenta"},
        "runs": {"fg": "cyan"},
    }
)


@as_command("show", "Draw what happened in a run, and why calls waited.")
@click.argument("run", metavar="RUN", shell_complete=run_ids)
@click.option("--full", is_flag=True, help="Show all texts, not only their first lines.")
def command(app: App, *, run: str, full: bool) -> None:
    """Draw what happened in a run, and why calls waited.

    RUN is the id of one, or its beginning, or last. Every call has a row with a bar, which is
    scaled to its turn; below it stand the decision and its rule, what it waited for, and how it
    failed.
    """
    saved = find_run(run)
    journal = saved.journal()
    if app.output == "text":
        app.print({}, _lines(saved, journal, full=full))
    else:
        _print(app, saved, [_turn(one) for one in course(journal)])
    _say(app, saved)


def _lines(saved: Saved, journal: list[dict[str, Any]], *, full: bool) -> Iterator[str]:
    width, about = shutil.get_terminal_size().columns, saved.about
    ascii_only = not is_utf8(sys.stdout.encoding or "")
    yield click.style(one_line(f"run {saved.id}", width, ascii_only=ascii_only), bold=True)
    head = {**about, "stop": f"{saved.stop} {about['why']}"}
    for name in ("stop", "prompt", "workspace"):
        text = one_line(str(head[name]), width - 11, ascii_only=ascii_only)
        yield f"{name.ljust(9)}  {text}".rstrip()
    yield ""
    for line in pieces(journal, width, ascii_only=ascii_only, full=full):
        yield _styled(line)


def _styled(line: list[Piece]) -> str:
    """A line with colours, which are taken out again where there are none."""
    parts = [
        (style, "".join(text for text, _ in several))
        for style, several in groupby(line, key=itemgetter(1))
    ]
    return "".join(click.style(text, **_LOOKS[style]) for style, text in parts).rstrip()


def _print(app: App, saved: Saved, turns: list[dict[str, Any]]) -> None:
    if app.output == "jsonl":
        for one in turns:
            click.echo(as_json(one))
        return
    about = saved.about
    told = {name: str(about[name]) for name in ("began", "command", "workspace", "prompt", "why")}
    ended = {"stop": str(saved.stop), "ended": about["ended"] and str(about["ended"])}
    app.print({"id": saved.id, **told, **ended, "turns": turns}, ())


def _turn(turn: Turn) -> dict[str, Any]:
    return {**_plain(turn), "calls": [_call(one) for one in turn.calls]}


def _call(call: CallCourse) -> dict[str, Any]:
    told = {
        "told": [_plain(one) for one in call.told],
        "spans": [_plain(one) for one in call.spans],
    }
    return {**_plain(call), **told, "outcome": call.outcome}


def _plain(value: Turn | CallCourse | Told | Span) -> dict[str, Any]:
    """Its fields, which may hold arguments of any depth: they are not copied."""
    return {one.name: getattr(value, one.name) for one in fields(value)}


def _say(app: App, saved: Saved) -> None:
    """What can be done now."""
    if saved.stop == "pending":
        app.say(
            f"calls wait for an answer: `handrail runs approve {saved.id}`, or deny; "
            f"then `handrail runs resume {saved.id}`"
        )
    elif saved.stop in {"interrupted", "limit"}:
        app.say(f"it can be gone on with: `handrail runs resume {saved.id}`")
