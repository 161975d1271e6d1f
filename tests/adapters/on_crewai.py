"""CrewAI as a host of the kit, bare and with handrail."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true"}
os.environ |= {"CREWAI_TRACING_ENABLED": "false", "CREWAI_TESTING": "true"}

import anyio
from crewai import Agent, BaseLLM, Crew, Task
from crewai.tools import tool as crewai_tool
from crewai.tools.tool_failure import ToolFailure
from pydantic import PrivateAttr

from handrail import READ, Call, Context, Executor, Toolset, tool
from handrail.adapters.crewai import tools
from conformance import Conversation, Read, Setup
from threads import call_from_thread, run_in_thread

Run = Callable[[Conversation], Awaitable[None]]
Script = Callable[[Sequence[Read]], Sequence[Call]]


class Scripted(BaseLLM):
    """Replies with the calls that a function returns."""

    _script: Any = PrivateAttr()

    def follow(self, script: Script) -> Scripted:
        self._script = script
        return self

    def call(self, messages: Any, *_: Any, **__: Any) -> Any:
        calls = self._script(read_messages(messages))
        return [
            {"id": one.id, "function": {"name": one.name, "arguments": json.dumps(one.args)}}
            for one in calls
        ] or "Final Answer: done"

    def supports_function_calling(self) -> bool:
        return True

    def get_context_window_size(self) -> int:
        return 10**9


def read_messages(messages: Any) -> list[Read]:
    """Return what the model reads since its last reply."""
    new: list[Read] = []
    for message in messages if isinstance(messages, list) else []:
        if message["role"] == "assistant":
            new = []
        elif message["role"] == "tool":
            new.append(Read(message["tool_call_id"], str(message["content"])))
    return new


def run_crew(script: Script, made: Any) -> None:
    model = Scripted(model="m").follow(script)
    agent = Agent(role="r", goal="g", backstory="b", llm=model, tools=made)
    task = Task(description="go", expected_output="x", agent=agent)
    Crew(agents=[agent], tasks=[task]).kickoff()


def wrap(fn: Any, loop: Any) -> Any:
    """Return a synchronous tool with the function's arguments."""

    def run(**args: Any) -> Any:
        return call_from_thread(loop, fn, args)

    run.__name__, run.__doc__ = fn.__name__, fn.__doc__
    run.__annotations__ = {
        name: kind for name, kind in fn.__annotations__.items() if name != "return"
    }
    run.__signature__ = __import__("inspect").signature(fn)  # type: ignore[attr-defined]
    return crewai_tool(run)


def bare(setup: Setup) -> Run:
    setup.require("streams")
    functions = [fn for fn in setup.world.functions() if fn.__name__ != "draw"]

    async def run(conversation: Conversation) -> None:
        made = [wrap(fn, asyncio.get_running_loop()) for fn in functions]
        await run_in_thread(run_crew, conversation.reply, made)

    return run


def railed(setup: Setup, **given: Any) -> Run:
    setup.require("approvals", "changes", "streams")
    executor = setup.executor(asks_person=True)

    async def run(conversation: Conversation) -> None:
        async with executor:
            await run_in_thread(run_crew, conversation.reply, tools(executor, **given))

    return run


GOES_ON = True
"""It does not say which calls are of one run."""
HOST_DECIDES = {"upper and lower case": "runs", "an image": "n/a"}
VARIES = {"a read behind a question": "overtakes", "two writers": "wrong order"}
"""Calls run in threads, whose order is CrewAI's: on a busy machine, this happens too."""
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
    "upper and lower case": "runs",
}
UNSURE = {"two writers": "lost update", "two turns at once": "lost update"}
"""Where the threads of the host decide: it goes wrong, or it is ok."""


@tool(effect=READ)
async def whoami(context: Context[Any], mood: str | None = None) -> str:
    """Say who calls."""
    return f"{context.principal} {context.deps} {mood}"


def test_the_tools_get_the_principal_and_the_deps() -> None:
    [made] = tools(Executor(Toolset(whoami)), principal="alice", deps="notes")

    assert made.run() == "alice notes None"
    assert anyio.run(made.arun) == "alice notes None"
    assert made.cache_function({}, "old") is False
    wrong = made.run(mood=3)
    assert isinstance(wrong, ToolFailure)
    assert "mood" in wrong.message
