"""`handrail mcp review`."""

from __future__ import annotations

import json
import sys
import termios
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from handrail.approvals import make_printable
from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import quantity
from handrail.cli._base.exits import Exit, Halt
from handrail.cli._base.printable import one_line
from handrail.cli._base.signals import run_alone
from handrail.cli._project.servers import describe, describe_rights, get_server, source_of, visit

if TYPE_CHECKING:
    from handrail.mcp import ChangedTool, McpSource, ServerConfig

_MARGIN = "  │ "
_MAX_INDENT = 24
"""Characters shown at a line's start; a longer row of spaces is described."""


@as_command("review", "Review the tools of an MCP server, and approve them.")
@click.argument("name", help="Name of the server.")
@click.option("--yes", is_flag=True, help="Approve without a prompt.")
@click.option(
    "--mcp",
    "config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File that names the server (default: your list and the workspace's files).",
)
def command(app: App, name: str, *, yes: bool, config: Path | None) -> Exit:
    """Review the tools of an MCP server, and approve them.

    Starts the server and shows every definition that is new or has changed, as the server sent it,
    with invisible characters spelled out. Only approved tools are offered to a model, and each only
    as long as its definition stays the same.
    """
    from handrail.mcp import StdioServer, propose_effects

    found = get_server(app, name, config)
    kind, target = describe(found)
    app.say(f"{name} ({kind}): {target}")
    if isinstance(found.server, StdioServer):
        for line in filter(None, [describe_rights(found.server, app.workspace)]):
            app.say(one_line(line))
    source = source_of(app, found)
    if not yes and not app.asks:
        hint = f"review it at a terminal, or approve it unseen: `handrail mcp review {name} --yes`"
        raise Halt("a review needs a terminal", code="no_terminal", hint=hint)
    if not yes and not click.confirm(f"Start {one_line(name)}?", err=True):
        return Exit.DENIED
    run_alone(partial(visit, source))
    for line in _screen(source, found):
        app.say(line)
    proposed = propose_effects(source.definitions, found.offer.effects)
    for line in _proposal(name, proposed):
        app.say(line)
    waiting = source.changes
    approved = bool(waiting) and (yes or _ask(len(waiting)))
    if approved or not source.definitions:
        source.approve()
    _print(app, name, waiting, approved=approved)
    return Exit.DENIED if waiting and not approved else Exit.DONE


def _screen(source: McpSource, config: ServerConfig) -> Iterator[str]:
    """Yield each definition waiting for approval, every line behind a margin."""
    for change in source.changes:
        effect = config.offer.effects.find_effect(change.now).name.lower()
        what = "new" if change.approved is None else "changed"
        yield f"\n{change.name} ({what}, {effect})"
        for line in change.difference.split("\n"):
            indent = line[: min(_MAX_INDENT, len(line) - len(line.lstrip("+- ")))]
            yield f"{_MARGIN}{indent}{make_printable(line[len(indent) :]).text}"
        yield from (f"warning: {one_line(warning)}" for warning in change.now.find_warnings())
    yield from (one_line(problem) for problem in source.problems)


def _proposal(name: str, proposed: dict[str, list[str]]) -> Iterator[str]:
    """Return the lines for an entry in the user's own list, with the tools' apparent effects."""
    lines = (
        f"\nby their names and annotations, this entry of mcp.json would fit {name}:",
        f"  {json.dumps(name)}: {json.dumps(proposed)}",
        "check it first: a tool that only reads may run without approval",
    )
    return iter(lines if proposed else ())


def _ask(count: int) -> bool:
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    return click.confirm(f"Approve {quantity(count, 'definition')}?", err=True)


def _print(app: App, name: str, waiting: tuple[ChangedTool, ...], *, approved: bool) -> None:
    names: list[Any] = [change.name for change in waiting]
    whole = {
        "name": name,
        "approved": names if approved else [],
        "waiting": [] if approved else names,
        "warnings": [
            {"tool": change.name, "message": warning}
            for change in waiting
            for warning in change.now.find_warnings()
        ],
    }
    done = f"approved {quantity(len(names), 'definition')}" if approved else "nothing approved"
    app.print(whole, [done if names else "nothing to approve"])
