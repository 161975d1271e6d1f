"""TokenExchange: a caller's own token, exchanged for a service's token (RFC 8693)."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from handrail import Context, NeedsLogin, ToolFailed
from handrail.credentials._requests import TokenEndpoint, TokenRefused, Tokens
from handrail.credentials.logins import check_encrypted

MAX_TOKENS = 10_000
EARLY_SECONDS = 30.0
"""A token ending so soon is replaced."""
_DEFAULT_SECONDS = 60.0
_GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
_TYPE = "urn:ietf:params:oauth:token-type:access_token"


@dataclass(slots=True, kw_only=True)
class TokenExchange:
    """A credential source: exchanges each principal's own token (RFC 8693).

    The authorization server decides who gets a token. Tokens are kept in memory, by principal and
    by the token they were exchanged for.
    """

    token_url: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    subject: Callable[[Context[Any]], str | Awaitable[str]]
    """Returns the principal's own token, such as ``handrail.mcp.server.caller_token``."""
    audience: str = ""
    """The service, as the authorization server calls it."""
    resource: str = ""
    """The service's address."""
    scope: str = ""
    subject_type: str = _TYPE
    """The own token's kind."""
    basic: bool = False
    """Whether the secret is sent as HTTP Basic."""
    clock: Callable[[], float] = field(default=time.time, repr=False)
    _kept: OrderedDict[tuple[str, bytes], tuple[str, float]] = field(
        default_factory=OrderedDict[tuple[str, bytes], tuple[str, float]], init=False, repr=False
    )

    def __post_init__(self) -> None:
        check_encrypted(self.token_url)

    async def __call__(self, context: Context[Any]) -> str:
        """Return the token for a call's principal."""
        return await self.renew(context, "")

    async def renew(self, context: Context[Any], refused: str) -> str:
        """Return another token than the refused one."""
        found = self.subject(context)
        own = found if isinstance(found, str) else await found
        if not own:
            raise ToolFailed("Not run: this user's own token is not known. Tell the user.")
        key = (context.principal or "", hashlib.sha256(own.encode()).digest())
        kept, ends = self._kept.get(key, ("", 0.0))
        if kept and kept != refused and self.clock() < ends - EARLY_SECONDS:
            self._kept.move_to_end(key)
            return kept
        tokens = await self._exchange(own)
        self._kept[key] = tokens.access, self.clock() + (tokens.seconds or _DEFAULT_SECONDS)
        self._kept.move_to_end(key)
        while len(self._kept) > MAX_TOKENS:
            self._kept.popitem(last=False)
        return tokens.access

    async def _exchange(self, own: str) -> Tokens:
        endpoint = TokenEndpoint(
            url=self.token_url,
            client_id=self.client_id,
            client_secret=self.client_secret,
            basic=self.basic,
            near=self.token_url,
        )
        asked = {"audience": self.audience, "resource": self.resource, "scope": self.scope}
        fields = {
            "grant_type": _GRANT,
            "subject_token": own,
            "subject_token_type": self.subject_type,
            "requested_token_type": _TYPE,
            **{name: value for name, value in asked.items() if value},
        }
        try:
            return await endpoint.request(fields)
        except TokenRefused as error:
            raise NeedsLogin(f"Sign in again: {error}.") from error
