"""Runs calls in a node, and reports each to LangChain's callbacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphInterrupt

from handrail import Call, Result, Turn
from handrail.adapters._calls.langchain import ToolRun, start_run, to_message
from handrail.adapters._turns import find_asked, read_word
from handrail.messages import TruncatedCall
from handrail.permissions import Pending


async def run_calls(
    turn: Turn[Any], calls: Sequence[Call | TruncatedCall], config: RunnableConfig
) -> list[Result]:
    """Run one reply's calls, and notify the callbacks. Truncated calls are rejected."""
    runs = [await start_run(config, call) for call in calls]
    pairs = [(one, run) for one, run in zip(calls, runs, strict=True) if isinstance(one, Call)]
    contexts = [run.context for _, run in pairs]
    turn.add(*[call for call, _ in pairs], contexts=contexts)
    return await _finish_all(turn, calls, runs)


async def answer_calls(
    turn: Turn[Any], words: Sequence[tuple[Pending, Any]], config: RunnableConfig
) -> list[Result]:
    """Answer requests, and return their calls' results. Callbacks are notified."""
    calls = [pending.call for pending, _ in words]
    runs = [await start_run(config, call) for call in calls]
    turn.adopt(*[pending for pending, _ in words if pending.inner])
    for run, (pending, word) in zip(runs, words, strict=True):
        answer = read_word(word) if pending.questions else None
        run.context.run(turn.answer, find_asked(pending), answer)
    return await _finish_all(turn, calls, runs)


async def _finish_all(
    turn: Turn[Any], calls: Sequence[Call | TruncatedCall], runs: Sequence[ToolRun]
) -> list[Result]:
    """Return all results. Callbacks receive each when it arrives."""
    results = dict[str, Result]()

    async def finish(call: Call | TruncatedCall, run: ToolRun) -> None:
        result = await turn.run(call) if isinstance(call, Call) else call.refuse()
        results[call.id] = result
        if result.pending is None:
            await run.end(to_message(result, call.name))
        else:
            await run.fail(GraphInterrupt())  # as for a tool interrupting the graph

    async with anyio.create_task_group() as group:
        for call, run in zip(calls, runs, strict=True):
            group.start_soon(finish, call, run)
    return [results[call.id] for call in calls]
