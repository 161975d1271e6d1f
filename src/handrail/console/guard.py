"""The guard around every page: where a request comes from, who sent it, and how large it is.

A form must come from a page of this console. Three checks say so, and each refuses alone: the
browser's ``Sec-Fetch-Site``, the ``Origin``, and a token that is tied to the session.
"""

from __future__ import annotations

import base64
import hmac
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handrail.console.config import ConsoleConfig
from handrail.console.identity import Identity, LinkIdentity, Person, sign
from handrail.net import read_body
from handrail.runs import JournalError

MAX_BODY_BYTES = 64 * 1024
MAX_HEADER_BYTES = 16 * 1024
MAX_FIELDS = 500
BODY_SECONDS = 10.0
STATIC = "/static/"
LINK = "/link"
_OPEN_PATHS = frozenset({"/healthz", "/readyz"})
_READS = frozenset({"GET", "HEAD"})
_FORM = "application/x-www-form-urlencoded"
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
    """A request that no page answers: its status, and the name of the message."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class Visit:
    """A request that the guard let through."""

    person: Person
    form: Mapping[str, tuple[str, ...]]
    token: str
    """For the forms of this page. Each page has another mask."""
    live: bool = False
    """Whether only the live parts of the page are wanted."""

    def field(self, name: str) -> str:
        """Return the last value of a field of the form; empty if there is none."""
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
        self.base = config.base + (identity.path if isinstance(identity, LinkIdentity) else "")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # there are no websockets
        sender, reads = _Sender(send, https=self._config.https), scope["method"] in _READS
        try:
            await self._check(scope, receive)
            await self._app(scope, receive, sender)
        except Refusal as refusal:
            await self._refuse(refusal.status, refusal.message)(scope, receive, sender)
        except JournalError as error:
            _log.error("the runs cannot be read: %s", ascii(str(error)))
            if sender.started:
                raise
            message = "away" if reads else "unsure"  # a part of an answer may be recorded
            away = self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, message)
            await away(scope, receive, sender)
        except Exception:
            fault = f"e-{secrets.token_hex(4)}"
            _log.exception("%s: %s %s failed", fault, scope["method"], _route(scope))
            if sender.started:
                raise
            await self._refuse(
                HTTPStatus.INTERNAL_SERVER_ERROR, f"{'broke' if reads else 'unsure'} {fault}"
            )(scope, receive, sender)

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
            form = await _read_form(headers, receive)
        path = str(scope["path"])
        below = path.removeprefix(self._config.base)
        if below in _OPEN_PATHS or below.startswith(STATIC) or below == LINK:
            scope["state"] = {"visit": Visit(NO_ONE, form, "")}
            scope["path"] = below
            return
        self._enter(scope, headers, form)

    def _enter(self, scope: Scope, headers: Headers, form: Mapping[str, tuple[str, ...]]) -> None:
        """Find the person, and check that a form is theirs."""
        path = str(scope["path"])
        if not path.startswith(f"{self.base}/"):
            raise Refusal(HTTPStatus.NOT_FOUND, "missing")
        twice = any(len(headers.getlist(name)) > 1 for name in self._identity.headers)
        person = None if twice else self._identity.identify(scope, dict(headers.items()))
        if person is None:
            raise Refusal(HTTPStatus.UNAUTHORIZED, "unknown")
        mac = sign(self._config.key, "form", person.session)
        sent = form.get("csrf", ("",))[-1]
        if scope["method"] == "POST" and not hmac.compare_digest(_unmask(sent), mac.encode()):
            raise Refusal(HTTPStatus.FORBIDDEN, "refused")
        scope["state"] = {"visit": Visit(person, form, _mask(mac))}
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
            own = {name.lower(): value for name, value in message.get("headers", [])}
            extra = {**HEADERS, "cache-control": "no-store"}
            if self._https:
                extra["strict-transport-security"] = "max-age=31536000"
            for name, value in extra.items():
                own.setdefault(name.encode(), value.encode())
            cookies = [pair for pair in message.get("headers", []) if pair[0] == b"set-cookie"]
            own.pop(b"set-cookie", None)
            message = {**message, "headers": [*own.items(), *cookies]}
        await self._send(message)


async def _read_form(headers: Headers, receive: Receive) -> Mapping[str, tuple[str, ...]]:
    """Read a form that is neither long nor slow."""
    if headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "refused")
    body = await read_body(receive, most=MAX_BODY_BYTES, seconds=BODY_SECONDS)
    if isinstance(body, HTTPStatus):
        raise Refusal(body, "refused")
    return _parse(body)


def _parse(body: bytes) -> Mapping[str, tuple[str, ...]]:
    form: dict[str, tuple[str, ...]] = {}
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_FIELDS,
        )
    except ValueError:
        raise Refusal(HTTPStatus.BAD_REQUEST, "refused") from None
    for name, value in pairs:
        form[name] = (*form.get(name, ()), value)
    return form


def _mask(mac: str) -> str:
    """Return a token that differs each time, so that compression cannot reveal it."""
    plain = mac.encode()
    mask = secrets.token_bytes(len(plain))
    both = mask + bytes(one ^ other for one, other in zip(mask, plain, strict=True))
    return base64.urlsafe_b64encode(both).decode()


def _unmask(token: str) -> bytes:
    try:
        both = base64.urlsafe_b64decode(token.encode())
    except ValueError:
        return b""
    half = len(both) // 2
    return bytes(one ^ other for one, other in zip(both[:half], both[half:], strict=False))


def _route(scope: Scope) -> str:
    """Return the path for the log: without the query, and without a local console's own prefix."""
    return ascii(str(scope["path"]).partition("/c/")[0] or "a page")
