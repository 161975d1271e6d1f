"""Calls of programs that providers run. The wire data follows the types of their SDKs: it was written, not recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anthropic.types
import openai.types.responses
import pytest

from handrail import (
    READ,
    Allow,
    Approvals,
    Ask,
    CheckedCall,
    Decision,
    Executor,
    Hook,
    Result,
    Toolset,
    tool,
)
from handrail.agent import RunState, dump_state, load_state
from handrail.approvals import defer
from handrail.messages import Message, Prompt, Reply, ToolResults
from handrail.runs.lines import event_lines
from providers.apis import APIS
from providers.sdk_types import CHECKS

CODE = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
PROGRAM = {"type": "program", "caller_id": "call_p1"}
ANTHROPIC: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [
        {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "code_execution",
            "input": {"code": "print(await stock(item='tea') + await stock(item='salt'))"},
            "caller": {"type": "direct"},
        },
        {"type": "tool_use", "id": "t1", "name": "stock", "input": {"item": "tea"}, "caller": CODE},
        {
            "type": "tool_use",
            "id": "t2",
            "name": "stock",
            "input": {"item": "gold"},
            "caller": CODE,
        },
        {
            "type": "tool_use",
            "id": "t3",
            "name": "stock",
            "input": {"item": "salt"},
            "caller": {"type": "direct"},
        },
    ],
    "container": {"id": "container_1", "expires_at": "2026-01-01T00:00:00Z"},
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 9, "output_tokens": 5},
}


def function_call(call_id: str, item: str, caller: Mapping[str, str]) -> dict[str, Any]:
    about = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": "stock"}
    return {
        **about,
        "arguments": json.dumps({"item": item}),
        "status": "completed",
        "caller": caller,
    }


RESPONSES = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "gpt",
    "status": "completed",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "output": [
        {
            "type": "program",
            "id": "prog_1",
            "call_id": "call_p1",
            "code": "text(await tools.stock({item: 'tea'}))",
            "fingerprint": "f1",
        },
        function_call("t1", "tea", PROGRAM),
        function_call("t2", "gold", PROGRAM),
        function_call("t3", "salt", {"type": "direct"}),
    ],
    "usage": {
        "input_tokens": 8,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 6,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 14,
    },
}
WIRE = {
    "anthropic": (ANTHROPIC, anthropic.types.Message, CODE["type"]),
    "openai_responses": (RESPONSES, openai.types.responses.Response, PROGRAM["type"]),
}


@tool(effect=READ)
def stock(item: str) -> list[dict[str, int]]:
    """Count an item."""
    return [{item: 3}]


def policy(call: CheckedCall) -> Decision:
    """A program of a provider may not touch gold without a person."""
    is_gold = call.args["item"] == "gold"
    return Ask(f"Show gold to {call.via}?") if call.via and is_gold else Allow()


def saved(reply: Reply, results: ToolResults) -> tuple[tuple[Message, ...], list[Result]]:
    """What another process reads."""
    again = load_state(dump_state(RunState((Prompt.of("Count."), reply), results.results)))
    return again.messages, [*again.waiting]


@pytest.mark.parametrize("api", WIRE)
async def test_calls_of_a_provider_s_program_are_decided_and_answered(api: str) -> None:
    wire, sdk, via = WIRE[api]
    sdk.model_validate(wire)
    reply = APIS[api].decode(wire)
    given = Approvals(approver=defer)
    lines: list[Any] = []
    watch = Hook(observe=lambda *seen: lines.extend(event_lines(seen[-1])))
    async with Executor(Toolset(stock), policy=policy, approvals=given, hooks=[watch]) as executor:
        results = await executor.run_reply(reply, turn=executor.turn("1", run="r"))
    messages, kept = saved(reply, results)
    async with Executor(Toolset(stock), policy=policy, approvals=given) as executor:
        waiting = ToolResults(tuple(kept))
        [question] = waiting.questions
        done = await executor.resume(waiting, {question.id: Allow()})
    body = APIS[api].encode_messages([*messages, done])

    assert messages[-1] == reply
    assert [(one.id, one.via) for one in reply.calls] == [("t1", via), ("t2", via), ("t3", "")]
    assert [line.get("via", "") for line in lines if line["event"] == "requested"] == [via, via, ""]
    assert (question.question, question.call.via) == (f"Show gold to {via}?", via)
    assert (
        read_outputs(api, body)
        == {
            "anthropic": {"t1": '[{"tea":3}]', "t2": '[{"gold":3}]', "t3": '[{"salt":3}]'},
            "openai_responses": {
                "t1": ('[{"tea":3}]', PROGRAM),
                "t2": ('[{"gold":3}]', PROGRAM),
                "t3": ('[{"salt":3}]', None),
            },
        }[api]
    )
    CHECKS[api](body)


def read_outputs(api: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the results as the API gets them. It accepts nothing else beside those of a program."""
    if api == "anthropic":
        assert body["container"] == "container_1"
        _, sent, results = body["messages"]
        assert sent["content"][:3] == ANTHROPIC["content"][:3]
        assert {one["type"] for one in results["content"]} == {"tool_result"}
        return {one["tool_use_id"]: one["content"] for one in results["content"]}
    outputs = [one for one in body["input"] if one["type"] == "function_call_output"]
    return {one["call_id"]: (one["output"], one.get("caller")) for one in outputs}


@pytest.mark.parametrize(
    "item", [{"type": "mcp_call", "id": "m1"}, {"type": "web_search_call", "id": "w1"}]
)
def test_a_call_that_the_provider_ran_for_a_program_goes_back_unchanged(
    item: dict[str, Any],
) -> None:
    """Such calls have no id for a result."""
    api, made = APIS["openai_responses"], {**item, "caller": PROGRAM}
    output = [made, function_call("t1", "tea", PROGRAM)]
    reply = api.decode({**RESPONSES, "output": output})
    results = ToolResults((Result("t1", "3"),))
    sent = api.encode_messages([Prompt.of("Count."), reply, results])["input"]

    assert [one for one in sent if one.get("type") == item["type"]] == [made]
    assert [one["caller"] for one in sent if one.get("type") == "function_call_output"] == [PROGRAM]
