"""`handrail runs`: approve, deny, cancel and fork."""

from __future__ import annotations

import click

from handrail.cli._base.app import App, as_command
from handrail.cli._base.exits import Halt
from handrail.cli._base.options import COUNT, DATABASE, RUN
from handrail.cli._runs.answers import (
    answer,
    check_answerable,
    check_selection,
    read_values,
    select_pending,
)
from handrail.cli._runs.saved import run_ids
from handrail.cli._runs.stores import open_store
from handrail.cli._runs.timeline import say_standing
from handrail.runs.statuses import CANCELLED, LIVE

_OPEN = frozenset({*LIVE, "failed"})


@as_command("approve", "Approve pending calls.", DATABASE)
@click.argument("run", metavar="RUN", shell_complete=run_ids, help=RUN)
@click.argument("calls", metavar="[CALL_ID]...", nargs=-1, help="IDs of pending calls.")
@click.option("--all", "every", is_flag=True, help="Approve all pending calls.")
@click.option(
    "--set", "values", metavar="NAME=VALUE", multiple=True, help="A value for a form. Repeatable."
)
def approve(
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


@as_command("deny", "Deny pending calls.", DATABASE)
@click.argument("run", metavar="RUN", shell_complete=run_ids, help=RUN)
@click.argument("calls", metavar="[CALL_ID]...", nargs=-1, help="IDs of pending calls.")
@click.option("--all", "every", is_flag=True, help="Deny all pending calls.")
@click.option("--reason", metavar="TEXT", default="", help="Reason to send to the model.")
def deny(app: App, run: str, calls: tuple[str, ...], *, every: bool, reason: str) -> None:
    """Deny pending calls. The model sees the denials when the run continues."""
    saved = open_store(app).find(run)
    wanted = check_selection(calls, saved, every=every)
    answer(app, saved, wanted, {"answer": "deny", "reason": reason})


@as_command("cancel", "Cancel a run, and stop its tools.", DATABASE)
@click.argument("run", metavar="RUN", shell_complete=run_ids, help=RUN)
def cancel(app: App, *, run: str) -> None:
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


@as_command("fork", "Start a new run from a turn of another one.", DATABASE)
@click.argument("run", metavar="RUN", shell_complete=run_ids, help=RUN)
@click.option(
    "--turn", type=COUNT, metavar="N", help="The last turn to keep (default: the last one)."
)
@click.option(
    "--answer", metavar="TEXT", help="Text to put in place of the model's text in that turn."
)
def fork(app: App, *, run: str, turn: int | None, answer: str | None) -> None:
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
