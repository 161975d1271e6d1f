"""A gateway, for a process of its own. It tells its port.

Each service has its credentials from another kind of source. At SIGHUP, it reads `table.json` again, which has the tables.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import anyio
from mcp.server.auth.provider import AccessToken

from handrail import Allow, Executor
from handrail.credentials import (
    Credentials,
    CredentialSource,
    OAuthClient,
    PersonalLogin,
    TokenExchange,
    TokenStore,
)
from handrail.mcp import Effects, HttpServer, McpSource, Offer, Pins
from handrail.mcp.gateway import Upstreams
from handrail.mcp.server import bind, caller_token, http_app, make_server, serve_http

KEY = b"k" * 32


class People:
    """Accepts the tokens of the company's own sign-in."""

    async def verify_token(self, token: str) -> AccessToken | None:
        name = token.removeprefix("jwt-")
        return (
            AccessToken(token=token, client_id="company", subject=name, scopes=[])
            if name != token
            else None
        )


def make_sources(
    folder: Path, origin: str, count: int, store: TokenStore
) -> dict[str, CredentialSource]:
    tables = json.loads(folder.joinpath("table.json").read_text(encoding="utf-8"))
    client = OAuthClient(
        authorize_url=f"{origin}/authorize", token_url=f"{origin}/token", client_id="gateway"
    )
    found: dict[str, CredentialSource] = {}
    for number in range(count):
        name = f"s{number}"
        if number % 3 == 0:
            found[name] = tables[name]
        elif number % 3 == 1:
            found[name] = PersonalLogin(
                name, client, store=store, page_url="http://127.0.0.1/sign-in"
            )
        else:
            found[name] = TokenExchange(
                token_url=f"{origin}/token",
                client_id="gateway",
                subject=caller_token,
                audience=name,
            )
    return found


def main(folder: Path, origin: str, count: int, tell: Callable[[int], object]) -> None:
    """Serve until the process is killed."""
    anyio.run(_serve, folder, origin, count, tell)


async def _serve(folder: Path, origin: str, count: int, tell: Callable[[int], object]) -> None:
    store = TokenStore(folder / "tokens.db", keys=[KEY])
    credentials = Credentials(make_sources(folder, origin, count, store))
    offer = Offer(effects=Effects(reads=("whoami",), writes=("remember",)))
    sources = [
        McpSource(
            HttpServer(
                name=f"s{number}",
                url=f"{origin}/s{number}/mcp",
                headers={"Authorization": f"Bearer lister-s{number}"},
                personal=f"s{number}",
            ),
            offer=offer,
            pins=Pins(first_use=True),
            start_seconds=120,
        )
        for number in range(count)
    ]
    upstreams = Upstreams(sources, defer_over=1_000_000)
    executor = Executor(
        upstreams.registry,
        policy=lambda _: Allow(),
        call_found_by="call_tool",
        credentials=credentials,
    )
    listening = bind()
    listening.listen(2048)
    async with executor, upstreams.connect(executor), anyio.create_task_group() as tasks:
        await upstreams.wait_tried(240)
        app = http_app(make_server(executor, max_calls=4096), tokens=People(), resource_url=None)

        async def reload() -> None:
            with anyio.open_signal_receiver(signal.SIGHUP) as signals:
                async for _ in signals:
                    credentials.replace(make_sources(folder, origin, count, store))

        tasks.start_soon(reload)
        tell(listening.getsockname()[1])
        await serve_http(app, executor, listening)
