"""Strands Agents: tools run by an executor. Approval requests are interrupts."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from typing_extensions import Unpack

from handrail._support.lazy import name_extra

try:
    from strands.types.tools import AgentTool, ToolContext, ToolGenerator, ToolSpec, ToolUse
except ModuleNotFoundError as error:
    raise name_extra(error, __name__, "strands") from error

from handrail import Call, Executor, Image, Result, Spec, Text
from handrail.adapters._calls._given import Given, TurnFacts
from handrail.adapters._turns import OpenTurn, Turns, describe, offer_tools, read_word
from handrail.permissions import Pending

STATE = "handrail"
"""The key in the agent's state for the run's name, and pending calls by id."""


def tools(executor: Executor, **given: Unpack[Given[Mapping[str, Any]]]) -> list[AgentTool]:
    """Return an executor's tools. They get the invocation state as deps, as functions do.

    If the executor has no approver, a call needing approval interrupts the agent. Respond with
    True, False, a reason for the denial, or other arguments. Strands lists tools once: use
    ``LongResults(reader="always")`` to let a model read long results.
    """
    turns, facts = Turns(executor), TurnFacts[Any](executor, "`strands.tools`", given)
    return [ExecutorTool(name, spec, turns, facts) for name, spec in offer_tools(executor)]


class ExecutorTool(AgentTool):
    """One of an executor's tools."""

    def __init__(self, name: str, spec: Spec, turns: Turns, facts: TurnFacts[Any]) -> None:
        super().__init__()
        self._name, self._spec, self._turns, self._facts = name, spec, turns, facts

    @property
    def tool_name(self) -> str:
        return self._name

    @property
    def tool_spec(self) -> ToolSpec:
        schema = {"json": dict(self._spec.input_schema)}
        return {
            "name": self._name,
            "description": self._spec.description,
            "inputSchema": schema,
        }

    @property
    def tool_type(self) -> str:
        return "python"

    async def stream(
        self, tool_use: ToolUse, invocation_state: dict[str, Any], **kwargs: Any
    ) -> ToolGenerator:
        """Run one call, together with its reply's others."""
        agent, call_id = invocation_state["agent"], tool_use["toolUseId"]
        given = self._facts.read(invocation_state, deps=invocation_state)
        saved = agent.state.get(STATE) or {"run": uuid.uuid4().hex}
        agent.state.set(STATE, saved)
        reply = _find_reply(agent.messages, call_id)
        opened = self._turns.open(saved["run"], reply, given, within=invocation_state)
        if not opened.turn.pending and call_id in saved:  # another process has asked
            opened.turn.adopt(*map(Pending.from_json, saved[call_id]))
        pending = opened.find_pending(call_id)
        if pending is None:
            result = await opened.run(Call(self._spec.name, tool_use["input"], call_id))
        else:
            word = ToolContext(tool_use, agent, invocation_state).interrupt(pending.id)
            opened.approved |= {one.call.id for one in opened.turn.pending}  # denials come too
            result = await opened.answer(pending, read_word(word))
        result = await self._turns.settle(opened, result)
        _save(agent, call_id, result, opened)
        if result.pending is not None:
            reason = describe(result.pending, opened) | {"call_id": call_id}
            del reason["handrail"]
            ToolContext(tool_use, agent, invocation_state).interrupt(result.pending.id, reason)
        yield _show(result, call_id)


def _find_reply(messages: Any, call_id: str) -> str:
    """Return the id of a reply's first call, as its name: the same in another process."""
    replies = [
        [part["toolUse"]["toolUseId"] for part in message["content"] if "toolUse" in part]
        for message in reversed(messages)
    ]
    return next((str(ids[0]) for ids in replies if call_id in ids), call_id)


def _save(agent: Any, call_id: str, result: Result, opened: OpenTurn) -> None:
    saved = dict(agent.state.get(STATE))
    saved.pop(call_id, None)
    if result.pending is not None:
        saved[call_id] = describe(result.pending, opened)["handrail"]
    agent.state.set(STATE, saved)


def _show(result: Result, call_id: str) -> dict[str, Any]:
    content = [_show_part(part) for part in result.content]
    status = "success" if result.failure is None else "error"
    return {"toolUseId": call_id, "status": status, "content": content}


def _show_part(part: Any) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"text": part.text}
    kind, source = part.media_type.partition("/")[2], {"bytes": part.data}
    if isinstance(part, Image):
        return {"image": {"format": kind, "source": source}}
    return {"document": {"format": kind, "name": part.name, "source": source}}
