"""Principal, deps and metadata of calls from MCP clients, over HTTP and in this process."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.server.auth.provider import AccessToken
from mcp_types import ElicitResult

from handrail import (
    READ,
    Allow,
    Ask,
    CheckedCall,
    Context,
    Decision,
    DefinitionError,
    Deny,
    Executor,
    Toolset,
    tool,
)
from handrail.mcp.server import Caller, bind, http_app, make_server, serve_http, serve_stdio
from mcp_served.served import MODERN, answering, connect, require_asyncio, text_of

pytestmark = pytest.mark.anyio


class Shop:
    """What the tools use."""

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant


@tool(effect=READ)
def show(context: Context[Shop]) -> str:
    """Show what the call runs with."""
    return f"{context.principal} {context.deps.tenant} {dict(context.metadata)}"


@tool
def refund(context: Context[Shop]) -> str:
    """Refund an order."""
    return f"refunded by {context.principal} of {context.deps.tenant}"


def staff_only(call: CheckedCall) -> Decision:
    """Decide by the metadata."""
    if call.turn.metadata.get("role") != "staff":
        return Deny("Only staff.")
    return Allow() if call.spec.effect == READ else Ask("Refund it?")


class Verifier:
    """Knows two tokens of ada, which differ in their scope, and one of bob."""

    async def verify_token(self, token: str) -> AccessToken | None:
        who, _, scope = token.partition("-")
        claims = {"tenant": f"shop of {who}"}
        audience = "https://shop.example/mcp"
        return AccessToken(
            token=token,
            client_id="app",
            subject=who,
            scopes=[scope],
            claims=claims,
            resource=audience,
        )


def role_of(caller: Caller) -> dict[str, Any]:
    return {"role": "staff" if "admin" in caller.scopes else "guest"}


async def test_the_token_of_each_request_decides() -> None:
    """Also in the newer era, in which all requests of a principal share a session."""
    require_asyncio()
    opened: list[str] = []

    def open_shop(caller: Caller) -> Shop:
        opened.append(str(caller.claims["tenant"]))
        return Shop(opened[-1])

    executor = Executor(Toolset(show, refund), policy=staff_only)
    server = make_server(executor, deps=open_shop, metadata=role_of)
    app = http_app(server, tokens=Verifier(), resource_url="https://shop.example/mcp")
    listening = bind()
    listening.listen()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    texts: list[str] = []
    async with anyio.create_task_group() as group:
        group.start_soon(serve_http, app, executor, listening)
        for token in ("ada-admin", "ada-user", "ada-admin", "bob-admin"):
            options: Any = {"mode": MODERN, "elicitation_callback": answering("accept")}
            async with connect(url, token, **options) as client:
                texts += [text_of(await client.call_tool(name, {})) for name in ("show", "refund")]
        group.cancel_scope.cancel()

    assert [text.partition(" Do not")[0] for text in texts] == [
        "ada shop of ada {'role': 'staff'}",
        "refunded by ada of shop of ada",
        "Only staff.",
        "Only staff.",
        "ada shop of ada {'role': 'staff'}",
        "refunded by ada of shop of ada",
        "bob shop of bob {'role': 'staff'}",
        "refunded by bob of shop of bob",
    ]
    assert opened == ["shop of ada", "shop of ada", "shop of bob"]  # one for each scope of ada


async def test_values_are_those_of_all_clients() -> None:
    executor = Executor(Toolset(show), policy=staff_only)
    server = make_server(executor, deps=Shop("t1"), metadata={"role": "staff"})
    async with executor, Client(server) as client:
        text = text_of(await client.call_tool("show", {}))

    assert text == "None t1 {'role': 'staff'}"


async def test_a_server_of_tools_that_need_deps_is_not_made_without_any() -> None:
    async def find_shop(_: Caller) -> Shop:
        raise AssertionError

    executor = Executor(Toolset(show))
    said = r"'show' takes Context\[Shop\], but there are no deps\. Pass `deps=` to `make_server`"
    with pytest.raises(DefinitionError, match=said):
        make_server(executor)
    with pytest.raises(DefinitionError, match=said):
        await serve_stdio(executor)
    with pytest.raises(TypeError, match="deps= must not be an `async def` function"):
        make_server(executor, deps=find_shop)


async def test_no_token_gets_what_another_token_of_the_same_user_has() -> None:
    """Neither its deps, nor an approval of its session."""
    require_asyncio()

    @tool
    def wipe(context: Context[Shop]) -> str:
        """Wipe the shop."""
        return f"wiped {context.deps.tenant}"

    def open_shop(caller: Caller) -> Shop:
        return Shop(",".join(caller.scopes))

    def asks(call: CheckedCall) -> Decision:
        return Allow() if call.spec.effect == READ else Ask("Wipe it?")

    executor = Executor(Toolset(show, wipe), policy=asks)
    server = make_server(executor, deps=open_shop)
    app = http_app(server, tokens=Verifier(), resource_url="https://shop.example/mcp")
    listening = bind()
    listening.listen()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    shown, states = list[str](), list[Any]()
    yes = {"approval": ElicitResult(action="accept")}
    options: Any = {"mode": MODERN, "elicitation_callback": answering("accept")}

    async def answer(client: Client, state: Any) -> Any:
        more: Any = {"request_state": state, "input_responses": yes}
        return await client.session.call_tool("wipe", {}, allow_input_required=True, **more)

    async with anyio.create_task_group() as group:
        group.start_soon(serve_http, app, executor, listening)
        for token in ("ada-test", "ada-production"):
            async with connect(url, token, **options) as client:
                shown.append(text_of(await client.call_tool("show", {})))
                asked: Any = await client.session.call_tool("wipe", {}, allow_input_required=True)
                states.append(asked.request_state)
        async with connect(url, "ada-production", **options) as client:
            answers = [text_of(await answer(client, state)) for state in states]
        group.cancel_scope.cancel()

    assert shown == ["ada test {}", "ada production {}"]
    assert answers == [
        "Not run: this answer is to a question of a session with other permissions. Call again.",
        "wiped production",
    ]
