"""Asks the client's user for approval, as each protocol version does."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, TypeAlias

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from handrail.approvals import render_request
from handrail.permissions import Allow, Answer, Deny, Pending

Request: TypeAlias = ServerRequestContext[Any, Any]

QUESTION = "approval"
"""The approval request's key among those a client has to answer."""
_NO_ONE = (
    "Not run: this call needs approval, and this client cannot ask its user. Do not work around "
    "this. Continue without it, or tell the user."
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
        return Deny(_NO_ONE)
    if is_modern(request):
        return pending
    try:
        answered = await request.session.elicit_form(
            render(pending), _NO_FIELDS, related_request_id=request.request_id
        )
    except MCPError:
        return Deny(_NO_ONE)
    return read_answer(answered)


def is_modern(request: Request) -> bool:
    """Return whether a request is from the era with independent requests."""
    return request.protocol_version in MODERN_PROTOCOL_VERSIONS


def can_ask(request: Request) -> bool:
    """Return whether a client can show a form to its user."""
    capabilities = request.session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def render(pending: Pending) -> str:
    """Return an approval request as text, with invisible characters spelled out."""
    return "\n".join(line.text for line in render_request(pending).lines)


def ask(pending: Pending) -> types.InputRequiredResult:
    """Return the question to answer with the next request: the call's, or the first inside it."""
    asked, *_ = *pending.questions, pending
    params = types.ElicitRequestFormParams(message=render(asked), requested_schema=_NO_FIELDS)
    return types.InputRequiredResult(
        input_requests={QUESTION: types.ElicitRequest(params=params)},
        request_state=pending.to_json(),
    )


def find_answer(responses: Mapping[str, Any] | None) -> Answer:
    """Return the answer in a request, or a denial if there is none."""
    return read_answer((responses or {}).get(QUESTION))


def read_answer(response: object) -> Answer:
    """Return a user's answer. Only accepting approves."""
    if isinstance(response, types.ElicitResult) and response.action == "accept":
        return Allow()
    return Deny.by_user()
