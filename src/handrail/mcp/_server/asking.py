"""Asks the client's user for approval, as each protocol version does."""

from __future__ import annotations

from contextvars import ContextVar
from itertools import count
from typing import Any, TypeAlias

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import authenticated_principal
from mcp.shared.direct_dispatcher import DIRECT_TRANSPORT_KIND
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from handrail.approvals import read_form, render_request, view_request
from handrail.permissions import Allow, Answer, Deny, Edit, Pending

Request: TypeAlias = ServerRequestContext[Any, Any]

QUESTION = "approval"
"""The approval request's key among those a client has to answer."""
_NO_ONE = (
    "Not run: this call needs approval, and this client cannot ask its user. Do not work around "
    "this. Continue without it, or tell the user."
)
_TOO_LONG = (
    "Not run: this call is too long to show to the user for approval. Split it into smaller calls."
)
_SIGN_IN = (
    "Not run: this call needs a login, and this client cannot ask its user. {} Show the user this "
    "address unchanged, and call again when the user has signed in."
)
_NO_FIELDS: dict[str, Any] = {"type": "object", "properties": {}}

current: ContextVar[Request] = ContextVar("current")
"""The request with the current call."""


async def approve(pending: Pending) -> Answer | Pending:
    """Ask the current request's client. In the newer era, the answer comes with the next one.

    A client without elicitation gets a denial: nothing would answer the call later.
    """
    request = current.get()
    if not can_ask(request):
        return Deny(_SIGN_IN.format(pending.question) if pending.kind == "login" else _NO_ONE)
    if view_request(pending).too_long:
        return Deny(_TOO_LONG)
    if is_modern(request):
        return pending
    params, request_id = _write_question(pending), request.request_id
    try:
        answered = await request.session.elicit_form(
            params.message, params.requested_schema, related_request_id=request_id
        )
    except MCPError:
        return Deny(_NO_ONE)
    return read_answer(answered, pending)


def is_modern(request: Request) -> bool:
    """Return whether a request is from the era with independent requests."""
    return request.protocol_version in MODERN_PROTOCOL_VERSIONS


def has_wire(request: Request) -> bool:
    """Return whether a request came as a message. The SDK has no public field for this."""
    outbound = getattr(request.session, "_request_outbound", None)
    return outbound is not None and outbound.transport.kind != DIRECT_TRANSPORT_KIND


def name_session(request: Request) -> str:
    """Return the name of a request's session. In the newer era a client could invent any number."""
    http = None if is_modern(request) else request.request
    session = "" if http is None else http.headers.get("mcp-session-id", "")
    return f"{authenticated_principal(request) or ''}/{session}"


def can_ask(request: Request) -> bool:
    """Return whether a client can show a form to its user."""
    capabilities = request.session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def _write_question(pending: Pending) -> types.ElicitRequestFormParams:
    """Return a request as the protocol's: a text, with a form if it needs values.

    Invisible characters are spelled out.
    """
    message = "\n".join(line.text for line in render_request(pending).lines)
    form = dict(read_form(pending).schema) if pending.kind == "form" else _NO_FIELDS
    return types.ElicitRequestFormParams(message=message, requested_schema=form)


def ask(pending: Pending) -> types.InputRequiredResult:
    """Return the questions to answer with the next request."""
    asked = list_questions(pending)
    return types.InputRequiredResult(
        input_requests={
            key: types.ElicitRequest(params=_write_question(one)) for key, one in asked.items()
        },
        request_state=pending.to_json(),
    )


def list_questions(pending: Pending) -> dict[str, Pending]:
    """Return what a person must answer about a call, or about the calls inside it."""
    keys = (f"{QUESTION}-{number}" if number else QUESTION for number in count())
    return dict(zip(keys, pending.questions, strict=False))


def read_answer(response: object, pending: Pending) -> Answer:
    """Return a user's answer. Only accepting approves."""
    if not isinstance(response, types.ElicitResult) or response.action != "accept":
        return Deny.by_user()
    return Edit(dict(response.content or {})) if pending.kind == "form" else Allow()
