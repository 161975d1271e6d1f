"""Run an agent for another agent's call."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

from handrail import Context, Deny, Executor, ToolFailed, Transient
from handrail.agent._event_stream import EventStream
from handrail.agent._history.state import RunState
from handrail.agent._loop.events import InnerEvent, OnEvent
from handrail.agent._loop.live_runs import LiveRun, find_run
from handrail.agent._loop.settings import RunResult
from handrail.agent._loop.spending import UnknownPrice
from handrail.agent._run import Run
from handrail.messages import ModelError
from handrail.permissions import Answer, Approver, Pending, Suspended

MakeRun: TypeAlias = Callable[[RunState, OnEvent, LiveRun | None], Run[Any]]
"""Makes a sub-agent's run: from its state, a listener, and the run it works for."""
_NO_ONE = (
    "Not run: this needs the user's approval, and no one is available to give it. Do what you can "
    "without it, and report it at the end. Request: {}"
)
NO_TIMEOUT = math.inf
"""A sub-agent runs until its own limits or its parent's are reached."""


def find_approver(context: Context[Any], parent: LiveRun | None) -> Approver | None:
    """Return the approver for a sub-agent without its own.

    Outside of a run, nothing keeps a question for later.
    """
    if parent is not None:
        return parent.approver
    approver = context.approver
    if approver is None:
        return None

    async def ask_now(pending: Pending) -> Answer:
        answer = await approver(pending)
        return Deny(_NO_ONE.format(pending.question)) if isinstance(answer, Pending) else answer

    return ask_now


async def run_inside(
    task: str, context: Context[Any], executor: Executor, make_run: MakeRun
) -> RunResult[Any]:
    """Run a sub-agent for a call, and return its result once it has an answer.

    Its questions are answered where the parent's are, its tokens and events count for the parent.
    Raises Suspended if a question is left for later: the parent's state has the sub-agent's.
    """
    parent = find_run(context.run_id)
    key = context.idempotency_key
    before = None if parent is None else parent.talk.take_inner(key)
    state = before or RunState(run_id=key).add_prompt(task)

    def make(on_event: OnEvent, _asks_here: Approver | None) -> Run[Any]:
        return make_run(state, on_event, parent)

    try:
        result = await _watch(executor, make, context.call_id, parent)
    except ModelError as error:
        if error.kind in ("rate_limited", "overloaded", "network"):
            raise Transient(str(error)) from error
        raise ToolFailed(str(error)) from error
    except UnknownPrice as error:
        raise ToolFailed(f"Not run: {error}") from error
    if result.stop_reason == "pending" and parent is not None:
        parent.talk.put_inner(key, result.state)
        raise Suspended("A sub-agent waits for approval.")
    return result


async def _watch(
    executor: Executor,
    make: Callable[[OnEvent, Approver | None], Run[Any]],
    call_id: str,
    parent: LiveRun | None,
) -> RunResult[Any]:
    """Run a sub-agent, and pass its events to the parent."""
    async with EventStream(executor, make) as events:
        async for event in events:
            if parent is not None and not isinstance(event, RunResult):
                parent.emit(InnerEvent(call_id, event))
    return events.result
