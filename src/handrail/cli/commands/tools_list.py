"""`handrail tools list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from handrail import Exposure, Spec
from handrail.approvals import make_printable
from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import columns, quantity
from handrail.cli._base.options import TOOL_OPTIONS
from handrail.cli._project.kit import Kit

if TYPE_CHECKING:
    from handrail.tools import ToolSummary


@as_command("list", "List tools.", *TOOL_OPTIONS)
@click.option(
    "--tokens", is_flag=True, help="Show about how many tokens each definition costs a model."
)
def command(app: App, *, tokens: bool) -> None:
    """List tools: name, effect and first line of the description."""
    if tokens:
        _list_tokens(app)
        return
    tools = Kit(app).outlines
    rows = [
        (_safe(tool.name), tool.effect.name.lower(), _safe(tool.description.partition("\n")[0]))
        for tool in tools
    ]
    lines = columns(rows, width=app.width) if rows else ["no tools"]
    app.print_all("tools", [_document(tool) for tool in tools], lines)


def _list_tokens(app: App) -> None:
    """List the tools by what they cost, the most expensive first."""
    specs = sorted(Kit(app).tools.specs, key=lambda spec: (-spec.tokens, spec.name))
    rows = [(str(spec.tokens), spec.exposure.value, _safe(spec.name)) for spec in specs]
    lines = columns(rows) if rows else ["no tools"]
    app.print_all("tools", [{**_document(spec), "tokens": spec.tokens} for spec in specs], lines)
    sent = [spec.tokens for spec in specs if spec.exposure is not Exposure.DEFERRED]
    every, deferred = sum(spec.tokens for spec in specs), len(specs) - len(sent)
    note = f", {sum(sent)} of them in each request" if deferred else " in each request"
    app.say(f"{quantity(len(specs), 'tool')}, {quantity(every, 'token')}{note}")


def _document(tool: Spec | ToolSummary) -> dict[str, object]:
    return {
        "name": tool.name,
        "effect": tool.effect.name.lower(),
        "exposure": tool.exposure.value,
        "description": tool.description,
    }


def _safe(text: str) -> str:
    return make_printable(text).text
