"""Doors to other processes: served tools over MCP, a gateway, and tools of an HTTP service."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp_types import ElicitResult
from starlette.types import ASGIApp

from handrail import (
    READ,
    Allow,
    Ask,
    Call,
    CallLimits,
    Context,
    Deny,
    Executor,
    Image,
    LongResults,
    Result,
    Retry,
    Toolset,
    Turn,
)
from handrail.approvals import callback
from handrail.events import Yielded
from handrail.mcp import Effects, HttpServer, McpSource, Offer
from handrail.mcp.gateway import Upstreams
from handrail.mcp.server import Caller, make_server
from handrail.openapi import tools as openapi_tools
from handrail.permissions import Edit
from joints.agent_doors import run_agent
from joints.case import PATIENCE, Case, Door, Seen, Shown
from mcp_served.served import MODERN, connect, over_http
from unframed import UNFRAMED

_ACTIONS = {Allow: "accept", Deny: "decline", Edit: "accept"}


def _asking(case: Case) -> dict[str, Any]:
    """What the client's user says. In the older era, a client has a session."""
    left = list(case.answers)

    async def answer(_context: Any, _params: Any) -> ElicitResult:
        await anyio.lowlevel.checkpoint()
        given = left.pop(0)
        content: Any = dict(given.args) if isinstance(given, Edit) else None
        return ElicitResult(action=_ACTIONS[type(given)], content=content)

    asks = {"elicitation_callback": answer} if left and not _changes(case) else {}
    return {"mode": "legacy" if case.needs_session else MODERN, **asks}


def _changes(case: Case) -> bool:
    """Return whether a person changes arguments, as only the server's own approver can."""
    return not case.asks_inside and any(isinstance(one, Edit) for one in case.answers)


async def _use(client: Client, case: Case, seen: Seen, prefix: str = "") -> Seen:
    """Send the calls, each after the result of the one before."""
    await client.list_tools()

    async def send(call: Call) -> None:
        async def hear(fraction: float, total: float | None, message: str | None) -> None:
            if total is None:
                seen.yielded.append(message or "")
            else:
                seen.progress.append((message or "", fraction))

        name = call.name if call.name == "read_result" else f"{prefix}{call.name}"
        args = json.loads(call.args) if isinstance(call.args, str) else dict(call.args)
        if call.name == "read_result":  # a server names calls itself
            [args["call_id"]] = re.findall(r'call_id="(.+?)"', seen.results["c1"].text)
        with case.inside():
            answer = await client.call_tool(name, args, progress_callback=hear)
        texts = [part.text for part in answer.content if part.type == "text"]
        images = sum(part.type == "image" for part in answer.content)
        seen.results[call.id] = Shown("\n".join(texts), bool(answer.is_error), images)

    with anyio.fail_after(PATIENCE):
        for calls in case.replies:
            for call in calls:
                await send(call)
    return seen


def _executor(case: Case, tools: Any = None, **options: Any) -> Executor:
    options |= case.options
    if _changes(case):
        left = list(case.answers)
        options["approvals"] = callback(lambda _: left.pop(0))
    return Executor(Toolset(*case.tools) if tools is None else tools, **options)


def _listen(seen: Seen) -> Callable[[ASGIApp], ASGIApp]:
    """Return a middleware of the application, which hears of calls."""

    def around(app: ASGIApp) -> ASGIApp:
        async def middleware(scope: Any, receive: Any, send: Any) -> None:
            if dict(scope.get("headers", ())).get(b"mcp-method") == b"tools/call":
                seen.host.append("call")
            await app(scope, receive, send)
            if "call" in seen.host:
                seen.host.append("result")

        return middleware

    return around


def _given(case: Case) -> dict[str, Any]:
    """The options of a server whose clients have tokens, which say who calls."""
    given = {name: value for name, value in case.turn.items() if name != "principal"}
    return {**given, "said": _said(case)}


def _said(case: Case) -> Callable[[Caller], list[str]]:
    """What the application knows that a caller's user wrote."""

    def say(_caller: Caller) -> list[str]:
        return [case.prompt]

    return say


def _find_own(found: Any) -> list[str]:
    """Return the values that the tool's type marks as its own system's."""
    return list(found["result"] if isinstance(found, dict) else found)


async def serve_here(case: Case) -> Seen:
    """A client and a server in this process."""
    seen = Seen()

    async def hear(request: Any, call_next: Any) -> Any:
        if request.method == "tools/call":
            seen.host.append("call")
        result = await call_next(request)
        if "call" in seen.host:
            seen.host.append("result")
        return result

    async with _executor(case) as executor:
        server = make_server(executor, said=_said(case), **case.turn)
        server.middleware.append(hear)
        async with Client(server, **_asking(case)) as client:
            return await _use(client, case, seen)


async def serve_http(case: Case) -> Seen:
    """A client and a server with a socket between them."""
    seen = Seen()
    async with (
        _executor(case) as executor,
        over_http(executor, given=_given(case), around=_listen(seen)) as url,
        connect(url, **_asking(case)) as client,
    ):
        return await _use(client, case, seen)


async def use_gateway(case: Case) -> Seen:
    """A gateway in front of a server with a socket between them. The gateway has the options.

    If the tool asks while it runs, or reads that it is approved, the server behind it has them,
    and the gateway passes the question on. If it needs a credential, both have them, and the
    gateway calls the server with that of the caller.

    The server behind it truncates nothing, as most servers do.
    """
    seen, reads = Seen(), tuple(tool.spec.name for tool in case.tools if tool.spec.effect is READ)
    asks = tuple(tool.spec.name for tool in case.tools if tool.spec.effect is not READ)
    async with AsyncExitStack() as stack:
        has_credentials = "credentials" in case.options
        is_behind = case.asks_inside or case.reads_approval or has_credentials
        asks_behind = case.options if is_behind else {}
        whole = LongResults(max_result_chars=100_000)
        behind = Executor(Toolset(*case.tools), long_results=whole, **asks_behind)
        upstream = await stack.enter_async_context(behind)
        url = await stack.enter_async_context(over_http(upstream, given=_given(case)))
        personal = {"personal": "tracker"} if has_credentials else {}
        headers = {"Authorization": "Bearer t-alice"}
        server = HttpServer(name="up", url=url, headers=headers, **personal)
        effects = Effects(reads=reads, writes=asks)
        own = {name: _find_own for name in asks + reads if name == "list_colleagues"}
        offer = Offer(effects=effects, own=own)
        upstreams = Upstreams([McpSource(server, offer=offer)], defer_over=10_000)
        shared = case.options if has_credentials else {}
        front = replace(case, options=shared) if is_behind else case
        made = _executor(front, upstreams.registry, policy=lambda _: Allow())
        executor = await stack.enter_async_context(made)
        await stack.enter_async_context(upstreams.connect(executor))
        await upstreams.wait_tried(PATIENCE)
        outer = over_http(executor, given=_given(case), around=_listen(seen))
        own_url = await stack.enter_async_context(outer)
        client = await stack.enter_async_context(connect(own_url, **_asking(case)))
        return await _use(client, case, seen, "mcp__up__")


_LIMITS = CallLimits(retry=Retry(attempts=3, base=0.001, cap=0.001))


async def use_service(case: Case) -> Seen:
    """An agent with tools from the OpenAPI document of a service that runs the tools of the case.

    The credentials of each request say what the call runs with, as a token with claims does.
    """
    given = [
        replace(one, spec=replace(one.spec, retry=None, timeout=None, needs_approval=False))
        for one in case.tools
    ]
    service = Executor(
        Toolset(*given),
        long_results=LongResults(max_result_chars=100_000),
        policy=lambda call: Ask("May it?") if call.turn.metadata.get("approved") else Allow(),
        approvals=callback(lambda one: Deny("expired") if one.kind == "login" else Allow()),
        credentials=lambda _name, context, _refused: str(context.metadata["token"]),
    )

    async def answer(request: httpx2.Request) -> httpx2.Response:
        claims = json.loads(request.headers["authorization"].removeprefix("Bearer "))
        name = request.url.path.removeprefix("/")
        schema = next(tool for tool in case.tools if tool.spec.name == name).spec.input_schema
        kinds = schema.get("properties", {})
        args = {
            key: int(value) if kinds[key].get("type") == "integer" else value
            for key, value in request.url.params.items()
        }
        turn, call = service.turn(**claims), Call(name, args, "s1")
        if inspect.isasyncgenfunction(service.tools[name].fn):
            return _stream(turn, call)
        return _respond(await service.run(call, turn=turn))

    document = {
        "openapi": "3.1.0",
        "info": {"title": "Service", "version": "1"},
        "servers": [{"url": "https://service.test"}],
        "paths": {f"/{tool.spec.name}": _operation(tool) for tool in case.tools},
        "components": {"securitySchemes": {"user": {"type": "http", "scheme": "bearer"}}},
        "security": [{"user": []}],
    }
    heard, given_client = list[str](), {"transport": httpx2.MockTransport(answer)}

    async def sent(_request: httpx2.Request) -> None:
        heard.append("call")

    async def received(_response: httpx2.Response) -> None:
        heard.append("result")

    hooks: Any = {"request": [sent], "response": [received]}
    async with service, httpx2.AsyncClient(**given_client, event_hooks=hooks) as client:
        timeout = min([one.spec.timeout for one in case.tools if one.spec.timeout], default=None)
        own = {one.spec.name: _find_own for one in case.tools if one.spec.name == "list_colleagues"}
        claims = partial(_claims, has_token="credentials" in case.options)
        given_tools: dict[str, Any] = {"timeout": timeout, "own": own}
        made = openapi_tools(document, client, credentials={"user": claims}, **given_tools)
        hooked = {**case.options, "hooks": [*case.options.get("hooks", ()), *UNFRAMED]}
        options = {"limits": _LIMITS, **hooked}
        asking = {one.spec.name: one.spec.needs_approval for one in case.tools}
        tools = [
            replace(one, spec=replace(one.spec, needs_approval=asking[one.spec.name]))
            for one in made
        ]
        seen = await run_agent(replace(case, tools=tuple(tools), options=options))
        streamed = [words for words, fraction in seen.progress if fraction is None]
        return replace(seen, host=heard, yielded=streamed)


async def _claims(context: Context[Any], *, has_token: bool) -> str:
    approved = {"approved": True} if context.is_approved else {}
    token = {"token": await context.credential("tracker")} if has_token else {}
    metadata = {**context.metadata, **approved, **token}
    turn = {"principal": context.principal, "deps": context.deps, "metadata": metadata}
    return json.dumps(turn)


def _operation(tool: Any) -> dict[str, Any]:
    schema = tool.spec.input_schema
    parameters = [
        {"name": name, "in": "query", "schema": one, "required": name in schema.get("required", ())}
        for name, one in schema.get("properties", {}).items()
    ]
    method = "get" if tool.spec.effect is READ else "post"
    about = {"operationId": tool.spec.name, "summary": tool.spec.description}
    return {
        method: {**about, "parameters": parameters, "responses": {"200": {"description": "ok"}}}
    }


def _stream(turn: Turn[Any], call: Call) -> httpx2.Response:
    async def pieces() -> AsyncIterator[bytes]:
        feed = turn.events(call.id)
        turn.add(call)
        async for event in feed:
            if isinstance(event, Yielded):
                yield event.text.encode()

    return httpx2.Response(200, headers={"content-type": "text/plain"}, content=pieces())


_STATUSES = {"busy": 503, "expired": 401}


def _respond(result: Result) -> httpx2.Response:
    for part in result.parts:
        if isinstance(part, Image):
            return httpx2.Response(
                200, headers={"content-type": part.media_type}, content=part.data
            )
    status = 200 if result.failure is None else _STATUSES.get(result.text, 500)
    kind = "text/plain" if result.data is None else "application/json"
    return httpx2.Response(status, headers={"content-type": kind}, text=result.text)


DOORS: dict[str, Door] = {
    "MCP in process": serve_here,
    "MCP over HTTP": serve_http,
    "MCP gateway": use_gateway,
    "OpenAPI": use_service,
}
