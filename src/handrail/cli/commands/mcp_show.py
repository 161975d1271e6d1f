"""`handrail mcp show`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import columns
from handrail.cli._base.printable import one_line
from handrail.cli._project.servers import document, get_server, pins_of


@as_command("show", "Show an MCP server and its approved tools.")
@click.argument("name", help="Name of the server.")
def command(app: App, name: str) -> None:
    """Show how an MCP server is started or reached, and its approved tools.

    Values of variables and headers are not shown.
    """
    config = get_server(app, name)
    server, effects = config.server, config.offer.effects
    tools = [
        {
            "name": definition.name,
            "effect": effects.find_effect(definition).name.lower(),
            "idempotent": effects.is_idempotent(definition),
            "description": definition.description,
        }
        for definition in pins_of(app).get(server)
    ]
    whole = {
        **document(app, config),
        "variables": sorted(getattr(server, "env", {})),
        "headers": sorted(getattr(server, "headers", {})),
        "hosts": list(getattr(server, "hosts", ())),
        "known": config.known or None,
        "approved": tools,
    }
    app.print(whole, _lines(whole))


def _lines(whole: Mapping[str, Any]) -> Iterator[str]:
    sandbox = {True: "in the sandbox", False: "WITHOUT the sandbox", None: "elsewhere"}
    yield one_line(whole["name"])
    about = [
        ("  target", whole["target"]),
        ("  runs", sandbox[whole["sandbox"]]),
        ("  named in", whole["origin"]),
        ("  variables", ", ".join(whole["variables"]) or "none"),
        ("  headers", ", ".join(whole["headers"]) or "none"),
        ("  hosts", ", ".join(whole["hosts"]) or "none"),
        ("  effects from", whole["known"] or "your configuration"),
        ("  reviewed", "yes" if whole["reviewed"] else "no"),
    ]
    yield from columns([(name, one_line(value)) for name, value in about])
    rows = [
        (f"  {tool['name']}", tool["effect"], one_line(tool["description"].partition("\n")[0]))
        for tool in whole["approved"]
    ]
    yield from columns(rows)
