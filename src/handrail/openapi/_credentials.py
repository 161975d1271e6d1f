"""Adds credentials to a request. They come from variables or functions in the application."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from inspect import isawaitable
from typing import Any, TypeAlias
from urllib.parse import quote

from handrail import Context, DefinitionError, Refused, ToolFailed
from handrail.net import Url
from handrail.openapi._document import Document, Node, get_list, get_node, get_text, is_node
from handrail.openapi._operations import Operation
from handrail.openapi._request import OutgoingRequest

Secret: TypeAlias = str | Callable[[Context[Any]], str | Awaitable[str]]
"""A secret's environment variable, or a function returning it for a call."""


class SecuritySchemes:
    """A document's security schemes, each with its secret's source.

    A secret is sent to ``servers`` only: a path or an operation may name others. Raises
    DefinitionError for a scheme missing from the document.
    """

    def __init__(
        self, document: Document, secrets: Mapping[str, Secret], servers: Iterable[Url]
    ) -> None:
        components = get_node(document.root, "components")
        schemes = get_node(components, "securitySchemes")
        for name in secrets:
            if name not in schemes:
                known = ", ".join(schemes) or "none"
                raise DefinitionError(
                    f"The document has no security scheme {name!r}. It has: {known}."
                )
        self._root = document.root
        self._servers = {_origin(server): server for server in servers}
        self._secrets = dict(secrets)
        self._schemes = {name: document.resolve(schemes[name]) for name in secrets}

    @property
    def hidden(self) -> frozenset[tuple[str, str]]:
        """Location and lower-case name of the secret parameters."""
        return frozenset(
            (get_text(scheme, "in"), get_text(scheme, "name").lower())
            for scheme in self._schemes.values()
            if scheme.get("type") == "apiKey"
        )

    def are_personal(self, operation: Operation) -> bool:
        """Return whether a function makes an operation's credentials, for each call."""
        return any(callable(self._secrets[name]) for name in self._choose(operation))

    async def add(
        self, operation: Operation, request: OutgoingRequest, context: Context[Any]
    ) -> OutgoingRequest:
        """Return a request with the first credentials satisfying its operation.

        Raises Refused if they are not for its server.
        """
        names = self._choose(operation)
        if names and _origin(request.url) not in self._servers:
            known = " or ".join(url.authority for url in self._servers.values()) or "no server"
            there = f"{request.url.scheme}://{request.url.authority}"
            raise Refused(
                f"Not sent: {operation.where} is at {request.url.authority}, and the credentials "
                f"are for {known} only. Continue without this tool, and tell the user: "
                f'`tools(..., credential_servers=["{there}"])` sends them there too.'
            )
        for name in names:
            request = _add(request, self._schemes[name], await self._find(name, context))
        return request

    def _choose(self, operation: Operation) -> tuple[str, ...]:
        declared = "security" in operation.node
        for choice in get_list(operation.node if declared else self._root, "security"):
            if is_node(choice) and choice.keys() <= self._schemes.keys() and choice:
                return tuple(choice)
        return ()

    async def _find(self, name: str, context: Context[Any]) -> str:
        given = self._secrets[name]
        found = os.environ.get(given, "") if isinstance(given, str) else given(context)
        secret = await found if isawaitable(found) else found
        if not secret or not secret.isprintable() or not secret.isascii():
            place = f"environment variable {given}" if isinstance(given, str) else "application"
            raise ToolFailed(
                f"Not sent: the {place} has no usable credentials. Tell the user, and continue "
                "without this tool."
            )
        return secret


def _origin(url: Url) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port


def _add(request: OutgoingRequest, scheme: Node, secret: str) -> OutgoingRequest:
    kind, place, name = scheme.get("type"), scheme.get("in"), get_text(scheme, "name")
    if kind == "apiKey" and place == "query":
        joint = "&" if request.url.query else "?"
        pair = f"{joint}{quote(name, safe='')}={quote(secret, safe='')}"
        return replace(request, url=request.url._replace(query=request.url.query + pair))
    if kind == "apiKey" and place == "cookie":
        return _add_cookie(request, f"{name}={quote(secret, safe='')}")
    if kind == "apiKey":
        return replace(request, headers=(*request.headers, (name, secret)))
    is_basic = kind == "http" and get_text(scheme, "scheme").lower() == "basic"
    value = f"Basic {b64encode(secret.encode()).decode()}" if is_basic else f"Bearer {secret}"
    return replace(request, headers=(*request.headers, ("Authorization", value)))


def _add_cookie(request: OutgoingRequest, pair: str) -> OutgoingRequest:
    others = tuple(header for header in request.headers if header[0] != "Cookie")
    old = [value for name, value in request.headers if name == "Cookie"]
    return replace(request, headers=(*others, ("Cookie", "; ".join([*old, pair]))))
