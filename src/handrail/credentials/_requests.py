"""Token requests: what a token endpoint is sent, and what it answers."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from handrail._support.lazy import name_extra

try:
    import httpx2
except ModuleNotFoundError as error:
    raise name_extra(error, __name__, "credentials") from error

from handrail import HandrailError, Refused, ToolFailed, Transient
from handrail._support import is_object
from handrail.credentials.logins import make_client, receive
from handrail.net import Guard

_OK = 200
_CLIENT_ERRORS = range(400, 500)
_TOO_MANY = 429


class TokenRefused(HandrailError):
    """A token endpoint refused: a person must sign in again."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens from a token endpoint."""

    access: str = field(repr=False)
    refresh: str = field(default="", repr=False)
    seconds: float | None = None
    """How long the access token is valid, if it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEndpoint:
    """A token endpoint, and this program's registration there."""

    url: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    basic: bool = False
    """Whether the secret is sent as HTTP Basic."""
    guard: Guard = field(default_factory=Guard, repr=False)
    near: str = ""
    """The service's address, which may have the endpoint without being public."""

    async def request(self, fields: Mapping[str, str]) -> Tokens:
        """Ask for tokens. Raises TokenRefused, or Transient if asking later may help."""
        headers = {"accept": "application/json"}
        form = {"client_id": self.client_id, **fields}
        if self.client_secret and self.basic:
            pair = f"{quote(self.client_id, safe='')}:{quote(self.client_secret, safe='')}"
            headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        elif self.client_secret:
            form["client_secret"] = self.client_secret
        headers["content-type"] = "application/x-www-form-urlencoded"
        sent = httpx2.Request("POST", self.url, headers=headers, content=urlencode(form).encode())
        return _read(await self._send(sent))

    async def _send(self, sent: httpx2.Request) -> httpx2.Response:
        try:
            async with make_client(self.near or self.url, self.guard) as client:
                return await receive(client, sent)
        except httpx2.HTTPError as error:
            raise Transient(f"{sent.url.host} did not give a token.") from error
        except Refused as error:
            raise ToolFailed(f"Not run: {error}") from error


def _read(response: httpx2.Response) -> Tokens:
    status, host = response.status_code, response.request.url.host
    if status in _CLIENT_ERRORS and status != _TOO_MANY:
        raise TokenRefused(f"{host} refused to give a token ({status})")
    if status != _OK:
        raise Transient(f"{host} did not give a token (status {status}).")
    try:
        answer: Any = json.loads(response.content)
    except ValueError:
        answer = None
    access = answer.get("access_token") if is_object(answer) else None
    if not isinstance(access, str) or not access or not access.isascii():
        raise TokenRefused(f"{host} sent an answer without a token")
    if str(answer.get("token_type", "bearer")).lower() not in {"bearer", "n_a"}:
        raise TokenRefused(f"{host} sent a token of another kind")
    refresh, seconds = answer.get("refresh_token"), answer.get("expires_in")
    return Tokens(
        access,
        refresh if isinstance(refresh, str) else "",
        float(seconds) if isinstance(seconds, int | float) else None,
    )
