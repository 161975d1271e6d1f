"""The guard around every page: where a request comes from, who sent it, and how large it is.

A form must come from a console page. Three checks require it, and each rejects alone: the browser's
``Sec-Fetch-Site``, the ``Origin``, and a token tied to the session.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handrail.console._config import ConsoleConfig
from handrail.console._identity import Identity, LinkIdentity, Person
from handrail.net.cookies import sign
from handrail.net.forms import mask, read_form, unmask
from handrail.runs import JournalError

MAX_BODY_BYTES = 64 * 1024
MAX_HEADER_BYTES = 16 * 1024
BODY_SECONDS = 10.0
STATIC = "/static/"
_OPEN_PATHS = frozenset({"/healthz", "/readyz", "/link", "/login", "/callback"})
_READS = frozenset({"GET", "HEAD"})
_log = logging.getLogger("handrail.console")

CONTENT_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Mapping[str, str] = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": (
        "camera=(), microphone=(), geolocation=(), payment=(), usb=(), clipboard-read=()"
    ),
}
"""On every response, whatever it is."""


class Refusal(Exception):
    """A rejected request: its status, and the message name."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class Visit:
    """A request accepted by the guard."""

    person: Person
    form: Mapping[str, tuple[str, ...]]
    token: str
    """For this page's forms. Each page has another mask."""
    live: bool = False
    """Whether only the page's live parts are wanted."""

    def field(self, name: str) -> str:
        """Return a form field's last value, or ""."""
        return self.form.get(name, ("",))[-1]


NO_ONE = Person("", "", ())


class RequestGuard:
    """Wraps the application. Nothing reaches a page past it."""

    def __init__(
        self,
        app: ASGIApp,
        config: ConsoleConfig,
        identity: Identity,
        refuse: Callable[[HTTPStatus, str], Response],
    ) -> None:
        self._app = app
        self._config = config
        self._identity = identity
        self._refuse = refuse
        self.base = config.base + identity.path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # there are no websockets
        sender = _Sender(send, https=self._config.https)
        try:
            await self._check(scope, receive)
            await self._app(scope, receive, sender)
        except Exception as error:
            refusal = error if isinstance(error, Refusal) else _explain(error, scope)
            if sender.started:
                raise
            await self._refuse(refusal.status, refusal.message)(scope, receive, sender)

    async def _check(self, scope: Scope, receive: Receive) -> None:
        headers = Headers(scope=scope)
        if sum(len(name) + len(value) for name, value in headers.raw) > MAX_HEADER_BYTES:
            raise Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "refused")
        host = headers.getlist("host")
        if len(host) != 1 or host[0].lower() not in self._hosts(scope):
            raise Refusal(HTTPStatus.FORBIDDEN, "refused")
        form: Mapping[str, tuple[str, ...]] = {}
        if scope["method"] not in _READS:
            if scope["method"] != "POST":
                raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "refused")
            self._check_source(host[0], headers)
            kind = headers.get("content-type", "")
            read = await read_form(kind, receive, most=MAX_BODY_BYTES, seconds=BODY_SECONDS)
            if isinstance(read, HTTPStatus):
                raise Refusal(read, "refused")
            form = read
        below = str(scope["path"]).removeprefix(self._config.base)
        if below in _OPEN_PATHS or below.startswith(STATIC):
            scope["state"] = {"visit": Visit(NO_ONE, form, "")}
            scope["path"] = below
        else:
            self._enter(scope, headers, form)

    def _enter(self, scope: Scope, headers: Headers, form: Mapping[str, tuple[str, ...]]) -> None:
        """Identify the person, and check that a form is theirs."""
        path = str(scope["path"])
        if not path.startswith(f"{self.base}/"):
            raise Refusal(HTTPStatus.NOT_FOUND, "missing")
        twice = any(len(headers.getlist(name)) > 1 for name in self._identity.headers)
        person = None if twice else self._identity.identify(scope, dict(headers.items()))
        if person is None:
            wanted = path.removeprefix(self.base).encode() + b"?" + scope["query_string"]
            raise Refusal(HTTPStatus.UNAUTHORIZED, f"unknown {quote(wanted.rstrip(b'?'), safe='')}")
        mac = sign(self._config.key, "form", person.session)
        sent = form.get("csrf", ("",))[-1]
        if scope["method"] == "POST" and not hmac.compare_digest(unmask(sent), mac.encode()):
            raise Refusal(HTTPStatus.FORBIDDEN, "refused")
        scope["state"] = {"visit": Visit(person, form, mask(mac))}
        scope["path"] = path.removeprefix(self.base)

    def _hosts(self, scope: Scope) -> set[str]:
        """Return the names under which browsers reach the console."""
        if not isinstance(self._identity, LinkIdentity):
            return {name.lower() for name in self._config.hosts}
        server = cast("tuple[str, int | None] | None", scope.get("server"))
        port = server[1] if server is not None else None
        return {f"127.0.0.1:{port}", f"localhost:{port}"}

    def _check_source(self, host: str, headers: Headers) -> None:
        scheme = "https" if self._config.https else "http"
        same = headers.getlist("sec-fetch-site") == ["same-origin"]
        if not same or headers.getlist("origin") != [f"{scheme}://{host}"]:
            raise Refusal(HTTPStatus.FORBIDDEN, "refused")


class _Sender:
    """Adds the headers to every response."""

    def __init__(self, send: Send, *, https: bool) -> None:
        self._send = send
        self._https = https
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            own: list[tuple[bytes, bytes]] = list(message.get("headers", []))
            extra = {**HEADERS, "cache-control": "no-store"}
            if self._https:
                extra["strict-transport-security"] = "max-age=31536000"
            names = {name.lower().decode() for name, _ in own}
            own += [(key.encode(), extra[key].encode()) for key in extra if key not in names]
            message = {**message, "headers": own}
        await self._send(message)


def _explain(error: Exception, scope: Scope) -> Refusal:
    """Log a fault, and return the page's message. A part of an answer may be recorded."""
    reads = scope["method"] in _READS
    if isinstance(error, JournalError):
        _log.error("the runs cannot be read: %s", ascii(str(error)))
        return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "away" if reads else "unsure")
    fault, message = f"e-{secrets.token_hex(4)}", "broke" if reads else "unsure"
    _log.error("%s: %s %s failed", fault, scope["method"], _route(scope), exc_info=error)
    return Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, f"{message} {fault}")


def _route(scope: Scope) -> str:
    """Return the path for the log: without the query, and without a local console's own prefix."""
    return ascii(str(scope["path"]).partition("/c/")[0] or "a page")
