"""`handrail runs cancel`."""

from __future__ import annotations

import click

from handrail.cli._base.app import App, as_command
from handrail.cli._base.exits import Halt
from handrail.cli._base.options import DATABASE, RUN
from handrail.cli._runs.saved import run_ids
from handrail.cli._runs.stores import open_store
from handrail.cli._runs.timeline import say_standing
from handrail.runs.statuses import CANCELLED, LIVE

_OPEN = frozenset({*LIVE, "failed"})


@as_command("cancel", "Cancel a run, and stop its tools.", DATABASE)
@click.argument("run", metavar="RUN", shell_complete=run_ids, help=RUN)
def command(app: App, *, run: str) -> None:
    """Cancel a run that waits, was interrupted, or reached a limit, or that is running.

    A process that works on the run stops its model and its tools. The command waits for that. The
    calls of the run no longer wait for approval, and `runs inbox` does not list them. The journal
    keeps the run.
    """
    saved = open_store(app).find(run)
    before = saved.standing
    if before.status not in _OPEN and before.reason not in {"interrupted", "limit"}:
        raise Halt(
            f"run {saved.id} has ended already: {say_standing(before)}",
            code="ended",
            hint=f"delete it with `handrail runs prune {saved.id}`",
        )
    if saved.busy:
        app.say("waiting for the process that works on it")
    saved.cancel()
    document = {"id": saved.id, "was": before._asdict(), **CANCELLED._asdict()}
    app.print(document, [f"{saved.id}  cancelled"])
