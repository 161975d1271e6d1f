"""Sign in to a site at an OpenID Connect provider: to it, back from it, and a session after it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

from handrail.net._oidc import LOGIN_SECONDS, LoginProof, OidcClient, OidcError
from handrail.net.cookies import SignedCookie

SESSION_SECONDS = 12 * 3600.0
MAX_TARGET_CHARS = 1_000
MAX_NAME_CHARS = 254
"""A mail address is not longer."""
_SESSION_BYTES = 16


class Redirect(NamedTuple):
    """Where to send a browser, and the cookies to set."""

    url: str
    cookies: tuple[str, ...]


class SignedIn(NamedTuple):
    """A person who has signed in."""

    session: str
    """Random, and another one after each sign-in."""
    subject: str
    name: str
    groups: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class SignIn:
    """Signs people in to the pages below a path. Raises OidcError if it does not work.

    Processes with the same key know each other's sessions.
    """

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    scopes: tuple[str, ...]
    groups: str
    """The claim with the person's groups."""
    name: str
    """The claim with the person's name."""
    known: Collection[str]
    """The groups a session stores. A cookie has room for 4 kB."""
    base: str
    https: bool
    key: bytes = field(repr=False)
    clock: Callable[[], float]
    _client: OidcClient = field(init=False)
    _session: SignedCookie = field(init=False)
    _login: SignedCookie = field(init=False)

    def __post_init__(self) -> None:
        self._client = OidcClient(
            issuer=self.issuer,
            client_id=self.client_id,
            client_secret=self.client_secret,
            scopes=self.scopes,
            clock=self.clock,
        )
        # browsers take __Host- only from this very host, and __Secure- only over TLS
        prefix = ("__Secure-" if self.base else "__Host-") if self.https else ""
        self._session = SignedCookie(
            name=f"{prefix}handrail-session",
            path=f"{self.base}/",
            key=self.key,
            clock=self.clock,
            seconds=SESSION_SECONDS,
            attributes=f"HttpOnly; SameSite=Lax{'; Secure' if self.https else ''}",
        )
        name = f"{prefix}handrail-login"
        self._login = replace(self._session, name=name, seconds=LOGIN_SECONDS)

    async def start(self, host: str, target: str) -> Redirect:
        """Send a browser to the provider.

        Args:
            host: The name under which the browser reaches the site. It must be checked.
            target: The path below ``base`` to which the person wants to go. From outside.
        """
        url, login = await self._client.start(self._address(host, "/callback"))
        return Redirect(url, (self._login.make(_clean(target), *login),))

    async def finish(
        self, host: str, *, answer: Mapping[str, str], cookies: Mapping[str, str]
    ) -> Redirect:
        """Accept a browser returning from the provider.

        Args:
            host: The same as at the start.
            answer: The query in the browser's request.
            cookies: Its cookies. Without the one from the start, someone else began this.
        """
        kept = self._login.read(cookies)
        if not kept:
            raise OidcError("this browser did not begin to sign in, or took too long")
        redirect, login = self._address(host, "/callback"), LoginProof(*kept[1:])
        claims = await self._client.finish(login, redirect, answer)
        url = self._address(host, kept[0])
        return Redirect(url, (self._begin(claims), self._login.end()))

    def read(self, cookies: Mapping[str, str]) -> SignedIn | None:
        """Return the person with a session's cookie."""
        found = self._session.read(cookies)
        if found[:1] != [self.issuer]:
            return None
        _, session, subject, name, *groups = found
        return SignedIn(session, subject, name, tuple(groups))

    def end(self) -> str:
        """Return the cookie to end the session in this browser."""
        return self._session.end()

    def _begin(self, claims: Mapping[str, Any]) -> str:
        session, subject = secrets.token_urlsafe(_SESSION_BYTES), str(claims["sub"])
        name = str(claims.get(self.name) or subject)[:MAX_NAME_CHARS]
        found: Any = claims.get(self.groups, ())
        several = cast("list[object]", found if isinstance(found, list) else [found])
        groups = [one for one in several if isinstance(one, str) and one in self.known]
        return self._session.make(self.issuer, session, subject, name, *groups)

    def _address(self, host: str, path: str) -> str:
        """Return a whole address on this site: no path leads to another host."""
        return f"{'https' if self.https else 'http'}://{host}{self.base}{path}"


def _clean(target: str) -> str:
    """Return a path beginning with a slash and fitting in a cookie."""
    plain = target.isascii() and target.isprintable() and len(target) <= MAX_TARGET_CHARS
    return target if plain and target.startswith("/") else "/"
