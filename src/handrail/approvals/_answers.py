"""Approvers without a terminal: a function of the host's, and one that never answers itself."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from handrail import Allow, Deny
from handrail.judgement import Answer, Approver, Pending

Reply: TypeAlias = Answer | Pending | bool | str
"""An answer; or yes, no, or no in words for the model."""

NO = (
    "The user said no, and nothing was run. Do not look for a way around it: go on without this "
    "call, or ask the user what they want instead."
)


def callback(fn: Callable[[Pending], Reply | Awaitable[Reply]]) -> Approver:
    """An approver from a plain or async function.

    True allows the call, False denies it, and a text denies it with these words for the model;
    answers and the question itself pass as they are. Anything else is no answer, and so a no.
    """

    async def approver(pending: Pending) -> Answer | Pending:
        reply: Any = fn(pending)
        if inspect.isawaitable(reply):
            reply = await reply
        if isinstance(reply, bool):
            return Allow() if reply else Deny(NO)
        if isinstance(reply, str):
            return Deny(reply or NO)
        given: Answer | Pending = reply  # the executor denies what is none
        return given

    return approver


async def defer(pending: Pending) -> Pending:
    """Hand every question back, for a host that keeps it and answers later with ``resume``."""
    return pending
