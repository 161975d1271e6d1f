"""AutoGen as a host of the kit, bare and with handrail."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from autogen_agentchat.agents import AssistantAgent
from autogen_core import CancellationToken, FunctionCall
from autogen_core.models import (
    ChatCompletionClient,
    CreateResult,
    FunctionExecutionResultMessage,
    RequestUsage,
)
from autogen_core.tools import FunctionTool

from handrail import READ, Call, Context, Executor, File, Text, Toolset, tool
from handrail.adapters.autogen import workbench
from conformance import Conversation, Read, Setup

Run = Callable[[Conversation], Awaitable[None]]
Script = Callable[[Sequence[Any]], Sequence[Call]]


class Scripted(ChatCompletionClient):
    """Replies with the calls that a function returns."""

    component_type = "model"

    def __init__(self, script: Script) -> None:
        self.script = script

    async def create(self, messages: Any, **_: Any) -> CreateResult:
        calls = [
            FunctionCall(id=call.id, name=call.name, arguments=json.dumps(call.args))
            for call in self.script(messages)
        ]
        reason: Any = "function_calls" if calls else "stop"
        usage = RequestUsage(0, 0)
        return CreateResult(
            finish_reason=reason, content=calls or "done", usage=usage, cached=False
        )

    def create_stream(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def close(self) -> None: ...

    def actual_usage(self) -> RequestUsage:
        return RequestUsage(0, 0)

    total_usage = actual_usage

    def count_tokens(self, *_: Any, **__: Any) -> int:
        return 0

    remaining_tokens = count_tokens

    @property
    def model_info(self) -> Any:
        names = ("vision", "function_calling", "json_output", "structured_output")
        return dict.fromkeys(names, True) | {"family": "x", "multiple_system_messages": True}

    capabilities = model_info


def read_messages(messages: Sequence[Any]) -> list[Read]:
    """Return what the model reads in the last message."""
    last = messages[-1]
    if not isinstance(last, FunctionExecutionResultMessage):
        return []
    return [Read(one.call_id, one.content, one.content.count("[Image: ")) for one in last.content]


async def converse(conversation: Conversation, **options: Any) -> None:
    model = Scripted(lambda messages: conversation.reply(read_messages(messages)))
    agent, token = AssistantAgent("a", model, max_tool_iterations=5, **options), CancellationToken()
    try:
        await agent.run(task="go", cancellation_token=token)
    except BaseException:
        token.cancel()  # AutoGen runs tools in tasks that only this cancels
        with anyio.CancelScope(shield=True):
            for _ in range(100):
                await checkpoint()
        raise


def bare(setup: Setup) -> Run:
    setup.require("streams")
    functions = [fn for fn in setup.world.functions() if fn.__name__ != "draw"]
    made = [FunctionTool(fn, str(fn.__doc__)) for fn in functions]
    return lambda conversation: converse(conversation, tools=made)


def railed(setup: Setup, **given: Any) -> Run:
    made = workbench(setup.executor(asks_person=True), **given)
    return lambda conversation: converse(conversation, workbench=made)


HOST_DECIDES: dict[str, str] = {}
BARE = {
    "a tool raises": "leaks",
    "two writers": "lost update",
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


@tool(effect=READ)
async def whoami(context: Context[Any]) -> list[Text | File]:
    """Say who calls."""
    who = f"{context.principal} {context.deps} {context.call_id}"
    return [Text(who), File(b"1", "text/csv", "one.csv")]


def test_the_tools_get_the_principal_the_deps_and_the_call_id() -> None:
    async def run() -> Any:
        async with workbench(Executor(Toolset(whoami)), principal="alice", deps="db") as bench:
            await bench.load_state(await bench.save_state())
            await bench.reset()
            named = await bench.call_tool("whoami", {}, CancellationToken(), "c1")
            return named, await bench.call_tool("whoami")

    named, plain = anyio.run(run)

    assert named.to_text() == "alice db c1\n[one.csv]"
    assert plain.to_text().startswith("alice db ")
    assert not named.is_error
