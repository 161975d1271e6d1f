"""`handrail runs erase`."""

from __future__ import annotations

import click

from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import quantity
from handrail.cli._base.exits import Halt
from handrail.cli._base.options import DATABASE
from handrail.cli._runs.stores import open_store


@as_command("erase", "Delete all durable runs of a person or a service.", DATABASE)
@click.option(
    "--principal",
    metavar="NAME",
    required=True,
    help="The person or service on whose behalf the runs were started.",
)
def command(app: App, *, principal: str) -> None:
    """Delete all durable runs of a person or a service, with everything that belongs to them.

    Runs that have not ended are cancelled first. Conversations and files that web applications
    keep for this person are deleted, too. For each run, a digest of its ID and the end of its chain
    stay, so that an audit sees that it was erased.

    The name of someone who answered a request of another run stays in that run.
    """
    if not app.settings["database"]:
        raise Halt(
            "your own runs are on behalf of no one",
            code="usage",
            hint="pass `--database DATABASE`, or delete runs with `handrail runs prune`",
        )
    from handrail.cli._runs.durable_run import act  # loads the agent

    count = act(open_store(app).journal, lambda runs: runs.erase(principal))
    app.print({"principal": principal, "count": count}, [f"{quantity(count, 'run')} deleted"])
