"""`handrail runs approve`."""

from __future__ import annotations

import click

from handrail.cli._base.app import App, as_command
from handrail.cli._base.options import DATABASE, RUN
from handrail.cli._runs.answers import (
    answer,
    check_answerable,
    check_selection,
    read_values,
    select_pending,
)
from handrail.cli._runs.saved import run_ids
from handrail.cli._runs.stores import open_store


@as_command("approve", "Approve pending calls.", DATABASE)
@click.argument("run", metavar="RUN", shell_complete=run_ids, help=RUN)
@click.argument("calls", metavar="[CALL_ID]...", nargs=-1, help="IDs of pending calls.")
@click.option("--all", "every", is_flag=True, help="Approve all pending calls.")
@click.option(
    "--set", "values", metavar="NAME=VALUE", multiple=True, help="A value for a form. Repeatable."
)
def command(
    app: App, run: str, calls: tuple[str, ...], *, every: bool, values: tuple[str, ...]
) -> None:
    """Approve pending calls. They run when you resume the run, or in a worker.

    Every call is shown in full. An approval covers exactly that call, once: if anything has
    changed when you resume the run, the call needs approval again.

    A call that asks you for values gets them with --set.
    """
    saved = open_store(app).find(run)
    wanted = check_selection(calls, saved, every=every)
    given = read_values(select_pending(saved, wanted), values)
    answer(app, saved, wanted, given, check=check_answerable)
