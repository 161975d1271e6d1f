"""`handrail runs fork`."""

from __future__ import annotations

import click

from handrail.cli._base.app import App, as_command
from handrail.cli._base.options import COUNT, DATABASE, RUN
from handrail.cli._runs.saved import run_ids
from handrail.cli._runs.stores import open_store


@as_command("fork", "Start a new run from a turn of another one.", DATABASE)
@click.argument("run", metavar="RUN", shell_complete=run_ids, help=RUN)
@click.option(
    "--turn", type=COUNT, metavar="N", help="The last turn to keep (default: the last one)."
)
@click.option(
    "--answer", metavar="TEXT", help="Text to put in place of the model's text in that turn."
)
def command(app: App, *, run: str, turn: int | None, answer: str | None) -> None:
    """Start a new run from a turn of another one.

    The new run has the messages up to that turn. Continue it with `handrail runs resume`, with
    another --model or --mode, or with a prompt. The other run does not change.
    """
    saved = open_store(app).find(run)
    new, last = saved.fork(turn, answer)
    app.print({"id": new, "from": saved.id, "turn": last}, [new])
    if saved.is_durable:
        app.say(f"a worker runs it; follow it with `handrail runs watch {new}`")
    else:
        app.say(f"continue it with `handrail runs resume {new}`")
