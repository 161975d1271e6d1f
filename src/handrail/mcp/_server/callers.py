"""Reads who sends a request, and the deps and metadata for that caller's calls."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import TokenVerifier

from handrail import Context, Executor, Json, NeedsLogin
from handrail.mcp._server.gate import FixedTokens

NOTHING: Mapping[str, Any] = MappingProxyType({})
PLACE = "`make_server`"
_FLEETING = frozenset({"exp", "iat", "nbf", "jti"})
"""Claims in each new token without information about the caller."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request, as the token says. Without tokens, only ``principal=`` names anyone."""

    principal: str | None = None
    scopes: tuple[str, ...] = ()
    """What the token permits."""
    claims: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    """What else the token says, such as a tenant."""


Deps: TypeAlias = Callable[[Caller], object] | object
"""Objects for the tools, or a function returning a caller's."""
Metadata: TypeAlias = Mapping[str, Json] | Callable[[Caller], Mapping[str, Json]]
"""More facts for policies, hooks and tools, or a function returning a caller's."""
Words: TypeAlias = Sequence[str] | Callable[[Caller], Iterable[str]]
"""What people wrote, or a function returning what a caller did."""


class CallerFacts:
    """Reads deps, metadata and words, each a value or a function taking the caller.

    ``principal`` is whom calls without a token are for.
    """

    def __init__(
        self,
        executor: Executor,
        deps: Deps,
        metadata: Metadata,
        *,
        principal: str | None = None,
        said: Words = (),
    ) -> None:
        for name, value in (("deps", deps), ("metadata", metadata), ("said", said)):
            if inspect.iscoroutinefunction(value):
                raise TypeError(f"{PLACE}: {name}= must not be an `async def` function.")
        if deps is None:
            executor.tools.check_deps(None, PLACE)
        self._deps, self._metadata, self._said = map(_reader, (deps, metadata, said))
        self._varies = _is_function(deps)
        self._no_token = Caller(principal)

    def find_caller(self) -> Caller:
        """Return who sends the current request."""
        token = get_access_token()
        if token is None:
            return self._no_token
        claims = MappingProxyType(token.claims or {})
        return Caller(token.subject or token.client_id, tuple(token.scopes), claims)

    def digest(self, caller: Caller, metadata: Mapping[str, Json]) -> str:
        """Return a text changing with deps and metadata, empty if neither can change."""
        facts: list[object] = [dict(metadata)] if metadata else []
        if self._varies:
            lasting = {name: one for name, one in caller.claims.items() if name not in _FLEETING}
            facts += [caller.scopes, lasting]
        if not facts:
            return ""
        text = json.dumps(facts, sort_keys=True, default=repr)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def read_deps(self, caller: Caller) -> Any:
        """Return the objects for the tools. They may be None if a function returns it."""
        return self._deps(caller)

    def read_metadata(self, caller: Caller) -> Mapping[str, Json]:
        """Return the facts for policies, hooks and tools."""
        facts: Mapping[str, Json] = self._metadata(caller)
        return facts

    def read_said(self, caller: Caller) -> Iterable[str]:
        """Return what people wrote, for rules about sources."""
        words: Iterable[str] = self._said(caller)
        return words


def _reader(value: Any) -> Callable[[Caller], Any]:
    return value if _is_function(value) else lambda _: value


def _is_function(value: Any) -> bool:
    return inspect.isroutine(value) or isinstance(value, partial)


async def find_holder(tokens: Mapping[str, str] | TokenVerifier, token: str) -> str | None:
    """Return the principal with a token, as ``http_app(tokens=...)`` knows it, or None."""
    verifier = FixedTokens(tokens) if isinstance(tokens, Mapping) else tokens
    found = await verifier.verify_token(token)
    return None if found is None else found.subject or found.client_id


def caller_token(context: Context[Any]) -> str:
    """Return the token with which the call's principal sent the current request.

    For ``TokenExchange(subject=...)`` only: never send it to another service. Raises NeedsLogin if
    the call has no request, or another principal's, as after an approval by another person.
    """
    token = get_access_token()
    if token is None or (token.subject or token.client_id) != context.principal:
        raise NeedsLogin("Call again: your own token is needed, and came with another request.")
    return token.token
