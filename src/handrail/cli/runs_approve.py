"""`handrail runs approve`."""

from __future__ import annotations

import click

from handrail.cli._answering import answer, answerable, named
from handrail.cli._app import App, as_command
from handrail.cli._options import run_ids
from handrail.cli._saved import find_run


@as_command("approve", "Say yes to calls that wait for an answer.")
@click.argument("run", metavar="RUN", shell_complete=run_ids)
@click.argument("calls", metavar="[CALL_ID]...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All that wait.")
def command(app: App, run: str, calls: tuple[str, ...], *, every: bool) -> None:
    """Say yes to calls that wait for an answer. They run when the run is gone on with.

    All of each call is shown. The yes is for exactly that, and counts once: where anything has
    changed when the run goes on, it is asked again.
    """
    saved = find_run(run)
    wanted = named(calls, saved, every=every)
    answer(app, saved, wanted, {"answer": "allow"}, check=answerable)
