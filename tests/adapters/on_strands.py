"""Strands Agents as a host of the kit, bare and with handrail; and approvals across processes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from strands import Agent, ToolContext
from strands import tool as strands_tool
from strands.models.model import Model
from strands.session.file_session_manager import FileSessionManager

from handrail import READ, Call, Context, Executor, File, Text, Toolset, tool
from handrail.adapters.strands import tools
from conformance import Conversation, Read, Setup
from processes import Asked, Outcome

Run = Callable[[Conversation], Awaitable[None]]
Script = Callable[[Sequence[Any]], Sequence[Call]]


class Scripted(Model):
    """Replies with the calls that a function returns."""

    def __init__(self, script: Script) -> None:
        self.script = script

    def update_config(self, **_: Any) -> None: ...

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        calls = self.script(messages)
        yield {"messageStart": {"role": "assistant"}}
        for call in calls:
            use = {"name": call.name, "toolUseId": call.id}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(call.args)}}}}
            yield {"contentBlockStop": {}}
        if not calls:
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}


def read_messages(messages: Sequence[Any]) -> list[Read]:
    """Return what the model reads in the last message."""
    new: list[Read] = []
    for block in messages[-1]["content"]:
        if "toolResult" in block:
            parts = block["toolResult"]["content"]
            text = "".join(part.get("text", "") for part in parts)
            images = sum("image" in part for part in parts)
            new.append(Read(block["toolResult"]["toolUseId"], text, images))
    return new


def make_agent(script: Script, made: Any, **options: Any) -> Agent:
    return Agent(model=Scripted(script), tools=made, callback_handler=None, **options)


async def converse(setup: Setup, conversation: Conversation, made: Any) -> None:
    agent = make_agent(lambda messages: conversation.reply(read_messages(messages)), made)
    result = await agent.invoke_async("go")
    while result.stop_reason == "interrupt":
        answers: Any = []
        for one in result.interrupts or ():
            word = setup.ask(one.reason["call_id"], one.reason["question"])
            answers.append({"interruptResponse": {"interruptId": one.id, "response": word}})
        result = await agent.invoke_async(answers)


def wrap(setup: Setup, fn: Any) -> Any:
    """Return a tool as the documentation of Strands shows it, which asks if it must."""
    if fn.__name__ not in setup.needs_approval:
        return strands_tool(fn)

    async def append_text(path: str, text: str, tool_context: ToolContext) -> str:
        """Append text to a file."""
        reason = {"call_id": tool_context.tool_use["toolUseId"], "question": "May it?"}
        word = tool_context.interrupt("ask", reason)
        if word is False:
            return "denied"
        args = {"path": path, "text": text} if word is True else word
        return str(await fn(**args))

    return strands_tool(context=True)(append_text)


def bare(setup: Setup) -> Run:
    setup.require("approvals", "streams")
    functions = [fn for fn in setup.world.functions() if fn.__name__ != "draw"]
    made = [wrap(setup, fn) for fn in functions]
    return lambda conversation: converse(setup, conversation, made)


def railed(setup: Setup, **given: Any) -> Run:
    made = tools(setup.executor(), **given)
    return lambda conversation: converse(setup, conversation, made)


HOST_DECIDES: dict[str, str] = {}
BARE = {
    "a tool raises": "leaks",
    "two writers": "lost update",
    "a long result": "whole",
    "approval expired": "runs",
    "a read behind a question": "overtakes",
    "a hang": "hangs",
    "two turns at once": "lost update",
    "an image": "n/a",
    "a stream": "not read",
    "the rest of a long result": "whole",
    "a stale tool": "n/a",
    "an unknown outcome": "not said",
}


async def ask(executor: Executor, calls: Sequence[Call], store: Path) -> Asked:
    """Run until the agent is interrupted. The session saves what another process needs."""
    session = FileSessionManager(session_id="s1", storage_dir=str(store))
    agent = make_agent(lambda _: calls, tools(executor), session_manager=session)
    result = await agent.invoke_async("go")
    requests = [{"id": one.id, **one.reason} for one in result.interrupts or ()]
    (store / "asked.json").write_text(json.dumps(requests), encoding="utf-8")
    return [(one["call_id"], one["question"]) for one in requests]


async def resume(executor: Executor, store: Path, words: dict[str, bool]) -> Outcome:
    """Continue in another process."""
    seen: list[Read] = []

    def script(messages: Sequence[Any]) -> Sequence[Call]:
        seen.extend(read_messages(messages))
        return ()

    session = FileSessionManager(session_id="s1", storage_dir=str(store))
    agent = make_agent(script, tools(executor), session_manager=session)
    answers: Any = [
        {"interruptResponse": {"interruptId": one["id"], "response": words[one["call_id"]]}}
        for one in json.loads((store / "asked.json").read_text(encoding="utf-8"))
    ]
    result = await agent.invoke_async(answers)
    again = [one.reason["call_id"] for one in result.interrupts or ()]
    return again, sorted((read.call_id, read.text) for read in seen)


@tool(effect=READ)
async def whoami(context: Context[dict[str, Any]]) -> list[Text | File]:
    """Say who calls."""
    return [Text(f"{context.principal} {context.deps['db']}"), File(b"1", "text/csv", "one")]


def test_the_tools_get_the_invocation_state_and_the_principal() -> None:
    seen: list[Any] = []

    def script(messages: Sequence[Any]) -> Sequence[Call]:
        seen.append(messages[-1]["content"])
        return [Call("whoami", {}, "c1")] if len(seen) == 1 else []

    made = tools(Executor(Toolset(whoami)), principal=lambda state: str(state["user"]))
    anyio.run(partial(make_agent(script, made).invoke_async, "go", user="alice", db="notes"))

    assert seen[1][0]["toolResult"]["content"] == [
        {"text": "alice notes"},
        {"document": {"format": "csv", "name": "one", "source": {"bytes": b"1"}}},
    ]
    assert made[0].tool_type == "python"
