"""Microsoft Agent Framework as a host of the kit, bare and with handrail."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import anyio
from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
)
from agent_framework import tool as host_tool

from handrail import READ, Call, Context, Executor, Toolset, tool
from handrail.adapters.agent_framework import tools
from conformance import Conversation, Read, Setup

Run = Callable[[Conversation], Awaitable[None]]
Script = Callable[[Sequence[Any]], Sequence[Call]]


class Scripted(FunctionInvocationLayer, BaseChatClient):
    """Replies with the calls that a function returns."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.script = script

    def _inner_get_response(self, *, messages: Any, **_: Any) -> Any:
        async def reply() -> ChatResponse:
            contents: list[Any] = [
                Content.from_function_call(call.id, call.name, arguments=json.dumps(call.args))
                for call in self.script(messages)
            ]
            return ChatResponse(messages=[Message("assistant", contents or ["done"])])

        return reply()


def read_messages(messages: Sequence[Any]) -> list[Read]:
    """Return what the model reads since its last reply."""
    new: list[Read] = []
    for message in messages:
        if message.role == "assistant":
            new = []
        for content in message.contents:
            if content.type == "function_result":
                images = sum(one.type == "data" for one in content.items or ())
                new.append(Read(content.call_id, str(content.result), images))
    return new


async def converse(conversation: Conversation, made: Any) -> None:
    client = Scripted(lambda messages: conversation.reply(read_messages(messages)))
    await Agent(client, tools=made).run("go")


def bare(setup: Setup) -> Run:
    setup.require("streams")
    functions = [fn for fn in setup.world.functions() if fn.__name__ != "draw"]
    made = [host_tool(fn) for fn in functions]
    return lambda conversation: converse(conversation, made)


def railed(setup: Setup, **given: Any) -> Run:
    made = tools(setup.executor(asks_person=True), **given)
    return lambda conversation: converse(conversation, made)


HOST_DECIDES: dict[str, str] = {}
BARE = {
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
async def whoami(context: Context[dict[str, Any]]) -> str:
    """Say who calls."""
    return f"{context.principal} {context.deps} {context.call_id}"


def test_the_tools_get_the_arguments_of_the_run_the_principal_and_the_call_id() -> None:
    seen: list[Read] = []

    def script(messages: Sequence[Any]) -> Sequence[Call]:
        seen.extend(read_messages(messages))
        return [] if seen else [Call("whoami", {}, "c1")]

    made = tools(Executor(Toolset(whoami)), principal=lambda context: context.kwargs["user"])
    agent = Agent(Scripted(script), tools=made)
    anyio.run(partial(agent.run, "go", function_invocation_kwargs={"user": "alice"}))

    assert [(one.call_id, one.text) for one in seen] == [("c1", "alice {'user': 'alice'} c1")]


def test_a_tool_runs_without_an_agent() -> None:
    [made] = tools(Executor(Toolset(whoami)), principal=lambda _: "alice", deps={"user": "bob"})
    [content] = anyio.run(made.invoke)

    assert content.text.startswith("None {'user': 'bob'} ")
