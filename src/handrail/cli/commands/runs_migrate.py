"""`handrail runs migrate`."""

from __future__ import annotations

from pathlib import Path

import click

from handrail.cli._base.app import App, as_command
from handrail.cli._base.exits import Halt
from handrail.cli._base.options import DATABASE
from handrail.cli._base.redact import redact_url
from handrail.runs.migrating import migrate_tables, write_migrations


@as_command("migrate", "Create or change the tables of durable runs.", DATABASE)
@click.option("--sql", is_flag=True, help="Print SQL that does it, and change nothing.")
def command(app: App, *, sql: bool) -> None:
    """Create the tables of durable runs, or change them to those of this version.

    Workers do this when they start, unless they may not create tables. Then run this command as the
    owner of the tables, or let the owner run the SQL that --sql prints. It includes the tables of
    the engine.
    """
    address = app.settings["database"]
    if not address:
        hint = "pass the file or the URL of your DurableRuns with `--database`"
        raise Halt("no database of durable runs is named", code="usage", hint=hint)
    if "://" not in address:
        address = str(app.workspace / Path(address).expanduser())
    if sql:
        text = write_migrations(address)
        app.print({"sql": text}, text.splitlines() or ["-- nothing to change"])
        return
    done = list(migrate_tables(address))
    document = {"database": redact_url(address), "migrations": done}
    numbers = ", ".join(map(str, done))
    app.print(document, [f"applied: {numbers}" if done else "nothing to change"])
