"""PersonalLogin: each principal signs in at a service once. Its token is refreshed."""

from __future__ import annotations

import hashlib
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from handrail import Context, HandrailError, NeedsLogin
from handrail.credentials._requests import TokenEndpoint, TokenRefused, Tokens
from handrail.credentials._store import TokenStore
from handrail.credentials.logins import check_encrypted
from handrail.net import Guard

CACHE_SECONDS = 5.0
"""How long a process uses a token without asking the store: a sign-out works after this time."""
EARLY_SECONDS = 30.0
"""A token ending so soon is refreshed."""
MAX_CACHED = 10_000
_SECRET_BYTES = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthClient:
    """This program's registration at an authorization server."""

    authorize_url: str
    """Where a person signs in. It may have a query."""
    token_url: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    resource: str = ""
    """The service's address, if the server wants it."""
    issuer: str = ""
    """Who an answer must come from, if the server says so in its answers."""
    needs_issuer: bool = False
    """Whether an answer must say who it comes from."""
    basic: bool = False
    """Whether the secret is sent as HTTP Basic."""
    server_url: str = ""
    """The service's address, if the service itself named the endpoints: they must be public."""

    def __post_init__(self) -> None:
        for url in (self.authorize_url, self.token_url):
            check_encrypted(url)


class LoginProof(NamedTuple):
    """Two random texts. Only the browser of the person signing in has them."""

    state: str
    verifier: str


class PersonalLogin:
    """A source of credentials: each principal signs in at a service, once, by OAuth with PKCE.

    A call without a token ends as ``NeedsLogin``, with the page to open. ``LoginPages`` serves it.

    Args:
        service: The service's name: the same as in ``Credentials``.
        client: This program's registration at the authorization server, or an async function
            returning it, such as ``handrail.mcp.discover_client``.
        store: Where tokens are stored.
        page_url: Where ``LoginPages`` is reached, such as ``https://tools.example.org/sign-in``.
        guard: Which other hosts than ``OAuthClient.server_url`` the token endpoint may be on.
            Default: public ones.
        clock: Returns the time.
    """

    def __init__(
        self,
        service: str,
        client: OAuthClient | Callable[[], Awaitable[OAuthClient]],
        *,
        store: TokenStore,
        page_url: str,
        guard: Guard | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.service = service
        self.page_url = page_url.rstrip("/")
        self._client = client
        self._store = store
        self._guard = guard or Guard()
        self._clock = clock
        self._cached: dict[str, tuple[str, float]] = {}
        """By principal: a token, and until when it is used without asking the store."""

    def __repr__(self) -> str:
        return f"PersonalLogin({self.service!r})"

    async def __call__(self, context: Context[Any]) -> str:
        """Return a principal's token. Raises NeedsLogin if the principal must sign in."""
        token, until = self._cached.get(context.principal or "", ("", 0.0))
        if token and self._clock() < until:
            return token
        return await self.renew(context, "")

    async def renew(self, context: Context[Any], refused: str) -> str:
        """Return another token than the refused one, or raise NeedsLogin."""
        principal = context.principal or ""
        self._cached.pop(principal, None)
        entry = await self._store.get(self.service, principal)
        if not self._is_usable(entry, refused):
            entry = await self._refresh(principal, refused)
        return self._keep(principal, entry)

    async def forget(self, principal: str) -> bool:
        """Sign a principal out. Returns whether it was signed in."""
        self._cached.pop(principal, None)
        return await self._store.forget(self.service, principal)

    # -- signing in ------------------------------------------------------------------------------

    async def begin(self, redirect_url: str) -> tuple[str, LoginProof]:
        """Return the address where a person signs in, and what its browser must keep."""
        client = await self._find_client()
        proof = LoginProof(*(secrets.token_urlsafe(_SECRET_BYTES) for _ in LoginProof._fields))
        digest = hashlib.sha256(proof.verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": redirect_url,
            "scope": client.scope,
            "resource": client.resource,
            "state": proof.state,
            "code_challenge": urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        parts = urlsplit(client.authorize_url)
        query = dict(parse_qsl(parts.query)) | {key: value for key, value in asked.items() if value}
        return urlunsplit(parts._replace(query=urlencode(query), fragment="")), proof

    async def finish(
        self, principal: str, proof: LoginProof, answer: Mapping[str, str], redirect_url: str
    ) -> None:
        """Store the token for a principal whose browser came back. Raises HandrailError."""
        client = await self._find_client()
        if not secrets.compare_digest(answer.get("state", ""), proof.state):
            raise HandrailError("this is not the login that was begun")
        sender = answer.get("iss", "")
        if client.issuer and sender != client.issuer and (sender or client.needs_issuer):
            raise HandrailError("the answer is from another authorization server")
        if not answer.get("code"):
            raise HandrailError("the authorization server gave no code")
        fields = {
            "grant_type": "authorization_code",
            "code": answer["code"],
            "redirect_uri": redirect_url,
            "code_verifier": proof.verifier,
            "resource": client.resource,
        }
        tokens = await self._request(client, fields)
        async with self._store.lease(self.service, principal):
            await self._store.put(self.service, principal, self._write(client, tokens))
        self._cached.pop(principal, None)

    # -- tokens ----------------------------------------------------------------------------------

    async def _refresh(self, principal: str, refused: str) -> dict[str, Any]:
        """Return a principal's usable entry. One task of one process refreshes it."""
        async with self._store.lease(self.service, principal):
            entry = await self._store.get(self.service, principal)
            if self._is_usable(entry, refused):  # another one was faster
                return entry
            client, used = await self._find_client(), entry.get("refresh", "")
            if not used or entry.get("client") != client.client_id:
                raise self._ask()
            fields = {
                "grant_type": "refresh_token",
                "refresh_token": used,
                "resource": client.resource,
            }
            try:
                tokens = await self._request(client, fields)
            except TokenRefused:
                await self._store.put(self.service, principal, {})
                raise self._ask() from None
            entry = self._write(client, tokens, used)
            await self._store.put(self.service, principal, entry)
            return entry

    async def _request(self, client: OAuthClient, fields: Mapping[str, str]) -> Tokens:
        endpoint = TokenEndpoint(
            url=client.token_url,
            client_id=client.client_id,
            client_secret=client.client_secret,
            basic=client.basic,
            guard=self._guard,
            near=client.server_url or client.token_url,
        )
        return await endpoint.request({key: value for key, value in fields.items() if value})

    def _write(self, client: OAuthClient, tokens: Tokens, refresh: str = "") -> dict[str, Any]:
        ends = None if tokens.seconds is None else self._clock() + tokens.seconds
        return {
            "access": tokens.access,
            "refresh": tokens.refresh or refresh,
            "ends": ends,
            "client": client.client_id,
        }

    def _is_usable(self, entry: Mapping[str, Any], refused: str) -> bool:
        access, ends = entry.get("access", ""), entry.get("ends")
        lasts = ends is None or self._clock() < ends - EARLY_SECONDS
        return bool(access) and access != refused and lasts

    def _keep(self, principal: str, entry: Mapping[str, Any]) -> str:
        if len(self._cached) >= MAX_CACHED:
            self._cached.clear()
        until = self._clock() + CACHE_SECONDS
        self._cached[principal] = str(entry["access"]), min(until, entry["ends"] or until)
        return str(entry["access"])

    def _ask(self) -> NeedsLogin:
        return NeedsLogin(
            f"Sign in at {self.service!r} first.", url=f"{self.page_url}/{self.service}"
        )

    async def _find_client(self) -> OAuthClient:
        if isinstance(self._client, OAuthClient):
            return self._client
        return await self._client()
