"""`handrail serve`."""

from __future__ import annotations

import importlib.util
import os
import secrets
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio
import click

from handrail._support.private_files import read_private_file
from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import quantity
from handrail.cli._base.exits import Halt
from handrail.cli._base.options import TOOL_OPTIONS
from handrail.cli._base.reloading import keep_reloaded
from handrail.cli._base.signals import run_alone
from handrail.cli._project.kit import Kit
from handrail.cli._project.principals import MIN_TOKEN_CHARS, Principal, read_principals
from handrail.cli._runs.served import FIRST_LIST_SECONDS, Served

TOKEN = "HANDRAIL_SERVE_TOKEN"  # noqa: S105  the name of a variable
_MIN_KEY_BYTES = 32


@as_command("serve", "Serve tools, or many MCP servers, to MCP clients.", *TOOL_OPTIONS)
@click.option(
    "--mcp",
    "configs",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Be a gateway to the MCP servers of this file. Repeatable.",
)
@click.option("--http", metavar="HOST:PORT", help="Serve over HTTP (default: over stdio).")
@click.option(
    "--principals",
    type=click.Path(dir_okay=False, path_type=Path),
    help="TOML file with the users: their tokens, rules and limits.",
)
@click.option("--host", "hosts", multiple=True, help="Accept this Host header too. Repeatable.")
@click.option("--origin", "origins", multiple=True, help="Accept this Origin too. Repeatable.")
@click.option(
    "--key-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with a key of at least 32 bytes that several processes share.",
)
@click.option(
    "--first-use",
    is_flag=True,
    help="Approve the tools of a new MCP server when they are first seen.",
)
@click.option("--telemetry", is_flag=True, help="Record spans and metrics with OpenTelemetry.")
def command(  # noqa: PLR0913  each is an option with a default
    app: App,
    *,
    configs: tuple[Path, ...],
    http: str | None,
    principals: Path | None,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    key_file: Path | None,
    first_use: bool,
    telemetry: bool,
) -> None:
    """Serve tools to MCP clients until the client leaves or the process is stopped.

    Every call is validated and checked against the rules. If it needs approval, the client asks
    its user. Every call is recorded: see `handrail runs show`.

    Over HTTP a client needs a token: one of --principals, the one in HANDRAIL_SERVE_TOKEN, or a
    new one that is shown at the start.

    Over HTTP, changed files of servers, users and rules take effect while it runs, without ending
    calls; SIGHUP reads them again at once.

    With --mcp, the tools are those of other MCP servers, and with --tools also your own. A server
    must be reviewed first (`handrail mcp review`), unless you pass --first-use.
    """
    if importlib.util.find_spec("mcp") is None:
        hint = "install it: pip install 'handrail[mcp]'"
        raise Halt("serving needs the package `mcp`", code="extra", hint=hint)
    place = None if http is None else _read_place(http)
    kit = Kit(app, servers=not configs)
    users = _find_principals(app, kit, principals) if place else ()
    served = Served(
        kit=kit,
        configs=configs,
        principals=users,
        principals_file=principals if place else None,
        keys=_read_keys(key_file),
        first_use=first_use,
        telemetry=telemetry,
    )
    _ = served.executor  # errors in settings, rules and files are reported before the start
    if place is None:
        run_alone(partial(_serve_stdio, app, served))
    else:
        run_alone(partial(_serve_http, app, served, place, (hosts, origins)))


async def _serve_stdio(app: App, served: Served) -> None:
    from handrail.mcp.server import serve_stdio

    async with served.running():
        if served.upstreams is not None and served.first_use:
            await served.upstreams.wait_tried(FIRST_LIST_SECONDS)
        app.say(f"serving over stdio; see `handrail runs show {served.saved.id}`")
        await serve_stdio(served.executor)


async def _serve_http(
    app: App,
    served: Served,
    place: tuple[str, int],
    accepted: tuple[Sequence[str], Sequence[str]],
) -> None:
    from handrail.mcp.server import bind, serve_http

    try:
        listening = bind(*place)
    except OSError as error:
        message = f"cannot listen on {place[0]}:{place[1]}: {error.strerror}"
        raise Halt(message, code="usage", hint="use another port, or 0 for a free one") from None
    async with served.running():
        host = f"[{place[0]}]" if ":" in place[0] else place[0]
        url = f"http://{host}:{listening.getsockname()[1]}/mcp"
        document = {"url": url, "run": served.saved.id, "principals": len(served.principals)}
        users = quantity(len(served.principals), "user")
        app.print(document, [f"serving at {url}, to {users}, run {served.saved.id}"])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep_reloaded, served.list_watched, served.reload)
            await serve_http(served.make_app(*accepted), served.executor, listening)
            tasks.cancel_scope.cancel()


def _find_principals(app: App, kit: Kit, file: Path | None) -> tuple[Principal, ...]:
    if file is not None:
        return read_principals(file, kit)
    token = os.environ.get(TOKEN, "")
    if not token:
        token = secrets.token_urlsafe(32)
        app.say(f"the token is {token}")
    if len(token) < MIN_TOKEN_CHARS:
        raise Halt(f"{TOKEN} has less than {MIN_TOKEN_CHARS} characters", code="config")
    return (Principal(name="user", token=token, metrics=True),)


def _read_keys(file: Path | None) -> tuple[bytes, ...]:
    if file is None:
        return ()
    try:
        key, others_can_write = read_private_file(file)
    except OSError as error:
        raise Halt(f"cannot read {file}: {error.strerror}", code="config") from None
    if others_can_write or len(key.strip()) < _MIN_KEY_BYTES:
        hint = "create it with `(umask 077; openssl rand -hex 32 > FILE)`"
        message = f"{file} must have at least {_MIN_KEY_BYTES} bytes, and only you may write it"
        raise Halt(message, code="config", hint=hint)
    return (key.strip(),)


def _read_place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal():
        raise Halt(f"--http {text!r} is not HOST:PORT", code="usage", hint="such as 127.0.0.1:8000")
    return host, int(port)
