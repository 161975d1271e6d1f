"""Run an agent for a call of another agent's run, or of an own loop."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from handrail import Allow, Context, Executor, ToolFailed, Transient
from handrail.agent._event_stream import EventStream
from handrail.agent._history.codec import dump_state, load_state
from handrail.agent._history.state import RunState
from handrail.agent._loop.budgets import RunBudget
from handrail.agent._loop.events import InnerEvent, OnEvent
from handrail.agent._loop.live_runs import LiveRun, find_run, list_calls_above
from handrail.agent._loop.settings import RunResult
from handrail.agent._loop.spending import UnknownPrice
from handrail.agent._run import Run
from handrail.messages import ModelError
from handrail.permissions import Approver, FindCredential

MakeRun: TypeAlias = Callable[[RunState, Mapping[str, Any], LiveRun | None], Run[Any]]
"""Makes the run of a sub-agent: from its state, options, and the run it works for."""
NO_TIMEOUT = math.inf
"""A sub-agent runs until its own limits or its parent's are reached."""


async def run_inside(
    task: str, context: Context[Any], executor: Executor, make_run: MakeRun
) -> RunResult[Any]:
    """Run a sub-agent for a call, and return its result once it has an answer.

    Its questions are answered where the caller's are, its tokens and events count for the caller.
    If a question is left for later, the call stays pending, and its request has the sub-agent's
    state. Raises Suspended then.
    """
    parent = find_run(context.run_id)
    if context.record:
        state = load_state(context.record)
    else:
        state = RunState(run_id=context.idempotency_key).add_prompt(task)
    given, ids = context.answers, {request.id for request in state.requests}
    answers = {name: answer for name, answer in given.items() if name in ids}

    def make(on_event: OnEvent, _asks_here: Approver | None) -> Run[Any]:
        return make_run(state, {"answers": answers, "on_event": on_event}, parent)

    try:
        result = await _watch(executor, make, context, parent)
    except ModelError as error:
        if error.kind in ("rate_limited", "overloaded", "network"):
            raise Transient(str(error)) from error
        raise ToolFailed(str(error)) from error
    except UnknownPrice as error:
        raise ToolFailed(f"Not run: {error}") from error
    if result.stop_reason == "pending":
        left = result.state
        approved = [one.pending_id for one in left.answers if isinstance(one.answer, Allow)]
        record = dump_state(left._replace(answers=()))
        waiting = [result.pending for result in left.waiting if result.pending is not None]
        context.suspend(*waiting, record=record, approved=approved)
    return result


def budgets_above(context: Context[Any]) -> tuple[RunBudget, ...]:
    """Return the budgets a sub-agent's callers spend."""
    parent = find_run(context.run_id)
    return () if parent is None else tuple(dict.fromkeys(parent.budgets))


def lend_credentials(caller: Context[Any] | None) -> FindCredential | None:
    """Return a function that finds the credentials of the call a sub-agent works for."""
    if caller is None:
        return None

    def find(name: str, _context: Context[Any], refused: str) -> Awaitable[str]:
        return caller.credential(name, refused=refused)

    return find


async def _watch(
    executor: Executor,
    make: Callable[[OnEvent, Approver | None], Run[Any]],
    context: Context[Any],
    parent: LiveRun | None,
) -> RunResult[Any]:
    """Run a sub-agent, and pass its events to the parent."""
    calls = () if parent is None else list_calls_above(context.run_id, parent) or ()
    async with EventStream(executor, make) as events:
        async for event in events:
            if parent is None or isinstance(event, RunResult):
                continue
            found = InnerEvent(context.call_id, event)
            for call in calls:
                found = InnerEvent(call, found)
            parent.emit(found)
    return events.result
