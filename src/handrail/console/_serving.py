"""Make the console, and run it in uvicorn on an already bound socket."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from handrail import HandrailError
from handrail.console._config import ConsoleConfig, LoadRules

if TYPE_CHECKING:
    from handrail.console._application import Console
    from handrail.runs import Codec


def app(
    config: ConsoleConfig | None = None,
    *,
    runs: str,
    rules: LoadRules | None = None,
    codec: Codec | None = None,
) -> Console:
    """Return the console as an ASGI application.

    Args:
        config: Its setup. Default: a local console.
        runs: Where the runs are: a journal file, or a durable runs database (a file, or
            ``postgresql://...``).
        rules: Returns the current rules, for the rules page. Default: the files in
            ``config.rules``.
        codec: Opens the runs' texts, if they are sealed.
    """
    try:
        from handrail.console._application import Console
    except ModuleNotFoundError as error:
        raise HandrailError(
            f"The console needs {error.name}. Install it: `pip install 'handrail[console]'`."
        ) from error
    from handrail.console._store import Store

    return Console(config or ConsoleConfig(), Store(runs, codec), rules=rules)


async def serve(console: Console, listening: socket.socket) -> None:
    """Serve the console until the task is cancelled, or the process gets SIGINT or SIGTERM.

    Args:
        console: The console.
        listening: A bound socket: on loopback, or a Unix socket.
    """
    from handrail.console._guard import MAX_HEADER_BYTES
    from handrail.net import serve_app

    await serve_app(
        console, listening, before_shutdown=console.end_streams, max_header_bytes=MAX_HEADER_BYTES
    )
