"""`handrail tools list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail import Spec
from handrail.approvals import make_printable
from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import columns
from handrail.cli._base.options import TOOL_OPTIONS
from handrail.cli._project.kit import Kit

if TYPE_CHECKING:
    from handrail.tools import ToolSummary


@as_command("list", "List tools.", *TOOL_OPTIONS)
def command(app: App) -> None:
    """List tools: name, effect and first line of the description."""
    tools = Kit(app).outlines
    rows = [
        (_safe(tool.name), tool.effect.name.lower(), _safe(tool.description.partition("\n")[0]))
        for tool in tools
    ]
    lines = columns(rows, width=app.width) if rows else ["no tools"]
    app.print_all("tools", [_document(tool) for tool in tools], lines)


def _document(tool: Spec | ToolSummary) -> dict[str, object]:
    return {
        "name": tool.name,
        "effect": tool.effect.name.lower(),
        "exposure": tool.exposure.value,
        "description": tool.description,
    }


def _safe(text: str) -> str:
    return make_printable(text).text
