"""Checks each HTTP request before the SDK sees it: host, origin, token, size, depth and time."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Mapping
from hashlib import sha256
from http import HTTPStatus
from typing import Any

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken, TokenVerifier
from starlette.datastructures import Headers
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handrail._support.loop import Expired, complete
from handrail.net import read_body

MAX_BODY_BYTES = 4 << 20
MAX_JSON_DEPTH = 64
MAX_JSON_VALUES = 50_000
"""Values in one request: a parser blocks all clients while making them."""
SECONDS = 30.0
"""How long a client may take to send a request, or to accept the next chunk of a response."""
_REFUSALS = {
    HTTPStatus.BAD_REQUEST: "The request was broken off.",
    HTTPStatus.REQUEST_TIMEOUT: "The request took too long.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The request is too large.",
}
_TEXT = re.compile(rb'"[^"]*+"?')
_LENGTH = re.compile(r"[0-9]{1,18}")
_SQUARE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class FixedTokens:
    """Fixed bearer tokens, each with its principal. Only their digests are kept."""

    def __init__(self, tokens: Mapping[str, str]) -> None:
        self.replace(tokens)

    def replace(self, tokens: Mapping[str, str]) -> None:
        """Accept exactly these tokens from now on. Raises ValueError for an empty one."""
        if not all(tokens.values()) or not all(tokens):
            raise ValueError("A token and its principal must not be empty.")
        self._principals = {_digest(token): principal for token, principal in tokens.items()}

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return a token's principal, or None if unknown."""
        principal = self._principals.get(_digest(token))
        if principal is None:
            return None
        return AccessToken(token="", client_id=principal, subject=principal, scopes=[])


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()


def require_token(app: ASGIApp, verifier: TokenVerifier, resource_url: Any) -> ASGIApp:
    """Return an application answering only requests with a valid token."""
    backend = BearerAuthBackend(verifier, resource_server_url=resource_url)
    return AuthenticationMiddleware(
        AuthContextMiddleware(RequireAuthMiddleware(app, [])), backend=backend
    )


class Bounded:
    """An application whose requests are bounded in size, depth and time, behind the token."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read one request's whole body, and answer it."""
        body = await read_body(receive, most=MAX_BODY_BYTES, seconds=SECONDS)
        refused = _check_body(body)
        if refused is not None:
            await refused(scope, receive, send)
            return
        whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_again() -> Message:
            return whole.pop() if whole else await receive()

        await self._app(scope, receive_again, send)


class Gate:
    """An application behind the checks without tokens."""

    def __init__(
        self, app: ASGIApp, inner: ASGIApp, *, hosts: tuple[str, ...], origins: tuple[str, ...]
    ) -> None:
        self._app = app
        self._inner = inner
        self._hosts = hosts
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or run the application's lifespan."""
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        refused = self._check_headers(Headers(scope=scope))
        if refused is not None:
            await refused(scope, receive, send)
            return

        async def send_in_time(message: Message) -> None:
            try:
                await complete(_await(send(message)), SECONDS, _ignore)  # a timer only if it waits
            except Expired:
                raise TimeoutError from None

        await self._app(scope, receive, send_in_time)

    def _check_headers(self, headers: Headers) -> PlainTextResponse | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not _matches(host, self._hosts):
            return PlainTextResponse("The Host header is not allowed.", 403)
        if origin is not None and not _matches(origin, self._origins):
            return PlainTextResponse("The Origin header is not allowed.", 403)
        length = headers.get("content-length", "0")
        if not _LENGTH.fullmatch(length):
            return PlainTextResponse("The Content-Length header is not valid.", 400)
        if int(length) > MAX_BODY_BYTES:
            return PlainTextResponse("The request is too large.", 413)
        return None


async def _await(sending: Awaitable[None]) -> None:
    await sending


def _ignore(_: object) -> None:
    pass


def _matches(value: str, allowed: tuple[str, ...]) -> bool:
    """Return whether a value is allowed. ``:*`` at the end means any port."""
    if value in allowed:
        return True
    without_port = re.sub(r":[0-9]{1,5}\Z", "", value)
    return any(each.endswith(":*") and without_port == each[:-2] for each in allowed)


def _check_body(body: bytes | HTTPStatus) -> PlainTextResponse | None:
    """Return the rejection for a body too large, too deep, too full or too slow."""
    if isinstance(body, HTTPStatus):
        return PlainTextResponse(_REFUSALS[body], body)
    if b"\0" in body:  # UTF-16 or UTF-32, which a parser reads, and the checks below do not
        return PlainTextResponse("The JSON is not UTF-8.", 400)
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")  # remaining quotes are outside texts
    structure, texts = _TEXT.subn(b"", plain, count=MAX_JSON_VALUES)
    values = texts + sum(map(structure.count, (b",", b"[", b"{")))
    if values >= MAX_JSON_VALUES:
        return PlainTextResponse(f"The JSON has more than {MAX_JSON_VALUES:,} values.", 413)
    if _is_deep(structure):
        return PlainTextResponse("The JSON is nested too deeply.", 400)
    return None


def _is_deep(structure: bytes) -> bool:
    """Return whether JSON without texts is too deep. Each round removes the innermost brackets."""
    brackets = structure.translate(_SQUARE, _NO_BRACKETS)
    for _ in range(MAX_JSON_DEPTH):
        rest = brackets.replace(b"[]", b"")
        if rest == brackets:  # nothing is left, or the text is not JSON
            return rest.count(b"[") > MAX_JSON_DEPTH
        brackets = rest
    return b"[" in brackets
