"""Every text for models that the core makes, by running the calls that lead to it."""

from __future__ import annotations

from messages import core_approvals, core_arguments, core_calls, core_hooks, core_search
from messages.row import Row


async def rows() -> list[Row]:
    """Return the texts, in the order in which a call can meet them."""
    return [
        *await core_arguments.rows(),
        *await core_approvals.rows(),
        *await core_calls.rows(),
        *await core_hooks.rows(),
        *await core_search.rows(),
    ]
