"""`handrail runs rotate`."""

from __future__ import annotations

from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import quantity
from handrail.cli._base.exits import Halt
from handrail.cli._base.options import DATABASE
from handrail.cli._runs.stores import open_store


@as_command("rotate", "Seal the texts of durable runs with the current key.", DATABASE)
def command(app: App) -> None:
    """Seal the texts of durable runs with the current key of the setting `codec`.

    Texts that another key has sealed, or none, are sealed again, in batches, while workers
    continue. If the command is stopped, run it again.
    """
    if not (app.settings["database"] and app.settings["codec"]):
        raise Halt(
            "no database, or no codec, is named",
            code="usage",
            hint="pass `--database DATABASE`, and set `HANDRAIL_CODEC=MODULE:NAME`",
        )
    count = open_store(app).journal.rotate()
    app.print({"count": count}, [f"{quantity(count, 'text')} sealed"])
