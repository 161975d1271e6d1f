"""Makes a document's tools."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from handrail import (
    DESTROY,
    READ,
    WRITE,
    Access,
    Context,
    DefinitionError,
    Effect,
    HandrailError,
    Json,
    Refused,
    Retry,
    Spec,
    Tool,
    ToolFailed,
    Toolset,
)
from handrail.net import Guard, Url
from handrail.openapi._credentials import Secret, SecuritySchemes
from handrail.openapi._definition import describe_operation, find_hint, find_name, find_schema
from handrail.openapi._document import Document
from handrail.openapi._operations import Operation, operations
from handrail.openapi._request import find_base, find_trusted, find_url, make_request

if TYPE_CHECKING:
    from handrail.openapi._http import Client
    from handrail.sources import OwnValues

log = logging.getLogger("handrail.openapi")
_OWN = "tools(document, httpx2.AsyncClient())"
_EFFECTS = {"GET": READ, "HEAD": READ, "DELETE": DESTROY}
_IDEMPOTENT = frozenset({"PUT", "DELETE"})
_HEADER = re.compile(r"[A-Za-z0-9-]+")
_MAX_BYTES = 5 << 20
_MAX_DIRECT_TOKENS = 10_000
_MAX_TOOL_CHARS = 3_950
"""Characters in a definition: a little less than lint accepts."""


def tools(  # noqa: PLR0913  each option has a default
    document: Mapping[str, Any] | str | bytes,
    client: Client | None = None,
    *,
    server: str | None = None,
    credentials: Mapping[str, Secret] | None = None,
    credential_servers: Iterable[str] = (),
    effects: Mapping[str, Effect] | None = None,
    idempotent: Iterable[str] = (),
    idempotency_header: str | None = None,
    retry: Retry | None = None,
    timeout: float | None = None,
    own: Mapping[str, OwnValues] | None = None,
    max_bytes: int = _MAX_BYTES,
    defer_over: int = _MAX_DIRECT_TOKENS,
) -> Toolset:
    """Return one tool for each operation of an OpenAPI document (3.0 or 3.1).

    ``document`` is the parsed document, or its JSON text. ``client`` sends the requests. By
    default, it is a ``guarded_client()``. ``server`` replaces the document's servers.

    ``credentials`` maps security scheme names to environment variables, read for each call, or to
    functions getting the call's ``Context`` and returning the secret. A function can raise
    NeedsLogin, and a status 401 does the same for it. They are sent to ``server``, or to the whole
    document's servers, and to ``credential_servers``: not to others named by a path or an
    operation.

    ``effects`` maps tool names, or patterns such as ``search_*``, to their effect. The first match
    applies. ``idempotent`` lists names or patterns for tools safe to call twice. With
    ``idempotency_header``, each call except reads has its key in that header. ``retry`` applies to
    reading or idempotent tools, ``timeout`` to all.

    ``own`` maps names or patterns to functions returning a response's own values: those that only
    you or your own systems set. They take the response as data, or as text.

    A response is read up to ``max_bytes``. If the definitions have more than ``defer_over`` tokens,
    the tools are deferred. Raises DefinitionError if the document cannot be used.
    """
    if find_spec("httpx2") is None:
        raise HandrailError(
            "Tools from an OpenAPI document need one more package. Install it: "
            "pip install 'handrail[openapi]'"
        )
    if idempotency_header is not None and not _HEADER.fullmatch(idempotency_header):
        raise DefinitionError(f"{idempotency_header!r} is not the name of a header.")
    read = Document(document)
    trusted = find_trusted(read, server, credential_servers)
    service = _Service(
        read,
        client or _make_client(),
        SecuritySchemes(read, credentials or {}, trusted),
        server,
        idempotency_header,
        max_bytes,
    )
    choices = _Choices(effects or {}, tuple(idempotent), retry, timeout, own or {})
    with read.limited():
        made = service.make_all(choices)
        if client is None:
            _report_refused(service.servers)
    choices.check(made)
    return Toolset(*made.values()).deferred(over=defer_over)


def _report_refused(servers: Iterable[tuple[str, int]]) -> None:
    """Log each server that the default client does not connect to: every call would be denied."""
    guard = Guard()
    for host, port in servers:
        try:
            guard.check(host, port)
        except (Refused, ToolFailed) as error:
            reason = str(error).removeprefix("Not run: ").partition(". ")[0].rstrip(".")
            log.warning("%s:%d: %s; pass your own client, as in `%s`", host, port, reason, _OWN)


def _make_client() -> Client:
    from handrail.openapi._http import guarded_client

    return guarded_client()


@dataclass(frozen=True, slots=True)
class _Choices:
    """Application settings. The application knows more than the document."""

    effects: Mapping[str, Effect]
    idempotent: tuple[str, ...]
    retry: Retry | None
    timeout: float | None
    own: Mapping[str, OwnValues]

    def find_own(self, name: str) -> OwnValues | None:
        """Return the function for a tool's own values. The first match applies."""
        return next((one for key, one in self.own.items() if fnmatchcase(name, key)), None)

    def make_spec(self, document: Document, operation: Operation, name: str) -> Spec:
        default = _EFFECTS.get(operation.method, WRITE)
        chosen = (value for key, value in self.effects.items() if fnmatchcase(name, key))
        effect = next(chosen, default)
        is_idempotent = operation.method in _IDEMPOTENT or any(
            fnmatchcase(name, pattern) for pattern in self.idempotent
        )
        description = describe_operation(operation)
        max_chars = _MAX_TOOL_CHARS - len(name) - len(description)
        return Spec(
            name=name,
            description=description,
            input_schema=find_schema(document, operation, max_chars),
            effect=effect,
            idempotent=is_idempotent,
            retry=self.retry if effect == READ or is_idempotent else None,
            timeout=self.timeout,
            framed=True,
            search_hint=find_hint(operation),
            metadata={"namespace": document.title, "operation": operation.where},
        )

    def check(self, names: Iterable[str]) -> None:
        """Raise DefinitionError for a pattern matching no tool: it is misspelled."""
        known = list(names)
        for pattern in (*self.effects, *self.idempotent, *self.own):
            if not any(fnmatchcase(name, pattern) for name in known):
                raise DefinitionError(f"No operation makes a tool that matches {pattern!r}.")


@dataclass(frozen=True, slots=True)
class _Service:
    """Makes one document's tools."""

    document: Document
    client: Client
    credentials: SecuritySchemes
    server: str | None
    idempotency_header: str | None
    max_bytes: int
    servers: dict[tuple[str, int], None] = field(default_factory=dict[tuple[str, int], None])
    """The hosts and ports of the operations, in order."""

    def make_all(self, choices: _Choices) -> dict[str, Tool[..., Any]]:
        hidden = self.credentials.hidden
        if self.idempotency_header is not None:
            hidden |= {("header", self.idempotency_header.lower())}
        made: dict[str, Tool[..., Any]] = {}
        for operation in operations(self.document, hidden=hidden):
            name = find_name(operation, made)
            spec = choices.make_spec(self.document, operation, name)
            base = find_base(operation, self.server)
            self.servers[base.host, base.port] = None
            made[name] = self._make(operation, spec, base, choices.find_own(name))
        return made

    def _make(
        self, operation: Operation, spec: Spec, base: Url, own: OwnValues | None
    ) -> Tool[..., Any]:
        from handrail.openapi._http import Sender

        is_repeatable = spec.effect == READ or spec.idempotent
        is_personal = self.credentials.are_personal(operation)
        sender = Sender(self.client, self.max_bytes, is_repeatable, is_personal)

        async def send(args: dict[str, Json], context: Context) -> Any:
            request = make_request(self.document, operation, base, args)
            if self.idempotency_header is not None and spec.effect != READ:
                header = self.idempotency_header, context.idempotency_key
                request = replace(request, headers=(*request.headers, header))
            request = await self.credentials.add(operation, request, context)
            return await sender.send(request, context.progress)

        def touches(**args: Any) -> Access:
            try:
                return Access(spec.effect, find_url(operation, base, args).resource)
            except (Refused, ToolFailed):  # the call will fail, and the policy must expect any path
                return Access(spec.effect, base._replace(path="/").resource)

        def headline(**args: Any) -> str:
            try:
                return f"{operation.method} {find_url(operation, base, args)}"
            except (Refused, ToolFailed):
                return f"{operation.method} {base}"

        origin = f"{self.document.title}: {operation.where}"
        made = Tool.remote(spec, send, origin=origin, touches=touches, own=own)
        return replace(made, headline=headline)
