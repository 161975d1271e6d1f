"""A run's status: one of six words, and why it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

if TYPE_CHECKING:  # listing runs does not need the agent
    from handrail.agent import StopReason

RunStatus: TypeAlias = Literal["queued", "running", "waiting", "done", "failed", "cancelled"]
"""Where a run stands. ``queued``: no worker has taken it yet. ``waiting``: for a person."""
RunReason: TypeAlias = Literal[
    "",
    "answer",
    "limit",
    "interrupted",
    "stopped",
    "truncated",
    "refused",
    "empty",
    "invalid",
    "error",
]
"""Why a run ended: the ``StopReason`` if it is ``done``, ``error`` if it ``failed``, else empty."""

STATUSES: tuple[RunStatus, ...] = get_args(RunStatus)
REASONS: tuple[RunReason, ...] = get_args(RunReason)[1:]
"""All reasons but the empty one."""
LIVE: frozenset[str] = frozenset({"queued", "running", "waiting"})
"""Statuses before a run's end."""
WORKED_ON: frozenset[str] = frozenset({"queued", "running"})
"""Statuses in which runs continue by themselves."""


class Standing(NamedTuple):
    """A run's status, and why it ended."""

    status: RunStatus
    reason: RunReason = ""


QUEUED = Standing("queued")
RUNNING = Standing("running")
WAITING = Standing("waiting")
CANCELLED = Standing("cancelled")
FAILED = Standing("failed", "error")
INTERRUPTED = Standing("done", "interrupted")


def translate_stop(stop: StopReason) -> Standing:
    """Return where a run stands after an agent has stopped."""
    return WAITING if stop == "pending" else Standing("done", stop)
