"""`handrail mcp remove`."""

from __future__ import annotations

import click

from handrail import HandrailError
from handrail.cli._base.app import App, as_command
from handrail.cli._base.exits import Halt
from handrail.cli._project.servers import catalogue, pins_of


@as_command("remove", "Remove an MCP server, and forget its approvals.")
@click.argument("name", help="Name of the server.")
def command(app: App, name: str) -> None:
    """Remove an MCP server from your own list, and forget the approvals of its tools.

    A server that another program's file names stays there.
    """
    from handrail.mcp import store_entry

    try:
        forgotten = pins_of(app).forget(name)
        removed = store_entry(catalogue(app), name, None)
    except HandrailError as error:
        raise Halt(str(error), code="config", hint="list servers: `handrail mcp list`") from None
    if not removed and not forgotten:
        message = f"your own list has no MCP server {name!r}"
        raise Halt(message, code="no_server", hint="list servers: `handrail mcp list`")
    line = f"removed {name}" if removed else f"forgot the approvals of {name}"
    app.print({"name": name, "removed": removed, "forgotten": forgotten}, [line])
