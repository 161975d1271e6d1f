"""A company in a test: its services in another process, and a browser of a person."""

from __future__ import annotations

import multiprocessing
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from credentials import services
from handrail import Allow, Executor
from handrail.credentials import Credentials, LoginPages, PersonalLogin, TokenStore
from handrail.mcp import Effects, HttpServer, McpSource, Offer, Pins, discover_client
from handrail.mcp.gateway import Upstreams
from handrail.mcp.server import bind, find_holder, http_app, make_server, serve_http

KEY = b"k" * 32
TOKENS = {f"token-of-{name}-here": name for name in ("alice", "bob", "mallory")}
PATIENCE = 60


@dataclass
class Services:
    """The running services."""

    origin: str

    def url(self, name: str) -> str:
        return f"{self.origin}/{name}/mcp"

    def server(self, name: str, **options: Any) -> HttpServer:
        headers = {"Authorization": f"Bearer lister-{name}"}
        return HttpServer(
            name=name, url=self.url(name), headers=headers, **{"personal": name, **options}
        )

    def control(self, **change: Any) -> Any:
        """Change what the services do, and return what they have seen."""
        return httpx2.post(f"{self.origin}/control", json=change).json()


_COPIES = multiprocessing.get_context("forkserver")
_LOADED = (
    *("handrail.credentials._store", "handrail.credentials.logins", "handrail.mcp._client.source"),
    *("handrail.mcp.gateway", "handrail.mcp.server", "mcp.server.mcpserver", "uvicorn"),
)
_COPIES.set_forkserver_preload([*_LOADED])


def start_process(main: Callable[..., None], *args: Any) -> tuple[Any, Connection]:
    """Run a function in a copy of a process that has loaded these modules, and what it tells."""
    told, tells = _COPIES.Pipe(duplex=False)
    process = _COPIES.Process(target=main, args=(*args, tells.send), daemon=True)
    process.start()
    tells.close()
    return process, told


@contextmanager
def running_services(count: int = 2) -> Iterator[Services]:
    process, told = start_process(services.main, count)
    try:
        yield Services(f"http://127.0.0.1:{told.recv()}")
    finally:
        process.kill()
        process.join()


@dataclass
class Front:
    """A gateway whose people sign in at a service."""

    origin: str
    login: PersonalLogin
    store: TokenStore
    executor: Executor
    find_client: Any

    @asynccontextmanager
    async def client(self, name: str, **options: Any) -> AsyncIterator[Client]:
        token = next(token for token, one in TOKENS.items() if one == name)
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http:
            transport = streamable_http_client(f"{self.origin}/mcp", http_client=http)
            async with Client(transport, **{"mode": "legacy", **options}) as client:
                yield client


@asynccontextmanager
async def fronting(services: Services, folder: Path, **options: Any) -> AsyncIterator[Front]:
    """A gateway to the service `s0`."""
    listening = bind()
    listening.listen()
    origin = f"http://127.0.0.1:{listening.getsockname()[1]}"
    page = f"{origin}/sign-in"
    store = TokenStore(folder / "tokens.db", keys=[KEY])
    client = discover_client("s0", services.url("s0"), store=store, page_url=page)
    login = PersonalLogin("s0", client, store=store, page_url=page, **options)

    async def find(token: str) -> str | None:
        return await find_holder(TOKENS, token)

    pages = LoginPages([login], key=KEY, find_principal=find)
    offer = Offer(effects=Effects(reads=("whoami",), writes=("remember",)))
    upstreams = Upstreams(
        [McpSource(services.server("s0"), offer=offer, pins=Pins(first_use=True))]
    )
    executor = Executor(
        upstreams.registry,
        policy=lambda _: Allow(),
        call_found_by="call_tool",
        credentials=Credentials({"s0": login}),
    )
    async with executor, upstreams.connect(executor), anyio.create_task_group() as tasks:
        await upstreams.wait_tried(PATIENCE)
        app = pages.around(http_app(make_server(executor), tokens=TOKENS))
        tasks.start_soon(serve_http, app, executor, listening)
        yield Front(origin, login, store, executor, client)
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def browser(services: Services, person: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser in which a person is signed in at the authorization server."""
    async with httpx2.AsyncClient(follow_redirects=True, timeout=PATIENCE) as made:
        made.cookies.set("person", person, domain="127.0.0.1")
        yield made


def text_of(result: Any) -> str:
    return "\n".join(part.text for part in result.content if part.type == "text")
