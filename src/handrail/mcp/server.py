"""Serves tools to MCP clients, over stdio or HTTP. It requires the extra ``handrail[mcp]``.

The executor decides and runs every call: its rules, limits and bounds apply as to any other call.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import Any

from handrail._support.lazy import name_extra

try:
    from mcp.server import Server
    from mcp.server.auth.provider import TokenVerifier
    from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
    from mcp.server.stdio import stdio_server
    from mcp.server.transport_security import TransportSecuritySettings
    from starlette.types import ASGIApp
except ModuleNotFoundError as error:
    raise name_extra(error, __name__, "mcp") from error

from handrail import Executor, Json, Toolset
from handrail._version import __version__
from handrail.mcp._server.callers import (
    NOTHING,
    Caller,
    CallerFacts,
    Deps,
    Metadata,
    Words,
    caller_token,
    find_holder,
)
from handrail.mcp._server.calls import Calls, WaitFirst
from handrail.mcp._server.changes import ToolServer
from handrail.mcp._server.extras import Extras
from handrail.mcp._server.gate import MAX_BODY_BYTES, Bounded, FixedTokens, Gate, require_token
from handrail.mcp._server.metrics import CallMetrics
from handrail.mcp._server.places import Places
from handrail.mcp._server.principal_tools import RulesOf
from handrail.mcp._server.resources import ServedPrompt, ServedResource, make_reader
from handrail.mcp._server.tasks import Tasks
from handrail.mcp._server.updates import ResourceUpdates
from handrail.permissions import MemoryLedger

__all__ = [
    "Caller",
    "FixedTokens",
    "ResourceUpdates",
    "ServedPrompt",
    "ServedResource",
    "bind",
    "caller_token",
    "find_holder",
    "http_app",
    "make_server",
    "serve_http",
    "serve_stdio",
]

_CHECKED_BEFORE = TransportSecuritySettings(enable_dns_rebinding_protection=False)
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_MAX_CALLS = 256
PRINCIPAL_SHARE = 0.25
"""One principal's share of all slots, by default."""
_ANSWER_SECONDS = 600.0
TASK_SECONDS = 10.0
_NO_SHARED_LEDGER = (
    "With keys, several processes accept the same approval, and each would use it once. Give their "
    "executors one ledger: Executor(..., approvals=Approvals(ledger=FileLedger(FOLDER)))."
)


def make_server(  # noqa: PLR0913  each is an option with a default
    executor: Executor,
    *,
    name: str = "handrail",
    version: str = __version__,
    principal: str | None = None,
    deps: Deps = None,
    metadata: Metadata = NOTHING,
    said: Words = (),
    keys: Sequence[bytes] = (),
    max_calls: int = _MAX_CALLS,
    principal_share: float = PRINCIPAL_SHARE,
    answer_seconds: float = _ANSWER_SECONDS,
    rules_of: RulesOf | None = None,
    metrics: CallMetrics | None = None,
    resources: Sequence[ServedResource] = (),
    prompts: Sequence[ServedPrompt] = (),
    updates: ResourceUpdates | None = None,
    wait_first: WaitFirst | None = None,
    task_seconds: float = TASK_SECONDS,
) -> Server[Any]:
    """Return an official SDK server with an executor's tools.

    Clients get ``name`` and ``version``, by default handrail's.

    Without an approver in the executor, the client's user is asked: by elicitation, and in the
    newer era by ``input_required``. A client without these gets a denial. A call in conflict with
    an open approval request in its session waits until the answer, or for ``answer_seconds``.

    ``deps`` are objects for the tools, and ``metadata`` more facts for policies, hooks and tools.
    Each is a value, or a function taking the ``Caller``. The metadata are read for each request,
    the deps once for each session with the same metadata. Raises DefinitionError if a tool needs
    deps and there are none. ``principal`` is whom calls without a token are for.

    ``said`` is what people wrote, for rules about sources: a client sends calls only. It is a value
    or a function taking the ``Caller``, read for each call.

    Several processes behind a balancer need the same ``keys`` of 32 bytes or more, which protect
    open approval requests. Their executors need one ledger, or each process would accept the same
    approval once. Raises ValueError for ``keys`` and a ledger in memory.

    More than ``max_calls`` calls at a time are rejected. One principal can have ``principal_share``
    of these, and of the executor's running calls. Waiting calls start in turn between principals.
    If a server has no principals, its clients share all slots.

    With ``rules_of``, such as ``RulesByPrincipal.find``, tools always denied by a principal's rules
    do not exist for that principal: they are not listed, found or suggested. The executor's policy
    still decides each call.

    ``resources`` are texts and files that clients can read: each read is a call of the tool
    ``read_resource``, decided by your rules. ``prompts`` are texts to begin a conversation with.
    ``updates`` takes subscriptions to resources; ``updates.tell`` notifies the subscribers.

    A call that runs for ``task_seconds`` becomes a task, if its client knows tasks: the client gets
    a handle, and asks for the result later. Others wait.

    With ``metrics``, open approval requests are counted there. ``wait_first``, such as
    ``Upstreams.wait_first``, is awaited before each list of tools. The names that it returns are in
    the list's ``_meta``, as ``handrail/missing``.
    """
    if keys and isinstance(executor.ledger, MemoryLedger):
        raise ValueError(_NO_SHARED_LEDGER)
    if not 0 < principal_share <= 1:
        raise ValueError(f"principal_share must be above 0 and at most 1, got {principal_share!r}.")
    places = Places(calls=max_calls, running=executor.limits.max_running, share=principal_share)
    calls = Calls(
        executor,
        places=places,
        answer_seconds=answer_seconds,
        rules_of=rules_of,
        facts=CallerFacts(executor, deps, metadata, principal=principal, said=said),
        extra=Toolset(make_reader(resources)) if resources else None,
        wait_first=wait_first,
    )
    if metrics is not None:
        metrics.count_questions = calls.count_questions
    listen = None if updates is None else updates.listen
    if calls.changes is not None:
        listen = calls.changes.serve(updates)
    run = calls.call_tool, calls.find_owner
    tasks = Tasks(*run, task_seconds, is_background=calls.is_background)
    server = ToolServer(
        name,
        version=version,
        on_list_tools=calls.list_tools,
        on_call_tool=tasks.call_tool,
        get_tool_input_schema=calls.find_schema,
        on_subscriptions_listen=listen,
        **Extras(calls.call_tool, resources, prompts, updates).list_handlers(),
    )
    server.tools_change = calls.changes is not None
    tasks.add_to(server)
    security = (
        RequestStateSecurity(keys=list(keys), ttl=answer_seconds)
        if keys
        else RequestStateSecurity.ephemeral(ttl=answer_seconds)
    )
    server.middleware.append(RequestStateBoundary(security, default_audience=name))
    return server


async def serve_stdio(
    executor: Executor,
    *,
    name: str = "handrail",
    principal: str | None = None,
    deps: object = None,
    metadata: Mapping[str, Json] = NOTHING,
) -> None:
    """Serve tools over this process's standard streams, until the client closes them.

    The calls are for ``principal``, such as the user who started this program.
    """
    server = make_server(executor, name=name, principal=principal, deps=deps, metadata=metadata)
    async with executor, stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def http_app(
    server: Server[Any],
    *,
    tokens: Mapping[str, str] | TokenVerifier | None,
    resource_url: str | None = None,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    path: str = "/mcp",
) -> ASGIApp:
    """Return an ASGI application serving over streamable HTTP.

    ``tokens`` maps bearer tokens to principals, or is an SDK verifier. With a verifier,
    ``resource_url`` is the audience a token must have. Pass None to serve without tokens: then
    anyone with access to the port can call the tools.

    ``hosts`` and ``origins`` are allowed values for the ``Host`` and ``Origin`` headers, besides
    this machine's, such as ``tools.example.org`` and ``https://app.example.org``.
    """
    inner = server.streamable_http_app(
        streamable_http_path=path,
        max_request_body_size=MAX_BODY_BYTES,
        transport_security=_CHECKED_BEFORE,
    )
    local = tuple(f"{host}{port}" for host in _LOOPBACK for port in ("", ":*"))
    verifier = FixedTokens(tokens) if isinstance(tokens, Mapping) else tokens
    bounded = Bounded(inner)
    app: ASGIApp = bounded if verifier is None else require_token(bounded, verifier, resource_url)
    return Gate(
        app,
        inner,
        hosts=(*local, *hosts),
        origins=(*(f"http://{host}" for host in local), *origins),
    )


async def serve_http(app: ASGIApp, executor: Executor, listening: socket.socket) -> None:
    """Serve an application on a bound socket, until a signal or a cancellation."""
    from handrail.net import serve_app

    with listening:
        async with executor:
            await serve_app(app, listening)


def bind(host: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """Return a socket for ``serve_http``. With port 0, use a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound
