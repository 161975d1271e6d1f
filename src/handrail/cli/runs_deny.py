"""`handrail runs deny`."""

from __future__ import annotations

import click

from handrail.cli._answering import answer, named
from handrail.cli._app import App, as_command
from handrail.cli._options import run_ids
from handrail.cli._saved import find_run


@as_command("deny", "Say no to calls that wait for an answer.")
@click.argument("run", metavar="RUN", shell_complete=run_ids)
@click.argument("calls", metavar="[CALL_ID]...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All that wait.")
@click.option("--reason", metavar="TEXT", default="", help="Words for the model.")
def command(app: App, run: str, calls: tuple[str, ...], *, every: bool, reason: str) -> None:
    """Say no to calls that wait for an answer. The model is told when the run is gone on with."""
    saved = find_run(run)
    wanted = named(calls, saved, every=every)
    answer(app, saved, wanted, {"answer": "deny", "reason": reason})
