"""Services of a company, in one process: an authorization server, and MCP servers that check whose token they get.

It tells its port, and has MCP servers at `/sN/mcp`. A token is for one service and one person, and a call says for
whom it is: the server answers with the person, and counts calls whose token is another person's.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import anyio
import uvicorn
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware, get_access_token
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken
from mcp.server.mcpserver import MCPServer
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

LISTS = "lister"
"""The token that may only list tools."""


@dataclass
class Company:
    """What is issued, and what was seen."""

    seconds: float = 3600.0
    """How long an access token is valid."""
    tokens: dict[str, tuple[str, str, float]] = field(default_factory=dict)
    """By access token: the service, the person, and when it ends."""
    refreshes: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By refresh token, which works once."""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    seen: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("calls", "wrong", "refused", "refreshed", "exchanged", "reused"), 0
        )
    )
    grants: list[dict[str, str]] = field(default_factory=list)
    origin: str = ""

    def issue(self, service: str, person: str) -> dict[str, Any]:
        access, refresh = (f"{kind}-{service}-{person}-{secrets.token_hex(6)}" for kind in "ar")
        self.tokens[access] = service, person, time.time() + self.seconds
        self.refreshes[refresh] = service, person
        return {
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": self.seconds,
            "refresh_token": refresh,
        }

    def verify(self, service: str, token: str) -> str | None:
        """The person of a token; a table's token never ends."""
        if token == f"{LISTS}-{service}":
            return LISTS
        kind, _, rest = token.partition("-")
        if kind == "t" and rest.startswith(f"{service}-"):
            return rest.removeprefix(f"{service}-")
        found = self.tokens.get(token)
        if found is None or found[0] != service or found[2] < time.time():
            self.seen["refused"] += 1
            return None
        return found[1]


class Verifier:
    def __init__(self, company: Company, service: str) -> None:
        self._company, self._service = company, service

    async def verify_token(self, token: str) -> AccessToken | None:
        person = self._company.verify(self._service, token)
        return (
            None
            if person is None
            else AccessToken(token=token, client_id="c", subject=person, scopes=[])
        )


def make_service(company: Company, service: str) -> tuple[MCPServer, Any]:
    server = MCPServer(service, log_level="CRITICAL")
    sessions: dict[str, str] = {}

    @server.tool()
    async def whoami(claimed: str, pause: float = 0) -> str:
        """Return whose token this is."""
        token = get_access_token()
        person = token.subject if token else ""
        company.seen["calls"] += 1
        company.seen["wrong"] += person != claimed
        if pause:
            await anyio.sleep(pause)
        return f"{person} at {service}"

    @server.tool()
    def remember(text: str) -> str:
        """Keep a text for this person."""
        token = get_access_token()
        sessions[str(token and token.subject)] = text
        return text

    inner = server.streamable_http_app(streamable_http_path="/mcp")
    where = AnyHttpUrl(f"{company.origin}/.well-known/oauth-protected-resource/{service}/mcp")
    guarded = RequireAuthMiddleware(inner, [], where)
    app = AuthenticationMiddleware(
        AuthContextMiddleware(guarded), backend=BearerAuthBackend(Verifier(company, service))
    )
    return server, app


def make_app(company: Company, count: int) -> Starlette:  # noqa: C901  a page each
    services = {f"s{number}": make_service(company, f"s{number}") for number in range(count)}

    async def about(request: Request) -> Response:
        service = request.path_params["service"]
        return JSONResponse(
            {
                "resource": f"{company.origin}/{service}/mcp",
                "authorization_servers": [f"{company.origin}/"],
            }
        )

    async def metadata(_: Request) -> Response:
        return JSONResponse(
            {
                "issuer": f"{company.origin}/",
                "authorization_endpoint": f"{company.origin}/authorize",
                "token_endpoint": f"{company.origin}/token",
                "registration_endpoint": f"{company.origin}/register",
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": True,
            }
        )

    async def register(request: Request) -> Response:
        return JSONResponse(
            {**await request.json(), "client_id": f"client-{secrets.token_hex(4)}"}, 201
        )

    async def authorize(request: Request) -> Response:
        """A person who is signed in here, as the cookie says, and agrees at once."""
        asked = dict(request.query_params)
        code = secrets.token_hex(8)
        service = urlsplit(asked["resource"]).path.split("/")[1]
        company.codes[code] = {
            **asked,
            "person": request.cookies.get("person", ""),
            "service": service,
        }
        back = {"code": code, "state": asked["state"], "iss": f"{company.origin}/"}
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}", 302)

    async def token(request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode()))
        company.grants.append(form)
        return JSONResponse(*grant(company, form))

    async def control(request: Request) -> Response:
        for name, value in (await request.json()).items():
            if name == "issue":
                return JSONResponse([company.issue(*pair) for pair in value])
            if name == "end_all":
                company.tokens.clear()
            else:
                setattr(company, name, value)
        return JSONResponse({**company.seen, "grants": company.grants})

    return Starlette(
        routes=[
            Route("/.well-known/oauth-protected-resource/{service}/mcp", about),
            Route("/.well-known/oauth-authorization-server", metadata),
            Route("/register", register, methods=["POST"]),
            Route("/authorize", authorize),
            Route("/token", token, methods=["POST"]),
            Route("/control", control, methods=["POST"]),
            *(Mount(f"/{name}", app) for name, (_, app) in services.items()),
        ],
        lifespan=running([server for server, _ in services.values()]),
    )


def grant(company: Company, form: dict[str, str]) -> tuple[dict[str, Any], int]:
    from base64 import urlsafe_b64encode
    from hashlib import sha256

    refused = {"error": "invalid_grant"}, 400
    match form["grant_type"]:
        case "authorization_code":
            code = company.codes.pop(form["code"], None)
            digest = (
                urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest())
                .decode()
                .rstrip("=")
            )
            if (
                code is None
                or digest != code["code_challenge"]
                or form["redirect_uri"] != code["redirect_uri"]
            ):
                return refused
            return company.issue(code["service"], code["person"]), 200
        case "refresh_token":
            found = company.refreshes.pop(form["refresh_token"], None)
            company.seen["reused" if found is None else "refreshed"] += 1
            return (company.issue(*found), 200) if found else refused
        case _:
            company.seen["exchanged"] += 1
            person = form["subject_token"].removeprefix("jwt-")
            return company.issue(form["audience"], person), 200


def running(servers: list[MCPServer]) -> Callable[[Any], Any]:
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def run(_: Any) -> Any:
        async with AsyncExitStack() as stack:
            for server in servers:
                await stack.enter_async_context(server.session_manager.run())
            yield

    return run


def main(count: int, tell: Callable[[int], object]) -> None:
    """Serve until the process is killed."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    port = listening.getsockname()[1]
    company = Company(origin=f"http://127.0.0.1:{port}")
    app = make_app(company, count)
    tell(port)
    uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listening])
