"""`handrail tools lint`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from handrail import Exposure, Toolset, lint
from handrail.approvals import displayed
from handrail.cli._app import App, as_command
from handrail.cli._dialects import DIALECTS, compiled
from handrail.cli._exits import Exit
from handrail.cli._kit import Kit
from handrail.cli._options import JUDGED
from handrail.providers import Quarantined


@as_command("lint", "Say what makes tools hard to use for a model.", *JUDGED)
@click.option(
    "--provider",
    type=click.Choice(["all", *DIALECTS]),
    default="all",
    show_default=True,
    help="Whose wire to look at.",
)
def command(app: App, provider: str) -> Exit:
    """Say what makes tools hard to use for a model, and what of them a provider's wire loses.

    It ends with 1 where there is a finding: a tool to be mended, or one that a provider cannot
    be sent. A loss is told, and is no finding: the tool works, with less.
    """
    tools = Kit(app).tools
    found = [
        {"tool": one.tool, "provider": None, "rule": one.rule, "message": one.message}
        for one in lint(tools)
    ]
    lost: list[dict[str, Any]] = []
    for dialect in DIALECTS if provider == "all" else (provider,):
        for one in _sent(tools, dialect):
            (found if one["rule"] == "quarantined" else lost).append(one)
    document = {"tools": len(tools), "findings": found, "losses": lost}
    app.print(document, [*map(_line, found), *map(_line, lost)])
    if not found:
        app.say(f"nothing to mend in {len(tools)} tools")
    return Exit.FAILED if found else Exit.DONE


def _sent(tools: Toolset, dialect: str) -> Iterator[dict[str, Any]]:
    """What becomes of tools on a wire; those that no model sees are sent over none."""
    for one in tools:
        if one.spec.exposure is Exposure.HIDDEN:
            continue
        made = compiled(one.spec, dialect)
        about = {"tool": one.spec.name, "provider": dialect}
        if isinstance(made, Quarantined):
            yield {**about, "rule": "quarantined", "message": made.reason}
        else:
            yield from ({**about, "rule": "lost", "message": loss} for loss in made.losses)


def _line(one: dict[str, Any]) -> str:
    rule = f"{one['provider']} {one['rule']}" if one["provider"] else one["rule"]
    return displayed(f"{one['tool']}: {one['message']} [{rule}]").text
