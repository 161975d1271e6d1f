"""`handrail runs deny`."""

from __future__ import annotations

import click

from handrail.cli._base.app import App, as_command
from handrail.cli._base.options import RUN
from handrail.cli._runs.answers import answer, check_selection
from handrail.cli._runs.saved import find_run, run_ids


@as_command("deny", "Deny pending calls.")
@click.argument("run", metavar="RUN", shell_complete=run_ids, help=RUN)
@click.argument("calls", metavar="[CALL_ID]...", nargs=-1, help="IDs of pending calls.")
@click.option("--all", "every", is_flag=True, help="Deny all pending calls.")
@click.option("--reason", metavar="TEXT", default="", help="Reason to send to the model.")
def command(app: App, run: str, calls: tuple[str, ...], *, every: bool, reason: str) -> None:
    """Deny pending calls. The model sees the denials when you resume the run."""
    saved = find_run(run)
    wanted = check_selection(calls, saved, every=every)
    answer(app, saved, wanted, {"answer": "deny", "reason": reason})
