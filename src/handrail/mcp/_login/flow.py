"""Login: signs a person in at a server, by OAuth. The flow is the SDK's."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextvars import copy_context
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata
from typing_extensions import override

from handrail import HandrailError, Refused, ToolFailed
from handrail._support.loop import spawn
from handrail._support.visible import spell_out
from handrail.credentials.logins import make_client, receive
from handrail.mcp._login.callback import Callback
from handrail.mcp._login.tokens import StoredTokens, TokenFile
from handrail.net import Guard, is_loopback

LOGIN_SECONDS = 600.0
"""How long a person has to sign in."""
_START_SECONDS = 30.0
_PUBLIC = Guard()
_UNAUTHORIZED = 401

log = logging.getLogger("handrail.mcp")


class Login:
    """Signs a user in, for ``HttpServer(auth=...)``.

    A call needing a login ends as ``NeedsLogin``, with the address to open. The login waits in the
    background: once the user has signed in, the same call succeeds.

    Args:
        tokens: Where tokens are stored.
        client_id: This program's registration at the server. By default, it registers itself.
        client_secret: The registration's secret, if any.
        port: The local port for the browser's return. Default: a free one.
        seconds: How long the user has to sign in.
        guard: Which hosts the server may send the login to. Default: public ones.
    """

    def __init__(
        self,
        tokens: TokenFile,
        *,
        client_id: str = "",
        client_secret: str = "",
        port: int = 0,
        seconds: float = LOGIN_SECONDS,
        guard: Guard = _PUBLIC,
    ) -> None:
        self._tokens = tokens
        self._client_id = client_id
        self._client_secret = client_secret
        self._port = port
        self._seconds = seconds
        self._guard = guard
        self._running: _Attempt | None = None

    def make_auth(self, url: str) -> httpx2.Auth:
        """Return an auth adding a server's token to requests, and refreshing it."""
        return _Bearer(url, self._tokens.for_address(url))

    async def start(self, url: str, challenge: str = "") -> str:
        """Begin a login at a server, or return the running one.

        Returns the address for the user to open. Raises ToolFailed if there is none.

        Args:
            url: The server's address.
            challenge: The ``WWW-Authenticate`` header from its refusal.
        """
        attempt = self._running
        if attempt is None or attempt.ended.is_set() or attempt.url != url:
            attempt = self._running = _Attempt(url, challenge, self._seconds, self._guard)
            attempt.begin(self._tokens.for_address(url), self._make_client_info(), self._port)
        with anyio.move_on_after(_START_SECONDS):
            await attempt.known.wait()
        if not attempt.address:
            raise ToolFailed(f"The login at {urlsplit(url).hostname} failed: {attempt.problem}")
        return attempt.address

    async def wait(self) -> None:
        """Wait until the running login ends. Raises HandrailError if it failed."""
        if self._running is None:
            raise HandrailError("No login was begun.")
        await self._running.ended.wait()
        if self._running.problem:
            raise HandrailError(f"The login failed: {self._running.problem}")

    def _make_client_info(self) -> OAuthClientInformationFull | None:
        if not self._client_id:
            return None
        secret = self._client_secret
        return OAuthClientInformationFull(
            client_id=self._client_id,
            client_secret=secret or None,
            token_endpoint_auth_method="client_secret_basic" if secret else "none",
        )


class _Bearer(httpx2.Auth):
    """Adds the stored token. If the server refuses it, a person must sign in."""

    def __init__(self, url: str, stored: StoredTokens) -> None:
        self._url = url
        self._stored = stored
        self._provider = self._make_provider()
        self._lock = anyio.Lock()
        """Held while a token is read or refreshed: a refresh may work only once."""

    def _make_provider(self) -> OAuthClientProvider:
        return OAuthClientProvider(self._url, _describe_client("http://127.0.0.1/"), self._stored)

    @override
    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        async with self._lock:
            if not self._provider.context.is_token_valid():  # a person may have signed in since
                self._provider = self._make_provider()
                self._provider.context.oauth_metadata = await self._stored.get_metadata()
            flow = self._provider.async_auth_flow(request)
            try:
                sent = await anext(flow)
                while sent is not request:
                    sent = await flow.asend((yield sent))
            finally:
                await flow.aclose()  # what follows a refusal is for a person
        yield request


class _Attempt:
    """One login, in a separate task."""

    def __init__(self, url: str, challenge: str, seconds: float, guard: Guard) -> None:
        self.url = url
        self.address = ""
        """What the person opens."""
        self.problem = "it was given up"
        self.known = anyio.Event()
        """Set when the address is known, or the attempt has failed."""
        self.ended = anyio.Event()
        self._challenge = challenge
        self._guard = guard
        self._seconds = seconds
        self._task: object = None
        self._serving: object = None

    def begin(
        self, stored: StoredTokens, client: OAuthClientInformationFull | None, port: int
    ) -> None:
        """Start the task."""
        self._task = spawn(copy_context(), self._own, stored, client, port, lost=self._finish)

    def _finish(self, *_: object) -> None:
        self.known.set()
        self.ended.set()

    async def _own(
        self, stored: StoredTokens, client: OAuthClientInformationFull | None, port: int
    ) -> None:
        """Never raises, except if the event loop ends."""
        try:
            with anyio.fail_after(self._seconds):
                await self._sign_in(stored, client, await Callback.bind(port))
            self.problem = ""
        except TimeoutError:
            self.problem = f"the person did not sign in within {self._seconds:g} s"
        except Exception as error:  # noqa: BLE001 from the SDK or a server
            self.problem = spell_out(str(error)) or type(error).__name__
        finally:
            self._finish()

    async def _sign_in(
        self,
        stored: StoredTokens,
        client: OAuthClientInformationFull | None,
        callback: Callback,
    ) -> None:
        async def show(address: str) -> None:
            check_address(provider, address)
            if client is not None and provider.context.client_info is client:
                await stored.set_client_info(_choose_method(client, provider))
            callback.expect(parse_qs(urlsplit(address).query)["state"][0])
            self.address = address
            self.known.set()

        fresh = _Fresh(stored, client)
        about = _describe_client(callback.url)
        provider = OAuthClientProvider(self.url, about, fresh, show, callback.wait)
        try:
            await anyio.lowlevel.checkpoint()  # if the loop ends now, no task may be made
            self._serving = spawn(copy_context(), callback.serve)  # one of a group may never begin
            await self._drive(provider)
        finally:
            await callback.close()
        metadata: Any = provider.context.oauth_metadata  # checked before the person was asked
        await stored.set_metadata(metadata)

    async def _drive(self, provider: OAuthClientProvider) -> None:
        """Take the flow from the server's refusal to the token, without repeating the request."""
        request = httpx2.Request("POST", self.url)
        refused = httpx2.Response(
            _UNAUTHORIZED, headers={"WWW-Authenticate": self._challenge}, request=request
        )
        flow = provider.async_auth_flow(request)
        async with make_client(self.url, self._guard) as client:
            try:
                await anext(flow)
                sent = await flow.asend(refused)
                while sent is not request:
                    sent = await flow.asend(await receive(client, sent))
            finally:
                await flow.aclose()


class _Fresh:
    """Tokens for a new login: what is stored is replaced, not used."""

    def __init__(self, stored: StoredTokens, client: OAuthClientInformationFull | None) -> None:
        self._stored = stored
        self._client = client
        self.set_tokens = stored.set_tokens
        self.set_client_info = stored.set_client_info

    async def get_tokens(self) -> None:
        """Return nothing: the server refused what there is."""

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return this program's registration. The port in another one may be taken."""
        return self._client


def check_address(provider: OAuthClientProvider, address: str) -> None:
    """Reject unsafe addresses, and servers without PKCE."""
    metadata = provider.context.oauth_metadata
    methods = None if metadata is None else metadata.code_challenge_methods_supported
    if "S256" not in (methods or ()):
        raise Refused("the authorization server does not support PKCE with S256")
    parts = urlsplit(address)
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise Refused("the address to sign in at is not encrypted")


def _choose_method(
    client: OAuthClientInformationFull, provider: OAuthClientProvider
) -> OAuthClientInformationFull:
    """Choose how a secret is sent: as HTTP Basic, unless the server takes it only in the body."""
    metadata = provider.context.oauth_metadata
    methods = None if metadata is None else metadata.token_endpoint_auth_methods_supported
    if client.client_secret and methods and "client_secret_basic" not in methods:
        client.token_endpoint_auth_method = "client_secret_post"  # noqa: S105  a method
    return client


def _describe_client(callback: str) -> OAuthClientMetadata:
    about = {"client_name": "handrail", "redirect_uris": [callback]}
    return OAuthClientMetadata.model_validate(about)
