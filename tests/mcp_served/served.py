"""Tools to serve, and servers of them: in this process, over stdio and over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import httpx2
import pytest
import sniffio
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from handrail import (
    DESTROY,
    READ,
    Access,
    Allow,
    Ask,
    CheckedCall,
    Context,
    Decision,
    Deny,
    Executor,
    File,
    Image,
    Toolset,
    tool,
)
from handrail.mcp.server import bind, http_app, make_server, serve_http

MODERN = "2026-07-28"
TOKENS = {"t-alice": "alice", "t-bob": "bob"}


class Notes:
    """Tools with a memory, so that tests see what happened."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.open = anyio.Event()
        self.go = anyio.Event()

    def tools(self) -> Toolset:
        said = self.said

        @tool(effect=READ, touches=lambda key="a": Access("read", f"note:{key}"))
        def read_note(key: str = "a") -> str:
            """Read a note.

            Args:
                key: Which note.
            """
            return f"{key}: {','.join(said)}"

        @tool(touches=lambda key="a", **_: Access("write", f"note:{key}"))
        def add_note(text: str, key: str = "a") -> dict[str, Any]:
            """Add a note.

            Args:
                text: What to note.
                key: Which note.
            """
            said.append(text)
            return {"count": len(said)}

        @tool(effect=DESTROY, idempotent=True)
        def drop_notes() -> str:
            """Drop all notes."""
            said.clear()
            return "dropped"

        @tool(effect=READ)
        async def wait_here(context: Context) -> str:
            """Wait until the test says so."""
            context.progress("waiting", 0.5)
            context.progress("still")
            self.open.set()
            await self.go.wait()
            return f"waited for {context.principal}"

        @tool(effect=READ)
        def show_parts() -> list[str | Image | File]:
            """Show an image and a file."""
            return ["see", Image(b"\x89"), File(b"%PDF", "application/pdf", "a b.pdf")]

        @tool(effect=READ)
        def break_down() -> str:
            """Fail with a bug."""
            raise RuntimeError("/home/secret/path")

        return Toolset(read_note, add_note, drop_notes, wait_here, show_parts, break_down)


def policy(call: CheckedCall) -> Decision:
    if call.spec.name == "drop_notes":
        return Deny("never")
    return Ask("Add it?") if call.spec.name == "add_note" else Allow()


def executor(notes: Notes, **options: Any) -> Executor:
    return Executor(notes.tools(), **{"policy": policy, **options})


def answering(*actions: str, seen: list[str] | None = None) -> Any:
    """An elicitation callback that gives these answers, the last one again and again."""
    from mcp_types import ElicitResult

    left = list(actions)

    async def answer(_context: Any, params: Any) -> Any:
        if seen is not None:
            seen.append(params.message)
        await anyio.lowlevel.checkpoint()
        return ElicitResult(action=left.pop(0) if len(left) > 1 else left[0])  # type: ignore[arg-type]

    return answer


def require_asyncio(why: str = "uvicorn needs asyncio") -> None:
    """Skip a test on trio. By default, because the server of HTTP needs asyncio."""
    if sniffio.current_async_library() != "asyncio":
        pytest.skip(why)


@asynccontextmanager
async def over_http(  # noqa: PLR0913  each has a default
    made: Executor,
    *,
    tokens: Any = TOKENS,
    around: Any = None,
    keys: Any = (),
    rules_of: Any = None,
    metrics: Any = None,
    given: Any = None,
    **options: Any,
) -> AsyncIterator[str]:
    """A real server on a free port of this machine: its URL."""
    require_asyncio()
    server = make_server(made, keys=keys, rules_of=rules_of, metrics=metrics, **(given or {}))
    app: Any = http_app(server, tokens=tokens, **options)
    app = app if around is None else around(app)
    listening = bind()
    listening.listen()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    async with anyio.create_task_group() as group:
        group.start_soon(serve_http, app, made, listening)
        yield url
        group.cancel_scope.cancel()


@asynccontextmanager
async def connect(
    url: str, token: str = "t-alice", *, sent: Any = (), **options: Any
) -> AsyncIterator[Client]:
    """The official client, with a bearer token and the headers that are to be sent too."""
    headers = {"Authorization": f"Bearer {token}", **dict(sent)}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, **options) as client:
            yield client


def text_of(result: Any) -> str:
    return "\n".join(part.text for part in result.content if part.type == "text")


@contextmanager
def speaking(name: str) -> Iterator[None]:
    """Calls of a client in this process are those of a principal."""
    token = AccessToken(token="", client_id=name, subject=name, scopes=[])
    before = auth_context_var.set(AuthenticatedUser(token))
    try:
        yield
    finally:
        auth_context_var.reset(before)


async def call_as(name: str, client: Client, tool_name: str, **arguments: Any) -> str:
    """What a principal gets."""
    with speaking(name):
        return text_of(await client.call_tool(tool_name, arguments))
