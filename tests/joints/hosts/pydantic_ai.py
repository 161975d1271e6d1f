"""An agent of Pydantic AI, whose model streams. Answers go to another agent, with the messages as JSON."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolDenied
from pydantic_ai.messages import (
    BinaryContent,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.tools import ToolApproved

from handrail import Allow, Deny
from handrail.adapters.pydantic_ai import toolset
from handrail.permissions import Answer, Edit, MemoryLedger
from joints.case import Case, Seen, Shown, let_others_run
from joints.hosts.shared import make_executor, next_calls, to_text


def _stream(case: Case) -> Any:
    async def reply(messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[Any]:
        replies = sum(isinstance(one, ModelResponse) for one in messages)
        calls = next_calls(case, replies)
        for number, call in enumerate(calls):
            yield {number: DeltaToolCall(call.name, to_text(call), tool_call_id=call.id)}
            await let_others_run()
        if not calls:
            yield "done"

    return FunctionModel(stream_function=reply)


def _watch(seen: Seen) -> Any:
    """The framework's own handler of events."""

    async def watch(_: Any, events: Any) -> None:
        async for event in events:
            if isinstance(event, FunctionToolCallEvent):
                seen.host.append("call")
            elif isinstance(event, FunctionToolResultEvent):
                seen.host.append("result")

    return watch


def _answer(answer: Answer) -> Any:
    if isinstance(answer, Edit):
        return ToolApproved(override_args=dict(answer.args))
    return ToolDenied(answer.reason) if isinstance(answer, Deny) else isinstance(answer, Allow)


async def door(case: Case) -> Seen:
    seen, ledger, answers = Seen(), MemoryLedger(), iter(case.answers)
    turn = dict(case.turn)
    own, options = {"deps": turn.pop("deps", None)}, {"event_stream_handler": _watch(seen)}
    given: dict[str, Any] = {"user_prompt": case.prompt}
    while True:
        async with make_executor(case, ledger, seen.hook()) as executor:
            tools = toolset(executor, **turn)
            output: Any = [str, DeferredToolRequests]
            agent: Any = Agent(_stream(case), toolsets=[tools], output_type=output)
            with case.inside():
                done = await agent.run(**given, **own, **options)
        saved = done.all_messages_json()
        if not isinstance(done.output, DeferredToolRequests):
            _take(seen, done.all_messages())
            return seen
        given = {
            "message_history": ModelMessagesTypeAdapter.validate_json(saved),
            "deferred_tool_results": DeferredToolResults(
                approvals={
                    one.tool_call_id: _answer(next(answers)) for one in done.output.approvals
                },
                metadata=json.loads(json.dumps(done.output.metadata)),
            ),
        }


def _take(seen: Seen, messages: list[ModelMessage]) -> None:
    parts = [part for one in messages for part in one.parts if isinstance(part, ToolReturnPart)]
    for part in parts:
        images = sum(isinstance(one, BinaryContent) for one in part.files)
        text = part.model_response_str(wrap_if_error=False)
        seen.results[part.tool_call_id] = Shown(text, part.outcome != "success", images)
