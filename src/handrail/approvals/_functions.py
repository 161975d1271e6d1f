"""Approvers without a terminal: your function, and one leaving every call pending."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from handrail import Allow, Deny
from handrail.permissions import Answer, Approver, Pending

TerminalAnswer: TypeAlias = Answer | Pending | bool | str
"""An answer, True to approve, False to deny, or a message for the model to deny with."""


def callback(fn: Callable[[Pending], TerminalAnswer | Awaitable[TerminalAnswer]]) -> Approver:
    """Return an approver calling a plain or async function.

    The function can return True (approve), False (deny), a message for the model (deny), an
    answer, or the pending call itself to leave it pending. Any other value denies the call.
    """

    async def approver(pending: Pending) -> Answer | Pending:
        reply: Any = fn(pending)
        if inspect.isawaitable(reply):
            reply = await reply
        if isinstance(reply, bool):
            return Allow() if reply else Deny.by_user()
        if isinstance(reply, str):
            return Deny(reply) if reply else Deny.by_user()
        given: Answer | Pending = reply  # the executor denies anything else
        return given

    return approver


async def defer(pending: Pending) -> Pending:
    """Leave every call pending, for an application answering later with ``resume``."""
    return pending
