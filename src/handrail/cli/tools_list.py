"""`handrail tools list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail import Spec
from handrail.approvals import displayed
from handrail.cli._app import App, as_command
from handrail.cli._columns import columns
from handrail.cli._kit import Kit
from handrail.cli._options import JUDGED

if TYPE_CHECKING:
    from handrail.tools import Outline


@as_command("list", "List the tools that there are.", *JUDGED)
def command(app: App) -> None:
    """List the tools that there are: the name, the effect, and the first line of each."""
    found = Kit(app).outlines
    rows = [
        (_safe(one.name), one.effect.name.lower(), _safe(one.description.partition("\n")[0]))
        for one in found
    ]
    lines = columns(rows, width=app.width) if rows else ["no tools"]
    app.print_all("tools", [_told(one) for one in found], lines)


def _told(one: Spec | Outline) -> dict[str, object]:
    return {
        "name": one.name,
        "effect": one.effect.name.lower(),
        "exposure": one.exposure.value,
        "description": one.description,
    }


def _safe(text: str) -> str:
    return displayed(text).text
