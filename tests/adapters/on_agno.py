"""Agno as a host of the kit, bare and with handrail."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import anyio
from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse

from handrail import READ, Call, Context, Executor, File, Text, Toolset, tool
from handrail.adapters.agno import tools
from conformance import Conversation, Read, Setup

Run = Callable[[Conversation], Awaitable[None]]
Script = Callable[[Sequence[Any]], Sequence[Call]]


class Scripted(Model):
    """Replies with the calls that a function returns."""

    def __init__(self, script: Script) -> None:
        super().__init__(id="m", name="m", provider="none")
        self.script = script

    async def ainvoke(self, messages: Any, *_: Any, **__: Any) -> ModelResponse:
        used = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.args)},
            }
            for call in self.script(messages)
        ]
        content = None if used else "done"
        return ModelResponse(role="assistant", content=content, tool_calls=used)

    def invoke(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    invoke_stream = ainvoke_stream = invoke
    _parse_provider_response = _parse_provider_response_delta = invoke


def read_messages(messages: Sequence[Any]) -> list[Read]:
    """Return what the model reads since its last reply."""
    new: list[Read] = []
    images = 0
    for message in messages:
        if message.role == "assistant":
            new, images = [], 0
        elif message.role == "tool":
            new.append(Read(message.tool_call_id, str(message.content)))
        images += len(message.images or ())
    return [one._replace(images=images) for one in new]


async def converse(conversation: Conversation, made: Any) -> None:
    model = Scripted(lambda messages: conversation.reply(read_messages(messages)))
    await Agent(model=model, tools=made, telemetry=False).arun("go")


def bare(setup: Setup) -> Run:
    setup.require("streams")
    made = [fn for fn in setup.world.functions() if fn.__name__ != "draw"]
    return lambda conversation: converse(conversation, made)


def railed(setup: Setup, **given: Any) -> Run:
    made = tools(setup.executor(asks_person=True), **given)
    return lambda conversation: converse(conversation, made)


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
    "the rest of a long result": "whole",
    "a stale tool": "n/a",
    "an unknown outcome": "not said",
}


@tool(effect=READ)
async def whoami(context: Context[dict[str, Any]]) -> list[Text | File]:
    """Say who calls."""
    who = f"{context.principal} {context.deps['db']} {context.call_id}"
    return [Text(who), File(b"1", "text/csv", "one.csv")]


def test_the_tools_get_the_user_the_dependencies_and_the_call_id() -> None:
    seen: list[Read] = []

    def script(messages: Sequence[Any]) -> Sequence[Call]:
        seen.extend(read_messages(messages))
        return [] if seen else [Call("whoami", {}, "c1")]

    agent = Agent(
        model=Scripted(script), tools=[*tools(Executor(Toolset(whoami)))], telemetry=False
    )
    run = partial(agent.arun, "go", user_id="alice", dependencies={"db": "notes"})
    anyio.run(run)

    assert [one.text.partition(" [")[0] for one in seen] == ["alice notes c1"]
