"""LangChain's create_agent as a host of the kit, bare and with handrail; and approvals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import ToolException
from langchain_core.tools import tool as their_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from handrail import DESTROY, READ, WRITE, Call, Executor, Image, Text
from handrail.adapters.langchain import source, tools
from conformance import Conversation, Setup
from on_langgraph import (
    CUT_OFF,
    STARTED,
    THREAD,
    Plain,
    Saved,
    check_cut_off,
    check_whole,
    hear,
    read_messages,
    to_reply,
    wrap,
)
from processes import Asked, Outcome, make_executor

Run = Callable[[Conversation], Awaitable[None]]


class Scripted(BaseChatModel):
    """Replies with what a function returns."""

    script: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.script(messages))])


async def converse(setup: Setup, conversation: Conversation, made: Any) -> None:
    model = Scripted(script=lambda messages: to_reply(conversation.reply(read_messages(messages))))
    agent: Any = create_agent(model, made, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": str(id(conversation))}}
    state = await agent.ainvoke({"messages": [("user", "go")]}, config)
    while asked := state.get("__interrupt__"):
        words = {
            one.id: {it["call_id"]: setup.ask(it["call_id"], it["question"]) for it in one.value}
            for one in asked
        }
        state = await agent.ainvoke(Command(resume=words), config)


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
    "a tool raises": "dies",
    "two writers": "lost update",
    "a long result": "whole",
    "approval expired": "runs",
    "a read behind a question": "overtakes",
    "a hang": "hangs",
    "two turns at once": "lost update",
    "an image": "n/a",
    "a stream": "dies",
    "the rest of a long result": "whole",
    "a stale tool": "n/a",
    "an unknown outcome": "dies",
}


async def ask(executor: Executor, calls: Sequence[Call], store: Path) -> Asked:
    """Run until the agent is interrupted. The checkpointer saves what another process needs."""
    async with AsyncSqliteSaver.from_conn_string(str(store / "db")) as saver:
        model = Scripted(script=lambda _: to_reply(calls))
        agent: Any = create_agent(model, tools(executor), checkpointer=saver)
        state = await agent.ainvoke({"messages": [("user", "go")]}, THREAD)
        requests = [it for one in state["__interrupt__"] for it in one.value]
        return sorted((it["call_id"], it["question"]) for it in requests)


async def resume(executor: Executor, store: Path, words: dict[str, bool]) -> Outcome:
    """Continue in another process."""
    async with AsyncSqliteSaver.from_conn_string(str(store / "db")) as saver:
        model = Scripted(script=lambda _: AIMessage("done"))
        agent: Any = create_agent(model, tools(executor), checkpointer=saver)
        asked = (await agent.aget_state(THREAD)).interrupts
        given = {one.id: {it["call_id"]: words[it["call_id"]] for it in one.value} for one in asked}
        state = await agent.ainvoke(Command(resume=given), THREAD)
        again = [it["call_id"] for one in state.get("__interrupt__", ()) for it in one.value]
        return again, [(one.call_id, one.text) for one in read_messages(state["messages"][:-1])]


def test_a_tool_runs_outside_of_a_graph_too(tmp_path: Path) -> None:
    _, show = tools(make_executor(tmp_path))
    called = {"type": "tool_call", "name": "show", "args": {"path": "a"}, "id": "c1"}

    assert anyio.run(show.ainvoke, {"path": "a"}) == ""
    assert anyio.run(show.ainvoke, called).tool_call_id == "c1"
    with pytest.raises(NotImplementedError, match="use `ainvoke`"):
        show.invoke({"path": "a"})


def run_tools(executor: Executor, reply: AIMessage) -> list[ToolMessage]:
    """Run the calls of a message as an agent does: in a node of LangChain's own."""

    async def run() -> list[ToolMessage]:
        graph: Any = StateGraph(Plain)
        graph.add_node("tools", ToolNode(tools(executor)))
        graph.add_edge(START, "tools")
        state = await graph.compile().ainvoke({"messages": [reply]})
        return list(state["messages"])

    return anyio.run(run)


def make_agent(model: Any, executor: Executor, saver: Any) -> Any:
    return create_agent(Scripted(script=model), tools(executor), checkpointer=saver)


def answer_all(asked: Any) -> Any:
    return {one.id: {it["call_id"]: True for it in one.value} for one in asked}


def test_callbacks_and_event_streams_see_the_calls() -> None:
    first, then, events, above = anyio.run(hear, make_agent, answer_all)
    errors = [one[:3] for one in first if one[0] == "error"]

    assert [one for one in first if one[0] == "start"] == STARTED
    assert ("end", "c1", "saved a") in first
    assert sorted(errors) == [("error", "c2", "ToolException"), ("error", "c3", "GraphInterrupt")]
    assert then == [STARTED[2], ("end", "c3", "saved b")]
    assert events == ["on_tool_start", "on_tool_end"]
    assert "save_twice" in above


def test_a_call_that_was_cut_off_does_not_run() -> None:
    check_cut_off(run_tools)
    check_whole(run_tools)


async def run_with(state: Any) -> Any:
    """Call a tool as a ToolNode does whose graph has this state."""
    [made] = tools(Saved().executor())
    runtime: Any = SimpleNamespace(state=state, context=None)
    args = {"path": "a", "handrail_runtime": runtime}
    return await made.ainvoke({"type": "tool_call", "name": "save", "args": args, "id": "c0"})


@dataclass
class Record:
    messages: list[Any]


def test_the_messages_are_found_in_every_form_of_a_state() -> None:
    call: Any = {"name": "save", "args": {"path": "a"}, "id": "c0", "type": "tool_call"}
    reply = AIMessage("", tool_calls=[call], response_metadata={"finish_reason": "length"})
    states = [[reply], {"messages": [reply]}, Record([reply]), {}, {"messages": []}]
    results = [anyio.run(run_with, state) for state in states]

    assert [one.text for one in results] == [CUT_OFF, CUT_OFF, CUT_OFF, "saved", "saved"]


@their_tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@their_tool
def crash(kind: str) -> str:
    """Crash."""
    raise ToolException("Try 7.") if kind == "soft" else OSError("cannot open /srv/secret")


@their_tool
def draw() -> list[Any]:
    """Draw."""
    image = {"type": "image", "base64": "MQ==", "mime_type": "image/png"}
    return [{"type": "text", "text": "a chart"}, image, "and", {"type": "file", "id": "f1"}]


@their_tool
def ping() -> str:
    """Ping."""
    raise ToolException("Not now.")


ping.handle_tool_error = True


def test_tools_of_langchain_run_under_the_rules_of_an_executor() -> None:
    theirs = source([add, crash, draw, ping], effects={"a*": READ, "draw": WRITE})
    executor = Executor(theirs)
    calls = [
        Call("add", {"a": 1, "b": 2}, "c1"),
        Call("add", {"a": "one", "b": 2}, "c2"),
        Call("crash", {"kind": "soft"}, "c3"),
        Call("crash", {"kind": "hard"}, "c4"),
        Call("ping", {}, "c5"),
        Call("draw", {}, "c6"),
    ]
    results = anyio.run(executor.run_all, calls)
    kinds = [one.failure and one.failure.kind.value for one in results]

    assert [(spec.name, spec.effect) for spec in theirs.specs] == [
        ("add", READ),
        ("crash", DESTROY),
        ("draw", WRITE),
        ("ping", DESTROY),
    ]
    assert kinds == [None, "bad_args", "failed", "bug", "failed", None]
    assert [results[one].text for one in (0, 2, 4)] == ["3", "Try 7.", "Not now."]
    assert "secret" not in results[3].text
    text, image, word, other = results[5].parts
    assert (text, image, word) == (Text("a chart"), Image(b"1", "image/png"), Text("and"))
    assert other == Text('{"type": "file", "id": "f1"}')
