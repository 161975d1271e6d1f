"""`handrail mcp test`."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import click

from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import quantity
from handrail.cli._base.exits import Exit
from handrail.cli._base.printable import one_line
from handrail.cli._base.signals import run_alone
from handrail.cli._project.servers import get_server, source_of, visit


@as_command("test", "Start an MCP server and list its tools.")
@click.argument("name", help="Name of the server.")
def command(app: App, name: str) -> Exit:
    """Start an MCP server, list its tools, and stop it. Exits with 1 if some are not approved."""
    source = source_of(app, get_server(app, name))
    began = time.monotonic()
    run_alone(partial(visit, source))
    whole: dict[str, Any] = {
        "name": name,
        "seconds": round(time.monotonic() - began, 3),
        "tools": [definition.name for definition in source.definitions],
        "waiting": [change.name for change in source.changes],
        "problems": list(source.problems),
    }
    waiting = len(whole["waiting"])
    lines = [f"{name} works: {quantity(len(whole['tools']), 'tool')}"]
    lines += [one_line(problem) for problem in source.problems]
    if waiting:
        lines.append(f"{quantity(waiting, 'tool')} not approved: `handrail mcp review {name}`")
    app.print(whole, lines)
    return Exit.FAILED if waiting else Exit.DONE
