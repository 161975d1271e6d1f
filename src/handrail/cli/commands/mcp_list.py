"""`handrail mcp list`."""

from __future__ import annotations

from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import columns, quantity
from handrail.cli._base.printable import one_line
from handrail.cli._project.servers import document, find_configured


@as_command("list", "List MCP servers, and which are reviewed.")
def command(app: App) -> None:
    """List the MCP servers that your own list and trusted files of the workspace name."""
    servers = [document(app, config) for config in find_configured(app).servers.values()]
    rows = [
        (
            one_line(server["name"]),
            quantity(server["tools"], "tool") if server["reviewed"] else "not reviewed",
            one_line(server["target"]),
        )
        for server in servers
    ]
    app.print_all("servers", servers, columns(rows) if rows else ["no MCP servers"])
