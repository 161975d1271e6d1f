"""`handrail console`."""

from __future__ import annotations

import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from handrail.cli._base.app import App, as_command
from handrail.cli._base.exits import CONSOLE_PACKAGES, Halt, need_packages
from handrail.cli._base.options import DATABASE
from handrail.cli._base.settings import runs_folder
from handrail.cli._base.signals import run_alone
from handrail.cli._project.kit import Kit
from handrail.cli._runs.stores import load_codec

if TYPE_CHECKING:
    from handrail.console import Console


@as_command("console", "Answer approval requests and read runs in a browser.", DATABASE)
@click.option("--port", default=8765, show_default=True, help="Port on 127.0.0.1; 0: a free one.")
@click.option(
    "--runs",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File of a journal (default: the journal of your runs).",
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="console.toml: a proxy or a provider, groups, hosts.",
)
@click.option(
    "--socket",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Listen on a Unix socket, for a proxy on this machine.",
)
def command(
    app: App, *, port: int, runs: Path | None, config: Path | None, path: Path | None
) -> None:
    """Answer approval requests and read runs in a browser, until you stop it with Ctrl-C.

    Without --config it listens on this machine only, and prints a link that works once, within 60
    seconds. With --config a proxy or a provider says who a person is: see the page on the console.
    """
    need_packages("the console", *CONSOLE_PACKAGES, extra="console")
    console = _make(app, runs, config)
    if console.needs_socket and path is None:
        hint = "pass --socket, or share a secret with the proxy"
        raise Halt("a plain header needs a Unix socket", code="config", hint=hint)
    from handrail.console import serve

    with _listen(port, path) as listening:
        _announce(app, console, listening)
        run_alone(partial(serve, console, listening))


def _make(app: App, runs: Path | None, config: Path | None) -> Console:
    from handrail.console import ConsoleError, read_config
    from handrail.console import app as make_console

    database = app.settings["database"]
    where = str(database or runs or runs_folder() / "journal.db")
    codec = load_codec(app) if database else None
    try:
        if config is not None:
            return make_console(read_config(config), runs=where, codec=codec)
        return make_console(runs=where, rules=Kit(app).load_rules, codec=codec)
    except ConsoleError as error:
        raise Halt(str(error), code="config") from None


def _listen(port: int, path: Path | None) -> socket.socket:
    """Return a loopback or file system socket. The console never listens elsewhere."""
    listening = socket.socket(socket.AF_INET if path is None else socket.AF_UNIX)
    try:
        if path is None:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(("127.0.0.1", port))
        else:
            path.unlink(missing_ok=True)
            listening.bind(str(path))
            path.chmod(0o660)
        listening.listen()
    except OSError as error:
        listening.close()
        message = f"cannot listen on {path or f'127.0.0.1:{port}'}: {error.strerror}"
        raise Halt(message, code="usage", hint="use another port, or 0 for a free one") from None
    return listening


def _announce(app: App, console: Console, listening: socket.socket) -> None:
    if console.config.identity is not None:
        app.print({"url": None}, ["the console is running"])
        return
    port: int = listening.getsockname()[1]
    url = f"http://127.0.0.1:{port}{console.make_link()}"
    app.print({"url": url}, [f"open {url}"])
    app.say("the link works once, within 60 seconds; stop the console with Ctrl-C")
