"""`handrail runs deny`."""

from __future__ import annotations

import click

from handrail.cli._base.app import App, as_command
from handrail.cli._base.options import DATABASE, RUN
from handrail.cli._runs.answers import answer, check_selection
from handrail.cli._runs.saved import run_ids
from handrail.cli._runs.stores import open_store


@as_command("deny", "Deny pending calls.", DATABASE)
@click.argument("run", metavar="RUN", shell_complete=run_ids, help=RUN)
@click.argument("calls", metavar="[CALL_ID]...", nargs=-1, help="IDs of pending calls.")
@click.option("--all", "every", is_flag=True, help="Deny all pending calls.")
@click.option("--reason", metavar="TEXT", default="", help="Reason to send to the model.")
def command(app: App, run: str, calls: tuple[str, ...], *, every: bool, reason: str) -> None:
    """Deny pending calls. The model sees the denials when the run continues."""
    saved = open_store(app).find(run)
    wanted = check_selection(calls, saved, every=every)
    answer(app, saved, wanted, {"answer": "deny", "reason": reason})
