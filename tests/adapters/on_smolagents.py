"""smolagents as a host of the kit, bare and with handrail."""

from __future__ import annotations

import asyncio
import inspect
import typing
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from smolagents import Tool, ToolCallingAgent
from smolagents.agents import ToolOutput
from smolagents.models import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
    Model,
)

from handrail import READ, Call, Context, Executor, Toolset, tool
from handrail.adapters.smolagents import tools
from conformance import Conversation, Read, Setup
from threads import call_from_thread, run_in_thread

Run = Callable[[Conversation], Awaitable[None]]
Script = Callable[[Sequence[Read]], Sequence[Call]]


class Scripted(Model):
    """Replies with the calls that a function returns."""

    def __init__(self, script: Script) -> None:
        super().__init__(model_id="m")
        self.script = script
        self.read: list[Read] = []

    def generate(self, messages: Any, **_: Any) -> ChatMessage:
        if not self.read and len(messages) > 2:  # an error ended the step
            self.read = [Read("c1", str(messages[-1].content))]
        calls = self.script(self.read) or [Call("final_answer", {"answer": "done"}, "end")]
        self.read = []
        made = []
        for one in calls:
            function = ChatMessageToolCallFunction(name=one.name, arguments=one.args)
            made.append(ChatMessageToolCall(id=one.id, type="function", function=function))
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=made)


def run_agent(script: Script, made: Any, threads: int | None = None) -> None:
    model = Scripted(script)
    agent = ToolCallingAgent(tools=made, model=model, verbosity_level=0, max_tool_threads=threads)
    for step in agent.run("go", stream=True):
        if isinstance(step, ToolOutput):
            model.read.append(Read(step.id, str(step.output)))


def wrap(fn: Any, loop: Any) -> Tool:
    """Return a tool with the function's arguments."""
    kinds = {int: "integer", str: "string"}
    hints = {k: v for k, v in typing.get_type_hints(fn).items() if k != "return"}
    inputs = {k: {"type": kinds[v], "description": k} for k, v in hints.items()}
    members = {
        "name": fn.__name__,
        "description": inspect.getdoc(fn),
        "inputs": inputs,
        "output_type": "string",
        "skip_forward_signature_validation": True,
        "forward": lambda _, **args: call_from_thread(loop, fn, args),
    }
    return type("Wrapped", (Tool,), members)()


def bare(setup: Setup) -> Run:
    setup.require("streams")
    functions = [fn for fn in setup.world.functions() if fn.__name__ != "draw"]

    async def run(conversation: Conversation) -> None:
        made = [wrap(fn, asyncio.get_running_loop()) for fn in functions]
        await run_in_thread(run_agent, conversation.reply, made)

    return run


def railed(setup: Setup, **given: Any) -> Run:
    setup.require("approvals", "changes", "streams")
    executor = setup.executor(asks_person=True)

    async def run(conversation: Conversation) -> None:
        async with executor:  # in one thread: smolagents does not keep the order of calls
            await run_in_thread(run_agent, conversation.reply, tools(executor, **given), 1)

    return run


GOES_ON = True
"""It does not say which calls are of one run."""
HOST_DECIDES = {"an image": "n/a", "a repeated call id": "wrong calls"}
BARE = {
    "a tool raises": "leaks",
    "a long result": "whole",
    "approval given": "n/a",
    "approval refused": "n/a",
    "approval expired": "n/a",
    "approval edited": "n/a",
    "a read behind a question": "n/a",
    "cancellation": "runs on",
    "a hang": "hangs",
    "an image": "n/a",
    "a stream": "not read",
    "the rest of a long result": "whole",
    "a stale tool": "n/a",
    "an unknown outcome": "not said",
    "a repeated call id": "wrong calls",
}
UNSURE = {"two writers": "lost update", "two turns at once": "lost update"}
"""Where the threads of the host decide: it goes wrong, or it is ok."""


@tool(effect=READ)
async def whoami(context: Context[Any], mood: str | None = None) -> str:
    """Say who calls."""
    return f"{context.principal} {context.deps}"


def test_the_tools_get_the_principal_and_the_deps() -> None:
    executor = Executor(Toolset(whoami))
    [made] = tools(executor, principal="alice", deps="notes")

    assert made.inputs == {
        "mood": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
        | {"type": "any", "description": "mood", "nullable": True}
    }
    assert made() == "alice notes"
