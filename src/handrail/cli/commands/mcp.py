"""`handrail mcp`: add, list, show, review, test and remove MCP servers."""

from __future__ import annotations

import json
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from handrail import HandrailError
from handrail.approvals import make_printable
from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import columns, quantity
from handrail.cli._base.exits import Exit, Halt
from handrail.cli._base.printable import one_line
from handrail.cli._base.signals import run_alone
from handrail.cli._project.servers import (
    catalogue,
    describe,
    describe_rights,
    document,
    find_configured,
    get_server,
    pins_of,
    source_of,
    visit,
)

if TYPE_CHECKING:
    from handrail.mcp import ChangedTool, McpSource, ServerConfig


_MARGIN = "  │ "
_MAX_INDENT = 24
"""Characters shown at a line's start; a longer row of spaces is described."""


@as_command("add", "Add an MCP server to your own list.")
@click.argument("name", help="Name of the server.")
@click.argument("words", metavar="[COMMAND...]", nargs=-1, help="The command, after `--`.")
@click.option("--url", help="Address of a server that is reached by HTTP.")
@click.option("--env", multiple=True, metavar="NAME", help="Pass a variable. Repeatable.")
@click.option("--host", multiple=True, help="Let the server connect to HOST. Repeatable.")
@click.option("--reads", multiple=True, metavar="PATTERN", help="Tools that only read. Repeatable.")
@click.option("--no-sandbox", is_flag=True, help="Start it without the sandbox.")
def add_server(app: App, name: str, words: tuple[str, ...], **options: Any) -> None:
    """Add an MCP server to your own list: a command, or an address.

    Nothing starts. Its tools are offered after `handrail mcp review NAME`.
    """
    from handrail.mcp import read_entry, store_entry

    if bool(words) == bool(options["url"]):
        hint = "`handrail mcp add NAME -- COMMAND...` or `handrail mcp add NAME --url URL`"
        raise Halt("pass either a command or `--url`", code="usage", hint=hint)
    entry = _make_entry(words, options)
    file = catalogue(app)
    try:
        read_entry(name, entry, dict.fromkeys(options["env"], "x"), str(app.workspace))
        replaced = store_entry(file, name, entry)
    except HandrailError as error:
        raise Halt(str(error), code="usage", hint="see `handrail mcp add --help`") from None
    line = f"{'replaced' if replaced else 'added'} {name} in {file}"
    app.print({"name": name, "file": str(file), "replaced": replaced}, [line])
    app.say(f"review its tools: `handrail mcp review {name}`")


def _make_entry(words: tuple[str, ...], options: dict[str, Any]) -> dict[str, Any]:
    reads = {"reads": list(options["reads"])} if options["reads"] else {}
    if options["url"]:
        return {"type": "http", "url": options["url"], **reads}
    entry: dict[str, Any] = {"type": "stdio", "command": words[0], "args": list(words[1:]), **reads}
    if options["env"]:
        entry["env"] = {name: f"${{{name}}}" for name in options["env"]}
    if options["host"]:
        entry["hosts"] = list(options["host"])
    if options["no_sandbox"]:
        entry["sandbox"] = False
    return entry


@as_command("list", "List MCP servers, and which are reviewed.")
def list_servers(app: App) -> None:
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


@as_command("show", "Show an MCP server and its approved tools.")
@click.argument("name", help="Name of the server.")
def show_server(app: App, name: str) -> None:
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
    app.print(whole, _describe_server(whole))


def _describe_server(whole: Mapping[str, Any]) -> Iterator[str]:
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


@as_command("review", "Review the tools of an MCP server, and approve them.")
@click.argument("name", help="Name of the server.")
@click.option("--yes", is_flag=True, help="Approve without a prompt.")
@click.option(
    "--mcp",
    "config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File that names the server (default: your list and the workspace's files).",
)
def review_server(app: App, name: str, *, yes: bool, config: Path | None) -> Exit:
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
    for line in _show_changes(source, found):
        app.say(line)
    proposed = propose_effects(source.definitions, found.offer.effects)
    for line in _show_proposal(name, proposed):
        app.say(line)
    waiting = source.changes
    approved = bool(waiting) and (yes or _ask(len(waiting)))
    if approved or not source.definitions:
        source.approve()
    _print_review(app, name, waiting, approved=approved)
    return Exit.DENIED if waiting and not approved else Exit.DONE


def _show_changes(source: McpSource, config: ServerConfig) -> Iterator[str]:
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


def _show_proposal(name: str, proposed: dict[str, list[str]]) -> Iterator[str]:
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


def _print_review(app: App, name: str, waiting: tuple[ChangedTool, ...], *, approved: bool) -> None:
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


@as_command("test", "Start an MCP server and list its tools.")
@click.argument("name", help="Name of the server.")
def test_server(app: App, name: str) -> Exit:
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


@as_command("remove", "Remove an MCP server, and forget its approvals.")
@click.argument("name", help="Name of the server.")
def remove_server(app: App, name: str) -> None:
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
