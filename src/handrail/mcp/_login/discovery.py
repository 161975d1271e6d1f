"""Discovery: how people sign in at a server, as the server says. The SDK asks and registers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import anyio
import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)

from handrail import HandrailError, ToolFailed
from handrail._support.visible import spell_out
from handrail.credentials import OAuthClient, TokenStore
from handrail.credentials.logins import make_client, receive
from handrail.mcp._login.flow import check_address
from handrail.net import Guard

_SECONDS = 60.0
_UNAUTHORIZED = 401
_PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_ACCEPT = {"accept": "application/json, text/event-stream"}
_BASIC = "client_secret_basic"
_OWN_PARTS = frozenset(
    {"response_type", "client_id", "redirect_uri", "state", "code_challenge"}
    | {"code_challenge_method", "scope", "resource"}
)
"""What each login adds to the address for itself."""


def discover_client(  # noqa: PLR0913  each is an option with a default
    service: str,
    url: str,
    *,
    store: TokenStore,
    page_url: str,
    metadata_url: str = "",
    name: str = "handrail",
    guard: Guard | None = None,
) -> Callable[[], Awaitable[OAuthClient]]:
    """Return a function finding how people sign in at an MCP server, for ``PersonalLogin``.

    It asks the server once, and registers this program there. The registration is in the store, so
    several processes share it.

    Args:
        service: The service's name.
        url: The server's address.
        store: Where the registration is stored.
        page_url: Where ``LoginPages`` is reached.
        metadata_url: Your client id metadata document's address. A server supporting these needs
            no registration.
        name: The name people see when they sign in.
        guard: Which hosts the server may name. Default: public ones.
    """
    redirect_url = f"{page_url.rstrip('/')}/{service}/callback"
    known: list[OAuthClient] = []

    async def find() -> OAuthClient:
        if not known:
            async with store.lease(service, ""):
                entry = await store.get(service, "")
                if entry.get("redirect_url") != redirect_url or entry.get("url") != url:
                    about = {"client_name": name, "redirect_uris": [redirect_url]}
                    asker = _Asker(url, OAuthClientMetadata.model_validate(about), metadata_url)
                    found = await asker.ask(guard or Guard())
                    entry = {"redirect_url": redirect_url, "url": url, "client": asdict(found)}
                    await store.put(service, "", entry)
            client: Any = entry["client"]
            known.append(OAuthClient(**client))
        return known[0]

    return find


class _Asker:
    """Takes the SDK's login as far as the address to sign in at. The storage stays empty."""

    def __init__(self, url: str, about: OAuthClientMetadata, metadata_url: str) -> None:
        self._url = url
        self._address = ""
        self._scope = anyio.CancelScope()
        self._provider = OAuthClientProvider(
            url, about, self, self._stop, _never, client_metadata_url=metadata_url or None
        )

    async def ask(self, guard: Guard) -> OAuthClient:
        """Return how people sign in. Raises ToolFailed."""
        try:
            with anyio.fail_after(_SECONDS), self._scope:
                await self._drive(guard)
        except TimeoutError:
            raise ToolFailed(f"{urlsplit(self._url).hostname} did not answer in time.") from None
        except Exception as error:
            why = spell_out(str(error)) or type(error).__name__
            raise ToolFailed(
                f"It is not known how to sign in at {urlsplit(self._url).hostname}: {why}"
            ) from error
        return self._read()

    async def _drive(self, guard: Guard) -> None:
        request = httpx2.Request("POST", self._url, json=_PING, headers=_ACCEPT)
        async with make_client(self._url, guard) as client:
            refused = await receive(client, request)
            challenge = {"WWW-Authenticate": refused.headers.get("www-authenticate", "")}
            flow = self._provider.async_auth_flow(request)
            try:
                await anext(flow)
                sent = await flow.asend(
                    httpx2.Response(_UNAUTHORIZED, headers=challenge, request=request)
                )
                while sent is not request:
                    sent = await flow.asend(await receive(client, sent))
            finally:
                await flow.aclose()

    async def _stop(self, address: str) -> None:
        """Take the address, and end the SDK's login here: each person has one of its own."""
        check_address(self._provider, address)
        self._address = address
        self._scope.cancel()
        await anyio.lowlevel.checkpoint()

    def _read(self) -> OAuthClient:
        context = self._provider.context
        metadata, client = context.oauth_metadata, context.client_info
        if not self._address or metadata is None or client is None:
            raise HandrailError(f"{urlsplit(self._url).hostname} does not ask for a login.")
        parts = urlsplit(self._address)
        query = dict(parse_qsl(parts.query))
        fixed = urlencode({key: one for key, one in query.items() if key not in _OWN_PARTS})
        return OAuthClient(
            authorize_url=urlunsplit(parts._replace(query=fixed, fragment="")),
            token_url=str(metadata.token_endpoint),
            client_id=client.client_id,
            client_secret=client.client_secret or "",
            scope=query.get("scope", ""),
            resource=query.get("resource", ""),
            issuer=str(metadata.issuer),
            needs_issuer=bool(metadata.authorization_response_iss_parameter_supported),
            basic=client.token_endpoint_auth_method == _BASIC,
            server_url=self._url,
        )

    # -- the SDK's storage -----------------------------------------------------------------------

    async def get_tokens(self) -> OAuthToken | None:
        """Return nothing: a person's tokens are elsewhere."""

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store nothing: the SDK gets none."""

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return nothing: this is a new registration."""

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store nothing: the registration is read from the SDK."""


async def _never() -> AuthorizationCodeResult:
    await anyio.sleep_forever()
    raise AssertionError  # not reached
