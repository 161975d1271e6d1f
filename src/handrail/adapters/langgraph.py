"""LangGraph: a node replacing ToolNode. Approval requests are interrupts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from typing_extensions import Unpack

from handrail._support.lazy import name_extra

try:
    from langchain_core.messages import ToolMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.func import task
    from langgraph.runtime import get_runtime
    from langgraph.types import interrupt
except ModuleNotFoundError as error:
    raise name_extra(error, __name__, "langgraph") from error

from handrail import Call, Executor, Result, Turn
from handrail.adapters._calls._given import Given, TurnFacts
from handrail.adapters._calls.langchain import find_said, to_message
from handrail.adapters._calls.langgraph import answer_calls, run_calls
from handrail.adapters._replies import find_stop, read_calls
from handrail.adapters._turns import find_asked, open_turn
from handrail.messages import TruncatedCall
from handrail.permissions import Pending

Saved = dict[str, Any]


class Node(Protocol):
    """A graph node. LangGraph passes its arguments by name."""

    async def __call__(self, state: Any, config: RunnableConfig) -> dict[str, list[ToolMessage]]:
        """Run the last message's calls."""


def node(
    executor: Executor, *, messages: str = "messages", **given: Unpack[Given[RunnableConfig]]
) -> Node:
    """Return a node running the last message's calls. The tools get the graph's context.

    If the executor has no approver, the node interrupts the graph with its requests. Resume it
    with a dict from call id to True, False, a reason for the denial, or other arguments.
    """
    place = "`langgraph.node`, or `context=` to the graph"
    facts = TurnFacts[RunnableConfig](executor, place, given)

    async def run_tools(state: Any, config: RunnableConfig) -> dict[str, list[ToolMessage]]:
        history = state[messages] if isinstance(state, Mapping) else getattr(state, messages)
        reply = history[-1]
        thread = str(config.get("configurable", {}).get("thread_id", ""))
        read, calls = facts.read(config, deps=get_runtime().context), read_calls(reply, executor)
        read = {"said": find_said(history), **read}

        @task
        async def begin(calls: list[Call | TruncatedCall], stop: str | None) -> Saved:
            turn = open_turn(executor, thread, str(reply.id), read)
            if stop is not None:
                turn.close(stop)
            return await _save(turn, await run_calls(turn, calls, config))

        @task
        async def answer(waiting: list[str], words: dict[str, Any]) -> Saved:
            turn = open_turn(executor, thread, str(reply.id), read)
            pending = [*map(Pending.from_json, waiting)]
            given = [(one, words.get(one.call.id) if one.questions else None) for one in pending]
            return await _save(turn, await answer_calls(turn, given, config))

        # a resumed graph runs the node again: tasks store what has happened
        saved = await begin(calls, find_stop(history[:-1]))
        done = saved["done"]
        while saved["waiting"]:
            words = interrupt(to_requests(saved["waiting"]))
            saved = await answer(saved["waiting"], words)
            done += saved["done"]
        results = {one.call_id: one for one in map(Result.from_json, done)}
        shown = [to_message(results[one.id], one.name, saved["stop"]) for one in calls]
        return {messages: shown}

    return run_tools


async def _save(turn: Turn[Any], results: list[Result]) -> Saved:
    """Return a turn's results and requests, as the checkpointer stores them."""
    if turn.is_closed:  # nothing is asked any more
        waiting = {one.call.id: await turn.dismiss(one) for one in turn.pending}
        results = [waiting.get(one.call_id, one) for one in results]
    done = [one.to_json() for one in results if one.pending is None]
    waits = [one.to_json() for one in turn.pending]
    return {"done": done, "waiting": waits, "stop": turn.stop_reason}


def to_requests(waiting: Sequence[str]) -> list[dict[str, Any]]:
    """Return pending calls' questions, for the approver."""
    outer = [one for one in map(Pending.from_json, waiting) if one.questions]
    return [
        {"call_id": one.call.id, "name": asked.call.name, "args": json.loads(str(asked.call.args))}
        | {"kind": asked.kind, "question": asked.question, "headline": asked.headline}
        for one, asked in zip(outer, map(find_asked, outer), strict=True)
    ]
