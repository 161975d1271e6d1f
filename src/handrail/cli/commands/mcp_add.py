"""`handrail mcp add`."""

from __future__ import annotations

from typing import Any

import click

from handrail import HandrailError
from handrail.cli._base.app import App, as_command
from handrail.cli._base.exits import Halt
from handrail.cli._project.servers import catalogue


@as_command("add", "Add an MCP server to your own list.")
@click.argument("name", help="Name of the server.")
@click.argument("words", metavar="[COMMAND...]", nargs=-1, help="The command, after `--`.")
@click.option("--url", help="Address of a server that is reached by HTTP.")
@click.option("--env", multiple=True, metavar="NAME", help="Pass a variable. Repeatable.")
@click.option("--host", multiple=True, help="Let the server connect to HOST. Repeatable.")
@click.option("--reads", multiple=True, metavar="PATTERN", help="Tools that only read. Repeatable.")
@click.option("--no-sandbox", is_flag=True, help="Start it without the sandbox.")
def command(app: App, name: str, words: tuple[str, ...], **options: Any) -> None:
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
