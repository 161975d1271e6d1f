"""A real OpenID Connect provider on loopback, which can be told to misbehave."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import anyio
import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from handrail.net import serve_app

CLIENT = "console"
SECRET = "a secret of the client"  # noqa: S105  of a test
_SECONDS = 60


@dataclass
class Provider:
    """Signs everyone in as ``person``, unless it is told otherwise."""

    issuer: str = ""
    person: dict[str, Any] = field(default_factory=dict[str, Any])
    change: Callable[[dict[str, Any]], dict[str, Any]] = field(default=lambda claims: claims)
    """Changes the claims of an ID token before it is signed."""
    sign: Callable[[dict[str, Any]], str] | None = None
    """Signs the claims in another way."""
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    """What the provider says about itself in place of the truth."""
    refusal: dict[str, str] = field(default_factory=dict[str, str])
    """What it sends back in place of a code."""
    takes_codes_again: bool = False
    knows_pkce: bool = True
    public: bool = False
    """Whether the client has no secret."""
    broken: Response | None = None
    """What the token endpoint answers in place of a token."""
    more: dict[str, Any] = field(default_factory=dict[str, Any])
    """What it answers beside a token."""
    asked: list[str] = field(default_factory=list[str])
    """The paths that were requested."""

    def __post_init__(self) -> None:
        self._codes: dict[str, dict[str, str]] = {}
        self.rotate()

    def reset(self) -> None:
        """Behave again."""
        fresh = Provider(issuer=self.issuer)
        fresh.person = {"sub": "7", "email": "ana@example.com", "groups": ["approvers", "unknown"]}
        self.__dict__.update(fresh.__dict__)

    def rotate(self) -> None:
        """Sign with another key from now on."""
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.kid = secrets.token_hex(4)

    @property
    def jwks(self) -> dict[str, Any]:
        """The public keys."""
        known = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [{**known, "kid": self.kid, "use": "sig", "alg": "ES256"}]}

    def make_app(self) -> Starlette:
        """Return the provider as an application."""
        return Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._describe),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
                Route("/elsewhere", self._give_token, methods=["POST"]),
                Route("/keys", self._keys),
            ]
        )

    async def _describe(self, request: Request) -> Response:
        self.asked.append(request.url.path)
        return JSONResponse(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                **self.metadata,
            }
        )

    async def _authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        assert (asked["client_id"], asked["response_type"]) == (CLIENT, "code")
        assert asked["code_challenge_method"] == "S256"
        assert asked["scope"].split() == ["openid", "email"]
        code = secrets.token_urlsafe()
        self._codes[code] = asked
        answer = {"state": asked["state"], **(self.refusal or {"code": code})}
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(answer)}", 302)

    async def _token(self, request: Request) -> Response:
        self.asked.append(request.url.path)
        return self.broken or await self._give_token(request)

    async def _give_token(self, request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        asked = self._codes.get(form["code"])
        if not self.takes_codes_again:
            self._codes.pop(form["code"], None)
        proof = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(proof).decode().rstrip("=")
        if (
            asked is None
            or (self.knows_pkce and challenge != asked["code_challenge"])
            or form["redirect_uri"] != asked["redirect_uri"]
            or not self._knows(request, form)
        ):
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, **self.person}
        claims = self.change({**claims, "nonce": asked["nonce"]})
        token = self.sign(claims) if self.sign else self.sign_with(claims)
        body = {"access_token": "a", "token_type": "Bearer", "id_token": token}
        return JSONResponse(body | self.more)

    def sign_with(self, claims: dict[str, Any], key: Any = None, **header: Any) -> str:
        """Sign claims with a key of the provider, or with another one."""
        algorithm = header.pop("alg", "ES256")
        return jwt.encode(
            claims, key or self.key, algorithm=algorithm, headers={"kid": self.kid, **header}
        )

    def _knows(self, request: Request, form: dict[str, str]) -> bool:
        if self.public:
            return form["client_id"] == CLIENT and "authorization" not in request.headers
        if "token_endpoint_auth_methods_supported" in self.metadata:
            return (form["client_id"], form["client_secret"]) == (CLIENT, SECRET)
        pair = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        return request.headers.get("authorization") == f"Basic {pair}"

    async def _keys(self, request: Request) -> Response:
        self.asked.append(request.url.path)
        return JSONResponse(self.jwks)


@contextmanager
def providing() -> Generator[Provider]:
    """Serve a provider in a thread."""
    listening = socket.create_server(("127.0.0.1", 0))
    provider = Provider(issuer=f"http://127.0.0.1:{listening.getsockname()[1]}")
    provider.reset()
    ended = threading.Event()

    async def run() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(serve_app, provider.make_app(), listening)
            await anyio.to_thread.run_sync(ended.wait)
            group.cancel_scope.cancel()

    thread = threading.Thread(target=anyio.run, args=(run,))
    thread.start()
    try:
        yield provider
    finally:
        ended.set()
        thread.join(_SECONDS)
        listening.close()
