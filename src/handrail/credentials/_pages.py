"""LoginPages: where each principal signs in at the services. An ASGI application."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from html import escape
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from handrail import HandrailError
from handrail._support.visible import spell_out
from handrail.credentials._login import LoginProof, PersonalLogin
from handrail.credentials._store import derive_key
from handrail.net.cookies import SignedCookie
from handrail.net.forms import read_form

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
FindPrincipal: TypeAlias = Callable[[str], Awaitable[str | None]]

LOGIN_SECONDS = 600.0
_MAX_BODY_BYTES = 16 << 10
_BODY_SECONDS = 10.0
_PAGE = (
    "<!doctype html><html lang=en><meta charset=utf-8>"
    "<meta name=viewport content='width=device-width'><title>Sign in</title>"
    "<main>{}</main>"
)
_FORM = (
    "<h1>Sign in at {service}</h1>"
    "<p>Your calls then use your own account there. First prove who you are:</p>"
    "<form method=post><label>Your token for {host} "
    "<input name=token type=password autocomplete=off required></label> "
    "<button>Continue to {service}</button></form>"
)
_DONE = "<h1>Done</h1><p>You are signed in at {} as {}. You can close this window.</p>"
_FAILED = "<h1>Not signed in</h1><p>{}</p>"
_HEADERS = (
    ("content-type", "text/html; charset=utf-8"),
    ("cache-control", "no-store"),
    ("content-security-policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
)

log = logging.getLogger("handrail.credentials")


class _Page(NamedTuple):
    """An answer to a browser."""

    status: int
    body: str = ""
    headers: tuple[tuple[str, str], ...] = ()


class LoginPages:
    """Pages where each principal signs in at the services of ``PersonalLogin``.

    A person first proves who they are, by the token for your own server. Only the browser that
    proved it can finish, so no one can make another person's account their own.

    Args:
        logins: The services. All have the same ``page_url``.
        key: At least 32 bytes, shared by all processes.
        find_principal: Returns the principal with a token, such as ``find_holder(tokens)``.
        clock: Returns the time.
    """

    def __init__(
        self,
        logins: Iterable[PersonalLogin],
        *,
        key: bytes,
        find_principal: FindPrincipal,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._logins = {one.service: one for one in logins}
        [self._url] = {one.page_url for one in self._logins.values()}
        self._find_principal = find_principal
        parts = urlsplit(self._url)
        self._origin, self._path = f"{parts.scheme}://{parts.netloc}", parts.path
        is_https = parts.scheme == "https"
        self._cookie = SignedCookie(
            name=f"{'__Host-' if is_https else ''}handrail-sign-in",
            path="/",
            key=derive_key(key, "login cookies"),
            clock=clock,
            seconds=LOGIN_SECONDS,
            attributes=f"HttpOnly; SameSite=Lax{'; Secure' if is_https else ''}",
        )

    def around(self, app: App) -> App:
        """Return an application with these pages in front of another one."""

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            is_ours = scope["type"] == "http" and scope["path"].startswith(f"{self._path}/")
            await (self if is_ours else app)(scope, receive, send)

        return serve

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a browser."""
        name, _, rest = scope["path"].removeprefix(f"{self._path}/").partition("/")
        login, method = self._logins.get(name), scope["method"]
        if login is None or rest not in {"", "callback"}:
            page = _fail("There is no such page.", HTTPStatus.NOT_FOUND)
        elif method == "GET" and rest:
            page = await self._finish(login, scope)
        elif method == "GET":
            host = escape(urlsplit(self._url).netloc)
            page = _Page(200, _FORM.format(service=escape(name), host=host))
        elif method == "POST" and not rest:
            page = await self._begin(login, scope, receive)
        else:
            page = _fail("This is not possible here.", HTTPStatus.METHOD_NOT_ALLOWED)
        await _send(page, send)

    async def _begin(self, login: PersonalLogin, scope: Scope, receive: Receive) -> _Page:
        """Send a person who has proved its name to the authorization server."""
        headers = _read_headers(scope)
        if headers.get("origin") != self._origin:  # else another site could begin it, with its name
            return _fail("This form is from another site.", HTTPStatus.FORBIDDEN)
        kind = headers.get("content-type", "")
        form = await read_form(kind, receive, most=_MAX_BODY_BYTES, seconds=_BODY_SECONDS)
        if isinstance(form, HTTPStatus):
            return _fail("The form cannot be read.", form)
        [token, *_] = form.get("token") or ("",)
        principal = await self._find_principal(token) if token else None
        if not principal:
            return _fail("This token is not valid.", HTTPStatus.FORBIDDEN)
        try:
            address, proof = await login.begin(self._callback(login))
        except HandrailError as error:
            return _report(login, error)
        cookie = self._cookie.make(login.service, principal, *proof)
        return _Page(303, headers=(("location", address), ("set-cookie", cookie)))

    async def _finish(self, login: PersonalLogin, scope: Scope) -> _Page:
        """Take what the authorization server gave the browser that began the login."""
        kept = self._cookie.read(_read_cookies(_read_headers(scope)))
        if len(kept) != len(("service", "principal", *LoginProof._fields)) or (
            kept[0] != login.service
        ):
            return _fail("This browser did not begin to sign in, or took too long.")
        answer = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        try:
            await login.finish(kept[1], LoginProof(*kept[2:]), answer, self._callback(login))
        except HandrailError as error:
            return _report(login, error)
        log.info("signed in at %r: %r", login.service, kept[1])
        done = _DONE.format(escape(login.service), escape(spell_out(kept[1])))
        return _Page(200, done, (("set-cookie", self._cookie.end()),))

    def _callback(self, login: PersonalLogin) -> str:
        return f"{self._url}/{login.service}/callback"


def _report(login: PersonalLogin, error: Exception) -> _Page:
    """Return the page for a failed login. Why is for the log: a server may have written parts."""
    log.warning("no login at %r: %s", login.service, spell_out(str(error)))
    return _fail("The login failed. Begin again, or ask who runs this server.")


def _fail(why: str, status: int = HTTPStatus.BAD_REQUEST) -> _Page:
    return _Page(status, _FAILED.format(escape(why)))


def _read_headers(scope: Scope) -> Mapping[str, str]:
    pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
    return {name.lower(): value for name, value in pairs}


def _read_cookies(headers: Mapping[str, str]) -> Mapping[str, str]:
    try:
        return {name: one.value for name, one in SimpleCookie(headers.get("cookie", "")).items()}
    except CookieError:
        return {}


async def _send(page: _Page, send: Send) -> None:
    headers = [(name.encode(), value.encode()) for name, value in (*_HEADERS, *page.headers)]
    body = _PAGE.format(page.body).encode() if page.body else b""
    await send({"type": "http.response.start", "status": page.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
