"""LangGraph as a host of the kit, bare and with handrail; and approvals across processes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypedDict

import anyio
import pytest
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    ToolMessage,
    message_chunk_to_message,
)
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt

from handrail import (
    READ,
    WRITE,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Context,
    Decision,
    Executor,
    File,
    Text,
    Toolset,
    tool,
    writes_file,
)
from handrail.adapters.langgraph import node
from conformance import Conversation, Read, Setup
from processes import Asked, Outcome, make_executor
from spans import CALLS, Spans
import real_model

Run = Callable[[Conversation], Awaitable[None]]
Model = Callable[[Sequence[AnyMessage]], AIMessage]
THREAD: Any = {"configurable": {"thread_id": "t1", "user": "alice"}}


def to_reply(calls: Sequence[Call]) -> AIMessage:
    sent: Any = [
        {"name": call.name, "args": call.args, "id": call.id, "type": "tool_call"} for call in calls
    ]
    return AIMessage("" if calls else "done", tool_calls=sent)


def read_messages(messages: Sequence[AnyMessage]) -> list[Read]:
    """Return what the model reads since its last reply."""
    new: list[Read] = []
    for message in messages:
        if isinstance(message, AIMessage):
            new = []
        elif isinstance(message, ToolMessage):
            blocks = message.content if isinstance(message.content, list) else []
            images = sum(isinstance(one, dict) and one["type"] == "image" for one in blocks)
            new.append(Read(message.tool_call_id, str(message.text), images))
    return new


def make_graph(model: Model, tools: Any, saver: Any = None, **options: Any) -> Any:
    graph: Any = StateGraph(MessagesState, **options)
    graph.add_node("model", lambda state: {"messages": [model(state["messages"])]})
    graph.add_node("tools", tools)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)


async def converse(setup: Setup, conversation: Conversation, tools: Any) -> None:
    app = make_graph(
        lambda messages: to_reply(conversation.reply(read_messages(messages))),
        tools,
        InMemorySaver(),
    )
    config: Any = {"configurable": {"thread_id": str(id(conversation))}}
    state = await app.ainvoke({"messages": [("user", "go")]}, config)
    while asked := state.get("__interrupt__"):
        words: dict[str, Any] = {}
        for one in asked[0].value:
            words[one["call_id"]] = setup.ask(one["call_id"], one["question"])
        state = await app.ainvoke(Command(resume=words), config)


def wrap(setup: Setup, fn: Any) -> StructuredTool:
    """Return a tool as the documentation of LangGraph shows it, which asks if it must."""

    async def asking(**args: Any) -> Any:
        call_id = "c1" if args["text"] == "1" else "c2"
        word = interrupt([{"call_id": call_id, "question": "May it?"}])[call_id]
        if word is False:
            return "denied"
        return await fn(**(args if word is True else word))

    asks = fn.__name__ in setup.needs_approval
    made = StructuredTool.from_function(coroutine=fn, name=fn.__name__, description=fn.__doc__)
    made.coroutine = asking if asks else fn
    return made


def bare(setup: Setup) -> Run:
    setup.require("approvals", "streams")
    functions = [fn for fn in setup.world.functions() if fn.__name__ != "draw"]
    tools = ToolNode([wrap(setup, fn) for fn in functions])
    return lambda conversation: converse(setup, conversation, tools)


def railed(setup: Setup, **given: Any) -> Run:
    tools = node(setup.executor(), **given)
    return lambda conversation: converse(setup, conversation, tools)


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
    """Run until the graph is interrupted. The checkpointer saves what another process needs."""
    async with AsyncSqliteSaver.from_conn_string(str(store / "db")) as saver:
        app = make_graph(lambda _: to_reply(calls), node(executor), saver)
        state = await app.ainvoke({"messages": [("user", "go")]}, THREAD)
        [request] = state["__interrupt__"]
        return [(one["call_id"], one["question"]) for one in request.value]


async def resume(executor: Executor, store: Path, words: dict[str, bool]) -> Outcome:
    """Continue in another process."""
    async with AsyncSqliteSaver.from_conn_string(str(store / "db")) as saver:
        app = make_graph(lambda _: AIMessage("done"), node(executor), saver)
        state = await app.ainvoke(Command(resume=words), THREAD)
        again = [one["call_id"] for asked in state.get("__interrupt__", ()) for one in asked.value]
        read = read_messages(state["messages"][:-1])
        return again, [(one.call_id, one.text) for one in read]


class Heard(AsyncCallbackHandler):
    """Notes what LangChain's callbacks hear of tools."""

    def __init__(self) -> None:
        self.notes: list[Any] = []

    async def on_tool_start(self, serialized: Any, input_str: str, **given: Any) -> None:
        self.notes.append(("start", given["tool_call_id"], serialized["name"], given["inputs"]))

    async def on_tool_end(self, output: Any, **given: Any) -> None:
        self.notes.append(("end", output.tool_call_id, output.content))

    async def on_tool_error(self, error: Any, **given: Any) -> None:
        said = str(error).partition(". ")[0]
        self.notes.append(("error", given["tool_call_id"], type(error).__name__, said))


@tool(effect=WRITE, touches=lambda path, **_: writes_file(path))
async def save_twice(path: str) -> str:
    """Save a file, with the help of a runnable whose trace is part of this one's."""
    return str(await RunnableLambda(lambda _: f"saved {path}", name="inner").ainvoke(path))


def careful_or_not(call: CheckedCall) -> Decision:
    return Ask("Save b?") if call.args["path"] == "b" else Allow()


SAVES = [
    Call("save_twice", {"path": "a"}, "c1"),
    Call("save_twice", {}, "c2"),
    Call("save_twice", {"path": "b"}, "c3"),
]
STARTED: list[Any] = [("start", call.id, "save_twice", call.args) for call in SAVES]


async def hear(make: Callable[[Any, Executor, Any], Any], resume: Callable[[Any], Any]) -> Any:
    """Return what callbacks hear until an approval and after it, and the events of a stream."""
    replies = iter([to_reply(SAVES), AIMessage("done")])
    executor = Executor(Toolset(save_twice), policy=careful_or_not)
    app, heard = make(lambda _: next(replies), executor, InMemorySaver()), Heard()
    config: Any = {"configurable": {"thread_id": "t1"}, "callbacks": [heard]}
    state = await app.ainvoke({"messages": [("user", "go")]}, config)
    first, heard.notes = heard.notes, []
    given = Command(resume=resume(state["__interrupt__"]))
    events = [one async for one in app.astream_events(given, config, version="v2")]
    named = {one["run_id"]: one["name"] for one in events}
    [inner] = [one for one in events if (one["name"], one["event"]) == ("inner", "on_chain_start")]
    above = [named.get(one) for one in inner["parent_ids"]]
    return first, heard.notes, [one["event"] for one in events if "_tool_" in one["event"]], above


def test_callbacks_and_event_streams_see_the_calls() -> None:
    first, then, events, above = anyio.run(hear, make_saving_graph, lambda _: {"c3": True})
    errors = [one[:3] for one in first if one[0] == "error"]

    assert [one for one in first if one[0] == "start"] == STARTED
    assert ("end", "c1", "saved a") in first
    assert sorted(errors) == [("error", "c2", "ToolException"), ("error", "c3", "GraphInterrupt")]
    assert then == [STARTED[2], ("end", "c3", "saved b")]
    assert events == ["on_tool_start", "on_tool_end"]
    assert "save_twice" in above


def make_saving_graph(model: Model, executor: Executor, saver: Any) -> Any:
    return make_graph(model, node(executor), saver)


@tool(effect=READ)
async def whoami(context: Context[str]) -> list[Text | File]:
    """Say who calls."""
    who = f"{context.principal} {context.deps} {context.idempotency_key}"
    return [Text(who), File(b"1", "text/plain", "one.txt")]


def user_of(config: Any) -> str:
    return str(config["configurable"]["user"])


@dataclass
class State:
    """A state that is an object, with its messages under another name."""

    talk: Annotated[list[AnyMessage], add_messages] = field(default_factory=list)


def test_the_tools_get_the_context_and_the_principal_of_the_graph() -> None:
    reply = to_reply([Call("whoami", {}, "c1")])
    graph: Any = StateGraph(State, context_schema=str)
    tools = node(Executor(Toolset(whoami)), principal=user_of, messages="talk")
    graph.add_node("tools", tools)
    graph.add_edge(START, "tools")
    reply.id = "m1"
    state = anyio.run(partial(graph.compile().ainvoke, {"talk": [reply]}, THREAD, context="deps"))

    assert state["talk"][-1].content == [
        {"type": "text", "text": "alice deps t1/m1/c1"},
        {"type": "file", "base64": "MQ==", "mime_type": "text/plain"},
    ]


def test_arguments_that_are_not_json_reach_the_executor(tmp_path: Path) -> None:
    bad: Any = {
        "name": "show",
        "args": '{"path": ',
        "id": "c1",
        "error": "",
        "type": "invalid_tool_call",
    }
    reply = AIMessage("", invalid_tool_calls=[bad], id="m1")
    [message] = anyio.run(node_alone, make_executor(tmp_path), reply)

    assert (message.status, "Not run" in message.content) == ("error", True)


SAVE = '{"path": "report.md", "text": "The first half, and the second."}'
WHOLE = {"path": "report.md", "text": "The first half, and the second."}
FINISHES = [
    {"finish_reason": "length"},
    {"finish_reason": "MAX_TOKENS"},
    {"finish_reason": "model_length"},
    {"stop_reason": "max_tokens"},
    {"stopReason": "max_tokens"},
    {"done_reason": "length"},
    {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
    {"finish_reason": "content_filter"},
]
CUT_OFF = (
    "Not run: the reply was too long, and the arguments were truncated. "
    "Call again with less text at a time."
)


class Saved:
    """A tool that writes, and what it has written. Each argument has a default."""

    def __init__(self) -> None:
        self.files: list[tuple[str, str]] = []

    def executor(self) -> Executor:
        @tool
        async def save(path: str = "unnamed", text: str = "") -> str:
            """Save a file."""
            self.files.append((path, text))
            return "saved"

        return Executor(Toolset(save))


def chunk(args: str | None, *, first: bool, index: int = 0, **more: Any) -> AIMessageChunk:
    name, call_id = ("save", f"c{index}") if first else (None, None)
    sent: Any = {"name": name, "args": args, "id": call_id, "index": index}
    return AIMessageChunk("", id="m1", tool_call_chunks=[sent], **more)


def pieces(text: str = SAVE) -> list[AIMessageChunk]:
    """A reply with one call, as a provider streams it: the name, then the arguments in pieces."""
    parts = [text[at : at + 5] for at in range(0, len(text), 5)]
    return [chunk("", first=True), *[chunk(part, first=False) for part in parts]]


def joined(sent: Sequence[AIMessageChunk]) -> AIMessageChunk:
    return sent[0] + list(sent[1:]) if len(sent) > 1 else sent[0]


def ending(**facts: Any) -> AIMessageChunk:
    return AIMessageChunk("", id="m1", response_metadata=facts, chunk_position="last")


Door = Callable[[Executor, AIMessage], list[ToolMessage]]


def check_cut_off(door: Door) -> None:
    """For each prefix of a stream, in each form: all of the arguments arrive, or the tool rests."""
    sent = pieces()
    assert joined(sent[:-1]).tool_calls != []  # the control: LangChain completes it
    for end in range(1, len(sent) + 1):
        for facts in [{}, *FINISHES]:
            reply = joined([*sent[:end], ending(**facts)] if facts else sent[:end])
            forms = [reply, message_chunk_to_message(reply)] if facts else [reply]
            for form in forms:
                saved = Saved()
                results = door(saved.executor(), form) if form.tool_calls else []
                is_known = end == len(sent) and form is reply
                assert saved.files == ([tuple(WHOLE.values())] if is_known else [])
                if facts and results and not is_known:
                    assert [one.text for one in results] == [CUT_OFF]


def check_whole(door: Door) -> None:
    """What is complete runs: in a stream that has ended, before a call that was cut off, edited."""
    saved = Saved()
    done = joined([*pieces(), ending(finish_reason="tool_calls")])
    none = joined([chunk("", first=True), ending(finish_reason="tool_calls")])
    twice = joined([chunk(SAVE, first=True), chunk('{"path": "b', first=True, index=1)])
    cut = message_chunk_to_message(twice + ending(finish_reason="length"))
    edited = joined([*pieces(), ending(finish_reason="tool_calls")])
    edited.tool_calls[0]["args"] = {"path": "edited"}
    for reply in (done, message_chunk_to_message(done), none, twice, cut, edited):
        door(saved.executor(), reply)

    whole = tuple(WHOLE.values())
    assert saved.files == [whole, whole, ("unnamed", ""), whole, whole, ("edited", "")]


def run_node(executor: Executor, reply: AIMessage) -> list[ToolMessage]:
    return anyio.run(node_alone, executor, reply)


def test_a_call_that_was_cut_off_does_not_run() -> None:
    check_cut_off(run_node)
    check_whole(run_node)


def test_arguments_that_were_cut_off_and_are_not_json_are_cut_off() -> None:
    bad: Any = {
        "name": "save",
        "args": '{"pa',
        "id": "c1",
        "error": "",
        "type": "invalid_tool_call",
    }
    facts = {"finish_reason": "length"}
    reply = AIMessage("", invalid_tool_calls=[bad], id="m1", response_metadata=facts)

    assert [one.text for one in run_node(Saved().executor(), reply)] == [CUT_OFF]


class Plain(TypedDict):
    """A state that keeps a message as it is. That of LangGraph turns a streamed one into a whole."""

    messages: list[Any]


async def node_alone(executor: Executor, reply: AIMessage) -> list[ToolMessage]:
    graph: Any = StateGraph(Plain)
    graph.add_node("tools", node(executor))
    graph.add_edge(START, "tools")
    state = await graph.compile().ainvoke({"messages": [reply]})
    return list(state["messages"])


def test_the_span_of_each_call_is_below_the_span_that_runs_the_graph() -> None:
    spans = Spans()

    def model(messages: Sequence[Any]) -> AIMessage:
        return to_reply(() if read_messages(messages) else CALLS)

    async def run() -> None:
        app = make_graph(model, node(spans.executor()), InMemorySaver())
        with spans.tracer.start_as_current_span("request"):
            await app.ainvoke({"messages": [("user", "go")]}, THREAD)

    anyio.run(run)

    assert [(name, host.name) for name, host in spans.parents()] == [
        ("execute_tool first", "request"),
        ("execute_tool second", "request"),
    ]


@pytest.mark.skipif(not real_model.URL, reason="needs the tiny model")
def test_a_real_model_calls_a_tool_through_the_adapter() -> None:
    adder = real_model.Adder()
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langchain_openai import ChatOpenAI

    executor = adder.executor()
    with real_model.serving() as (address, seen):
        listed = [
            {"name": one.name, "description": one.description, "parameters": dict(one.input_schema)}
            for one in executor.tools.specs
        ]
        client: Any = ChatOpenAI(model="local", base_url=address, api_key="none")
        model = client.bind(tools=[convert_to_openai_tool(one) for one in listed])
        app = make_graph(model.invoke, node(executor), InMemorySaver())
        asked = {"messages": [("user", real_model.PROMPT)]}
        state = anyio.run(app.ainvoke, asked, THREAD)

    assert (len(adder.sums), bool(state["messages"][-1].content)) == (1, True)
    assert real_model.read_result(seen) == str(adder.sums[0])
