"""Items that only a program can answer are named, never taken for the end of a reply."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from inline_snapshot import snapshot

from handrail import Call, Result, Text
from handrail.agent import Agent
from handrail.messages import Prompt, Reply, Request, StreamItem, ToolResults
from handrail.providers import openai_responses

ITEMS: dict[str, dict[str, Any]] = {
    "custom_tool_call": {"call_id": "c1", "name": "sql", "input": "select 1"},
    "shell_call": {"call_id": "c1", "action": {"commands": ["ls"]}},
    "local_shell_call": {"call_id": "c1", "action": {"command": ["ls"]}},
    "apply_patch_call": {"call_id": "c1", "operation": {"type": "delete_file", "path": "a"}},
    "computer_call": {"call_id": "c1", "action": {"type": "screenshot"}},
    "mcp_approval_request": {"id": "m1", "name": "pay", "arguments": "{}", "server_label": "bank"},
}
NAMES = {"custom_tool_call": " 'sql'", "mcp_approval_request": " 'pay'"}


def response(*items: dict[str, Any]) -> dict[str, Any]:
    return {"id": "r", "status": "completed", "output": list(items)}


def streamed(*items: dict[str, Any]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": "r"}}]
    for at, item in enumerate(items):
        added = {"output_index": at, "item": item}
        events += [{"type": f"response.output_item.{kind}", **added} for kind in ("added", "done")]
    return [*events, {"type": "response.completed", "response": response(*items)}]


async def read(events: list[dict[str, Any]]) -> Reply:
    async def feed() -> AsyncIterator[dict[str, Any]]:
        for event in events:
            yield event

    items = [item async for item in openai_responses.decode_stream(feed())]
    assert isinstance(items[-1], Reply)
    return items[-1]


@pytest.mark.parametrize("kind", ITEMS)
async def test_an_item_that_a_program_must_answer_is_named(kind: str) -> None:
    item = {"type": kind, **ITEMS[kind]}
    reply = openai_responses.decode(response(item))

    assert reply == await read(streamed(item))
    assert (reply.stop, reply.calls) == ("unsupported", ())
    assert reply.stop_detail == (
        "the reply has requests that your program must answer, and handrail cannot: "
        f"{kind}{NAMES.get(kind, '')}. Offer function tools for these"
    )
    assert openai_responses.losses([Prompt.of("go"), reply]) == (
        f"messages[1]: no answer to {kind}{NAMES.get(kind, '')}",
    )


@pytest.mark.parametrize("kind", ["shell_call", "apply_patch_call"])
async def test_an_item_that_the_provider_answered_is_none(kind: str) -> None:
    """The control: hosted tools come with their outputs, and the reply ends as usual."""
    output = {"type": f"{kind}_output", "call_id": "c1", "output": []}
    reply = openai_responses.decode(response({"type": kind, **ITEMS[kind]}, output))

    assert (reply.stop, reply.stop_detail) == ("end", "")
    assert openai_responses.losses([Prompt.of("go"), reply]) == ()


def test_a_reply_with_calls_as_well_names_it_too() -> None:
    call = {"type": "function_call", "call_id": "c2", "name": "look", "arguments": "{}"}
    reply = openai_responses.decode(response({"type": "shell_call", **ITEMS["shell_call"]}, call))
    messages = [Prompt.of("go"), reply, ToolResults((Result("c2", "seen"),))]

    assert (reply.stop, reply.calls) == ("unsupported", (Call("look", "{}", "c2"),))
    assert openai_responses.losses(messages) == ("messages[1]: no answer to shell_call",)


def test_a_reply_that_was_cut_off_says_so_first() -> None:
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    reply = openai_responses.decode({**response({"type": "shell_call"}), **cut})

    assert (reply.stop, reply.stop_detail) == ("length", "")


@pytest.mark.parametrize("text", ["", "I will look."])
async def test_an_agent_ends_at_once_and_says_what_is_not_supported(text: str) -> None:
    requests: list[Request] = []
    message = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    }
    items = [message] if text else []
    reply = openai_responses.decode(
        response(*items, {"type": "custom_tool_call", **ITEMS["custom_tool_call"]})
    )

    async def model(request: Request) -> AsyncIterator[StreamItem]:
        requests.append(request)
        yield reply

    done = await Agent(model).run("go")

    assert (len(requests), done.stop_reason, done.stop_detail) == snapshot(
        (
            1,
            "empty",
            "the reply has requests that your program must answer, and handrail cannot: custom_tool_call 'sql'. Offer function tools for these",
        )
    )
    assert [part.text for part in reply.parts if isinstance(part, Text)] == ([text] if text else [])
