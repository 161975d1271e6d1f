"""LangGraph: a node in the place of ToolNode. Approval requests are interrupts."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.func import task
from langgraph.runtime import get_runtime
from langgraph.types import interrupt

from handrail import Call, Executor, Image, Result, Text, Turn
from handrail.adapters._replies import STOP, find_stop, read_calls
from handrail.adapters._turns import open_turn, read_word
from handrail.messages import TruncatedCall
from handrail.permissions import Pending

Principal = Callable[[RunnableConfig], str | None]
"""Returns the user on whose behalf the calls of a thread are made."""
Names = tuple[str, str, str | None]
"""The ids of the thread and of the message, and the principal."""
Saved = dict[str, Any]
Node = Callable[[Any, RunnableConfig], Awaitable[dict[str, list[ToolMessage]]]]


def node(
    executor: Executor, *, principal: Principal = lambda _: None, messages: str = "messages"
) -> Node:
    """Return a node that runs the calls of the last message. The tools get the graph's context.

    If the executor has no approver, the node interrupts the graph with its requests. Resume it
    with a dict from call id to True, False, a reason for the denial, or other arguments.
    """

    @task
    async def begin(calls: list[Call], names: Names, stop: str | None) -> Saved:
        turn = _open(executor, names)
        if stop is not None:
            turn.close(stop)
        return await _finish(executor, turn, calls)

    @task
    async def answer(waiting: list[str], words: dict[str, Any], names: Names) -> Saved:
        turn = _open(executor, names)
        for pending in map(Pending.from_json, waiting):
            is_asked = pending.kind != "waiting"
            turn.answer(pending, read_word(words.get(pending.call.id)) if is_asked else None)
        return await _finish(executor, turn, ())

    async def run_tools(state: Any, config: RunnableConfig) -> dict[str, list[ToolMessage]]:
        history = state[messages] if isinstance(state, Mapping) else getattr(state, messages)
        reply = history[-1]
        thread = config.get("configurable", {}).get("thread_id", "")
        names, calls = (str(thread), str(reply.id), principal(config)), read_calls(reply, executor)
        # a graph that is resumed runs the node again: tasks keep what has happened
        whole = [call for call in calls if isinstance(call, Call)]
        saved = await begin(whole, names, find_stop(history[:-1]))
        done = saved["done"]
        while saved["waiting"]:
            words = interrupt(to_requests(saved["waiting"]))
            saved = await answer(saved["waiting"], words, names)
            done += saved["done"]
        results = {one.call_id: one for one in map(Result.from_json, done)}
        shown = [
            (one.refuse() if isinstance(one, TruncatedCall) else results[one.id], one.name)
            for one in calls
        ]
        return {messages: [to_message(*one, stop=saved["stop"]) for one in shown]}

    return run_tools


def _open(executor: Executor, names: Names) -> Turn[Any]:
    given = {"principal": names[2], "deps": get_runtime().context}
    return open_turn(executor, names[0], names[1], given)


async def _finish(executor: Executor, turn: Turn[Any], calls: Sequence[Call]) -> Saved:
    """Return the results and requests of a turn, as the checkpointer stores them."""
    results = await executor.run_all(calls, turn=turn)
    if turn.is_closed:  # nothing is asked any more
        waiting = {one.call.id: await turn.dismiss(one) for one in turn.pending}
        results = [waiting.get(one.call_id, one) for one in results]
    done = [one.to_json() for one in results if one.pending is None]
    waits = [one.to_json() for one in turn.pending]
    return {"done": done, "waiting": waits, "stop": turn.stop_reason}


def to_requests(waiting: Sequence[str]) -> list[dict[str, Any]]:
    """Return the questions of pending calls, for the person who answers."""
    return [
        {"call_id": one.call.id, "name": one.call.name, "args": json.loads(str(one.call.args))}
        | {"kind": one.kind, "question": one.question, "headline": one.headline}
        for one in map(Pending.from_json, waiting)
        if one.kind != "waiting"
    ]


def to_message(result: Result, name: str, stop: str | None = None) -> ToolMessage:
    """Return a result as a message. Its artifact says why a hook has ended the run, if one has."""
    content: Any = [_to_block(part) for part in result.parts] or result.text
    status: Any = "success" if result.failure is None else "error"
    call_id = result.call_id.rstrip("+")
    artifact = None if stop is None else {STOP: stop}
    return ToolMessage(content, tool_call_id=call_id, name=name, status=status, artifact=artifact)


def _to_block(part: Any) -> dict[str, str]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    kind = "image" if isinstance(part, Image) else "file"
    data = b64encode(part.data).decode()
    return {"type": kind, "base64": data, "mime_type": part.media_type}
