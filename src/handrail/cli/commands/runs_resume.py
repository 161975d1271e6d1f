"""`handrail runs resume`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from handrail.agent import RunState
from handrail.cli._base.app import App, as_command
from handrail.cli._base.exits import Exit, Halt
from handrail.cli._base.options import DATABASE, MODEL_OPTIONS, RUN, TOOL_OPTIONS
from handrail.cli._base.stdout import Outlet
from handrail.cli._project.kit import Kit
from handrail.cli._project.models import model_of
from handrail.cli._runs.headless import OnDenied, Task, on_denied, run_task
from handrail.cli._runs.resumed_app import app_to_resume
from handrail.cli._runs.saved import SavedRun, run_ids
from handrail.cli._runs.stores import open_store
from handrail.cli._runs.stream import end_document
from handrail.runs.statuses import QUEUED

if TYPE_CHECKING:
    from handrail.cli._runs.durable_run import DurableSavedRun


@as_command("resume", "Resume a saved run.", DATABASE, *TOOL_OPTIONS, *MODEL_OPTIONS)
@click.argument("run", metavar="RUN", shell_complete=run_ids, help=RUN)
@click.argument("prompt", nargs=-1, help="Next message to the model.")
@on_denied("suspend")
def command(app: App, run: str, prompt: tuple[str, ...], on_denied: OnDenied) -> Exit:
    """Resume a saved run.

    Pending calls run if you approved them with `handrail runs approve`, or if you approve them now
    at the terminal. Calls without an answer stay pending, and the exit code is 4.

    Options of the first command line apply again, unless you pass them again: for example another
    --model, or a higher limit. Settings files and rules are read again.

    A durable run (--database) that failed continues in a worker, from its last complete turn.
    """
    found = open_store(app).find(run)
    if not isinstance(found, SavedRun):
        return _requeue(app, found, prompt)
    saved, data = found, Outlet(app)
    with saved.hold():
        state = saved.state()
        if not (prompt or state.messages or state.inbox):
            raise Halt(
                f"run {saved.id} has no prompt yet",
                code="no_prompt",
                hint=f"pass one: `handrail runs resume {saved.id} PROMPT`",
            )
        then = app_to_resume(app, saved)
        kit = Kit(then)
        model = model_of(then.settings, then.workspace, say=then.say)
        return run_task(
            Task(
                kit=kit,
                saved=saved,
                model=model,
                data=data,
                prompt=(" ".join(prompt),) if prompt else (),
                on_denied=on_denied,
                asks=app.asks,
            )
        )


def _requeue(app: App, found: DurableSavedRun, prompt: tuple[str, ...]) -> Exit:
    if prompt:
        raise click.UsageError("a durable run takes no prompt here: start another run")
    found.requeue()
    document = end_document(found.id, RunState(), QUEUED, why="", denials=[], money=None)
    app.print(document, [f"{found.id}  continues in a worker"])
    return Exit.DONE
