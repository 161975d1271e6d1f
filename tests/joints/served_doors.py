"""Doors to other processes: served tools over MCP, a gateway, and tools of an HTTP service."""

from __future__ import annotations

import json
import re
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import anyio
import httpx2
from mcp import Client

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
)
from handrail.approvals import callback
from handrail.mcp import Effects, HttpServer, McpSource, Offer
from handrail.mcp.gateway import Upstreams
from handrail.mcp.server import make_server
from handrail.openapi import tools as openapi_tools
from joints.agent_doors import run_agent
from joints.case import PATIENCE, Case, Door, Seen, Shown
from mcp_served.served import MODERN, answering, connect, over_http

_ACTIONS = {Allow: "accept", Deny: "decline"}


def _asking(case: Case) -> dict[str, Any]:
    actions = [_ACTIONS[type(answer)] for answer in case.answers]
    asks = {"elicitation_callback": answering(*actions)} if actions else {}
    return {"mode": MODERN, **asks}


async def _use(client: Client, case: Case, seen: Seen, prefix: str = "") -> Seen:
    """Send the calls, each after the result of the one before."""
    await client.list_tools()

    async def send(call: Call) -> None:
        async def hear(fraction: float, _total: float | None, message: str | None) -> None:
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


def _executor(case: Case) -> Executor:
    return Executor(Toolset(*case.tools), **case.options)


def _given(case: Case) -> dict[str, Any]:
    """The options of the server. A token says who calls."""
    return {name: value for name, value in case.turn.items() if name != "principal"}


async def serve_here(case: Case) -> Seen:
    """A client and a server in this process."""
    seen = Seen()
    async with (
        _executor(case) as executor,
        Client(make_server(executor, **_given(case)), **_asking(case)) as client,
    ):
        return await _use(client, case, seen)


async def serve_http(case: Case) -> Seen:
    """A client and a server with a socket between them."""
    seen = Seen()
    async with (
        _executor(case) as executor,
        over_http(executor, given=_given(case)) as url,
        connect(url, **_asking(case)) as client,
    ):
        return await _use(client, case, seen)


async def use_gateway(case: Case) -> Seen:
    """A gateway in front of a server with a socket between them. The gateway has the options.

    The server behind it truncates nothing, as most servers do.
    """
    seen, reads = Seen(), tuple(tool.spec.name for tool in case.tools if tool.spec.effect is READ)
    asks = tuple(tool.spec.name for tool in case.tools if tool.spec.effect is not READ)
    async with AsyncExitStack() as stack:
        whole = LongResults(max_result_chars=100_000)
        behind = Executor(Toolset(*case.tools), long_results=whole)
        upstream = await stack.enter_async_context(behind)
        url = await stack.enter_async_context(over_http(upstream, given=_given(case)))
        server = HttpServer(name="up", url=url, headers={"Authorization": "Bearer t-alice"})
        effects = Effects(reads=reads, writes=asks)
        upstreams = Upstreams([McpSource(server, offer=Offer(effects=effects))], defer_over=10_000)
        options = {"policy": lambda _: Allow(), **case.options}
        executor = await stack.enter_async_context(Executor(upstreams.registry, **options))
        await stack.enter_async_context(upstreams.connect(executor))
        await upstreams.wait_tried(PATIENCE)
        own_url = await stack.enter_async_context(over_http(executor, given=_given(case)))
        client = await stack.enter_async_context(connect(own_url, **_asking(case)))
        return await _use(client, case, seen, "mcp__up__")


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
        turn = service.turn(**claims)
        return _respond(await service.run(Call(name, args, "s1"), turn=turn))

    document = {
        "openapi": "3.1.0",
        "info": {"title": "Service", "version": "1"},
        "servers": [{"url": "https://service.test"}],
        "paths": {f"/{tool.spec.name}": _operation(tool) for tool in case.tools},
        "components": {"securitySchemes": {"user": {"type": "http", "scheme": "bearer"}}},
        "security": [{"user": []}],
    }
    async with service, httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as client:
        timeout = min([one.spec.timeout for one in case.tools if one.spec.timeout], default=None)
        made = openapi_tools(document, client, credentials={"user": _claims}, timeout=timeout)
        limits = CallLimits(retry=Retry(attempts=3, base=0.001, cap=0.001))
        options = {"limits": limits, **case.options}
        asking = {one.spec.name: one.spec.needs_approval for one in case.tools}
        tools = [
            replace(one, spec=replace(one.spec, needs_approval=asking[one.spec.name]))
            for one in made
        ]
        return await run_agent(replace(case, tools=tuple(tools), options=options))


def _claims(context: Context[Any]) -> str:
    metadata = {**context.metadata, **({"approved": True} if context.is_approved else {})}
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


_STATUSES = {"busy": 503, "expired": 401}


def _respond(result: Result) -> httpx2.Response:
    for part in result.parts:
        if isinstance(part, Image):
            return httpx2.Response(
                200, headers={"content-type": part.media_type}, content=part.data
            )
    status = 200 if result.failure is None else _STATUSES.get(result.text, 500)
    return httpx2.Response(status, headers={"content-type": "text/plain"}, text=result.text)


DOORS: dict[str, Door] = {
    "MCP in process": serve_here,
    "MCP over HTTP": serve_http,
    "MCP gateway": use_gateway,
    "OpenAPI": use_service,
}
