"""Anthropic's tool runner as a host of the kit, bare and with handrail."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anthropic
import anyio
import httpx2

from handrail import READ, Call, Context, Executor, Toolset, tool
from handrail.adapters.anthropic import tools
from conformance import Conversation, Read, Setup

Run = Callable[[Conversation], Awaitable[None]]
Script = Callable[[Sequence[Read]], Sequence[Call]]


def read_blocks(messages: Sequence[Any]) -> list[Read]:
    """Return what the model reads in the last message."""
    new: list[Read] = []
    for block in messages[-1]["content"] if isinstance(messages[-1]["content"], list) else []:
        content = block["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        images = sum(part["type"] == "image" for part in parts)
        texts = [part["text"] for part in parts if part["type"] == "text"]
        new.append(Read(block["tool_use_id"], "".join(texts), images))
    return new


def make_client(script: Script) -> anthropic.AsyncAnthropic:
    """Return a client whose server replies with the calls that a function returns."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        calls = script(read_blocks(json.loads(request.content)["messages"]))
        used = [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": call.args}
            for call in calls
        ]
        body = {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "x",
            "content": used or [{"type": "text", "text": "done"}],
            "stop_reason": "tool_use" if used else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        return httpx2.Response(200, json=body)

    transport = httpx2.MockTransport(handle)
    return anthropic.AsyncAnthropic(
        api_key="x",
        base_url="http://127.0.0.1:9",
        http_client=httpx2.AsyncClient(transport=transport),
        max_retries=0,
    )


async def run_tools(script: Script, made: Any) -> None:
    runner = make_client(script).beta.messages.tool_runner(
        model="x", max_tokens=10, tools=made, messages=[{"role": "user", "content": "go"}]
    )
    await runner.until_done()


def bare(setup: Setup) -> Run:
    setup.require("streams")
    functions = [fn for fn in setup.world.functions() if fn.__name__ != "draw"]
    made = [anthropic.beta_async_tool(fn) for fn in functions]
    return lambda conversation: run_tools(conversation.reply, made)


def railed(setup: Setup, **given: Any) -> Run:
    made = tools(setup.executor(asks_person=True), **given)
    return lambda conversation: run_tools(conversation.reply, made)


GOES_ON = True
"""It does not say which calls are of one run."""
HOST_DECIDES: dict[str, str] = {}
BARE = {
    "a tool raises": "leaks",
    "a long result": "whole",
    "approval given": "n/a",
    "approval refused": "n/a",
    "approval expired": "n/a",
    "approval edited": "n/a",
    "a read behind a question": "n/a",
    "a hang": "hangs",
    "two turns at once": "lost update",
    "an image": "n/a",
    "a stream": "not read",
    "the rest of a long result": "whole",
    "a stale tool": "n/a",
    "an unknown outcome": "not said",
}


def test_the_tools_get_the_principal_and_failures_are_errors() -> None:
    @tool(effect=READ)
    async def whoami(context: Context) -> str:
        """Say who calls."""
        return str(context.principal)

    [made] = tools(Executor(Toolset(whoami)), principal="alice")

    assert made.name == "whoami"
    assert anyio.run(made.call, {}) == "alice"
