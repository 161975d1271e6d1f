"""Signs people in at an OpenID Connect provider: authorization code with PKCE.

The only module that imports Authlib, which writes the requests and checks the ID token. The
requests are sent here: without redirects, within limits, and only over TLS.
"""

from __future__ import annotations

import hmac
import json
import secrets
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NamedTuple, cast

import anyio

from handrail._support.lazy import name_extra

try:
    import httpx2
    from authlib.oauth2.client import OAuth2Client
    from authlib.oauth2.rfc6749.parameters import prepare_token_request
    from authlib.oidc.core.claims import CodeIDToken
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet
    from joserfc.jws import JWSRegistry
except ModuleNotFoundError as error:
    raise name_extra(error, __name__, "console-oidc") from error

from handrail import HandrailError, Refused, ToolFailed
from handrail.net._addresses import is_loopback
from handrail.net._url import Url, parse_url

ALGORITHMS = ("ES256", "PS256", "RS256")  # fixed: the provider's list is not asked: decision 076
"""How an ID token may be signed: by a provider's private key. No ``none``, and no HMAC."""
LOGIN_SECONDS = 600.0
MAX_BYTES = 256 * 1024
_METADATA_SECONDS = 3600.0
_REQUEST_SECONDS = 15.0
_LEEWAY_SECONDS = 30
_CODE_BYTES = 32
_FORM = {
    "accept": "application/json",
    "content-type": "application/x-www-form-urlencoded",
}


class OidcError(HandrailError):
    """A person is not signed in, and why. For the log: the provider may have written parts."""


class LoginProof(NamedTuple):
    """Three random texts. Only the browser of the person signing in stores them."""

    state: str
    nonce: str
    verifier: str


@dataclass(slots=True, kw_only=True)
class OidcClient:
    """One provider's client."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    scopes: tuple[str, ...]
    clock: Callable[[], float]
    _tls: ssl.SSLContext = field(default_factory=httpx2.create_ssl_context, init=False, repr=False)
    _metadata: dict[str, Any] = field(default_factory=dict[str, Any], init=False)
    _read_at: float = field(default=float("-inf"), init=False)
    _used: dict[str, float] = field(default_factory=dict[str, float], init=False)
    """Used states, and when."""

    def __post_init__(self) -> None:
        self._check_url(self.issuer)

    async def start(self, redirect: str) -> tuple[str, LoginProof]:
        """Return the address at which a person signs in, and what their browser keeps.

        Args:
            redirect: The address to which the provider sends the browser afterwards.
        """
        login = LoginProof(*(secrets.token_urlsafe(_CODE_BYTES) for _ in LoginProof._fields))
        metadata = await self._discover()
        address, _ = self._make_client(redirect).create_authorization_url(
            metadata["authorization_endpoint"],
            state=login.state,
            code_verifier=login.verifier,
            nonce=login.nonce,
        )
        return str(address), login

    async def finish(
        self, login: LoginProof, redirect: str, answer: Mapping[str, str]
    ) -> Mapping[str, Any]:
        """Return the claims about the person. Raises OidcError.

        Args:
            login: What this browser kept.
            redirect: The same address as at the start.
            answer: The query with which the provider sent the browser back.
        """
        if not hmac.compare_digest(answer.get("state", "").encode(), login.state.encode()):
            raise OidcError("the state is not the one of this browser")
        if answer.get("iss", self.issuer) != self.issuer:
            raise OidcError("the answer is from another issuer")
        if "code" not in answer:
            raise OidcError(f"the provider sent no code, but {answer.get('error', '')[:100]!a}")
        now = self.clock()
        self._used = {one: at for one, at in self._used.items() if now - at < LOGIN_SECONDS}
        if login.state in self._used:
            raise OidcError("the answer was used before")
        self._used[login.state] = now
        try:
            return await self._exchange(login, redirect, answer["code"])
        except OidcError:
            self._used.pop(login.state, None)  # only people who signed in take space
            raise

    async def _exchange(self, login: LoginProof, redirect: str, code: str) -> Mapping[str, Any]:
        metadata = await self._discover()
        body = prepare_token_request(
            "authorization_code", redirect_uri=redirect, code=code, code_verifier=login.verifier
        )
        known = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        method = "client_secret_basic" if "client_secret_basic" in known else "client_secret_post"
        client = self._make_client(redirect)
        url, headers, sent = client.client_auth(method if self.client_secret else "none").prepare(
            "POST", metadata["token_endpoint"], dict(_FORM), body
        )
        token = await self._fetch(url, headers=headers, body=sent)
        # read for each sign-in, to know a new key and forget an old one
        keys = await self._fetch(metadata["jwks_uri"])
        return self._check_token(token, keys, login.nonce)

    def _check_token(
        self, token: Mapping[str, Any], keys: Mapping[str, Any], nonce: str
    ) -> Mapping[str, Any]:
        options = {
            "iss": {"essential": True, "value": self.issuer},
            "aud": {"essential": True, "value": self.client_id},
            "sub": {"essential": True},
        }
        access = token.get("access_token")
        params = {"nonce": nonce, "client_id": self.client_id, "access_token": access}
        registry = JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
        try:
            found = jwt.decode(
                token["id_token"], KeySet.import_key_set(cast("Any", keys)), registry=registry
            )
            claims = CodeIDToken(found.claims, found.header, options, params)
            claims.validate(now=int(self.clock()), leeway=_LEEWAY_SECONDS)
        except (JoseError, LookupError, TypeError, ValueError) as error:
            raise OidcError(f"the ID token is not valid: {error}") from None
        return dict(claims)

    async def _discover(self) -> dict[str, Any]:
        """Return what the provider says about itself. It is read again after an hour."""
        if self.clock() - self._read_at >= _METADATA_SECONDS:
            place = f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
            found = await self._fetch(place)
            if found.get("issuer") != self.issuer:
                raise OidcError("the provider has another issuer than the settings")
            for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                self._check_url(str(found.get(name, "")))
            self._metadata, self._read_at = found, self.clock()
        return self._metadata

    async def _fetch(
        self, url: str, *, headers: Mapping[str, str] | None = None, body: str | None = None
    ) -> dict[str, Any]:
        """Return the JSON object at an address."""
        content = bytearray()
        method = "GET" if body is None else "POST"
        try:
            with anyio.fail_after(_REQUEST_SECONDS):
                async with (
                    httpx2.AsyncClient(timeout=_REQUEST_SECONDS, verify=self._tls) as client,
                    client.stream(method, url, headers=headers, content=body) as response,
                ):
                    async for piece in response.aiter_bytes():
                        content += piece
                        if len(content) > MAX_BYTES:
                            raise OidcError("the provider sent too much")
            value: Any = json.loads(content) if response.status_code == HTTPStatus.OK else None
        except (
            httpx2.HTTPError,
            httpx2.InvalidURL,
            TimeoutError,
            ValueError,
            RecursionError,
        ) as error:
            raise OidcError(f"the provider did not answer: {type(error).__name__}") from None
        if not isinstance(value, dict):
            raise OidcError(f"the provider answered with {response.status_code}")
        return cast("dict[str, Any]", value)

    def _make_client(self, redirect: str) -> Any:
        return OAuth2Client(
            None,
            self.client_id,
            self.client_secret,
            scope=list(self.scopes),
            redirect_uri=redirect,
            code_challenge_method="S256",
        )

    def _check_url(self, url: str) -> None:
        """Refuse an address without TLS, unless it and the issuer are on this machine."""
        try:
            parsed, issuer = parse_url(url), parse_url(self.issuer)
        except (Refused, ToolFailed) as error:
            raise OidcError(f"{url!a} is not an address of a provider: {error}") from None
        if parsed.scheme != "https" and not (_is_here(parsed) and _is_here(issuer)):
            raise OidcError(f"{url!a} is not an address of a provider: it must begin with https://")


def _is_here(url: Url) -> bool:
    return url.scheme == "http" and is_loopback(url.host)
