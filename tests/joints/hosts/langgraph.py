"""A graph of LangGraph with our node, whose model streams. Answers go to another graph, through the checkpointer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import tools_condition
from langgraph.types import Command

from handrail import Deny, Executor
from handrail.adapters.langgraph import node
from handrail.permissions import Answer, Edit, MemoryLedger
from joints.case import Case, Seen, Shown, let_others_run
from joints.hosts.shared import make_executor, next_calls, to_text

Make = Callable[[Case, Executor, dict[str, Any], Any], Any]
THREAD: Any = {"configurable": {"thread_id": "t1"}}


class Streamed(BaseChatModel):
    """Streams each call of the next reply in pieces, in the form of LangChain's client of Anthropic."""

    case: Any

    @property
    def _llm_type(self) -> str:
        return "streamed"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError

    async def _astream(self, messages: Any, *_: Any, **__: Any) -> Any:
        replies = sum(isinstance(one, AIMessage) for one in messages)
        calls = next_calls(self.case, replies)
        for index, call in enumerate(calls):
            text, facts = to_text(call), {"name": call.name, "id": call.id}
            yield _chunk({"type": "tool_use", "input": {}, **facts}, index, args="", **facts)
            for part in (text[:5], text[5:]):
                yield _chunk({"type": "input_json_delta", "partial_json": part}, index, args=part)
            await let_others_run()
        if not calls:
            yield _chunk({"type": "text", "text": "done"}, 0)
        end = {"stop_reason": "tool_use" if calls else "end_turn"}
        last = AIMessageChunk("", response_metadata=end, chunk_position="last")
        yield ChatGenerationChunk(message=last)


def _chunk(block: dict[str, Any], index: int, **call: Any) -> ChatGenerationChunk:
    pieces: Any = [{"name": None, "id": None, "index": index, **call}] if call else []
    message = AIMessageChunk([{**block, "index": index}], tool_call_chunks=pieces)
    return ChatGenerationChunk(message=message)


def _make_graph(case: Case, executor: Executor, turn: dict[str, Any], saver: Any) -> Any:
    model = Streamed(case=case)

    async def reply(state: Any) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph: Any = StateGraph(MessagesState, context_schema=object)
    graph.add_node("model", reply)
    graph.add_node("tools", node(executor, **turn))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)


def _word(answer: Answer) -> Any:
    if isinstance(answer, Edit):
        return dict(answer.args)
    return not isinstance(answer, Deny)


class _Heard(AsyncCallbackHandler):
    """A callback handler of LangChain."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    async def on_tool_start(self, *_: Any, **__: Any) -> None:
        self._seen.host.append("call")

    async def on_tool_end(self, *_: Any, **__: Any) -> None:
        self._seen.host.append("result")


async def run_graph(case: Case, make: Make) -> Seen:
    seen, ledger, answers = Seen(), MemoryLedger(), iter(case.answers)
    turn, saver = dict(case.turn), InMemorySaver()
    context = turn.pop("deps", None)
    given: Any = {"messages": [("user", case.prompt)]}
    while True:
        async with make_executor(case, ledger, seen.hook()) as executor:
            app = make(case, executor, turn, saver)
            with case.inside():
                config = {**THREAD, "callbacks": [_Heard(seen)]}
                async for _ in app.astream(given, config, context=context, stream_mode="messages"):
                    pass
        state = await app.aget_state(THREAD)
        if not state.interrupts:
            take(seen, state.values["messages"])
            return seen
        words = {
            one.id: {it["call_id"]: _word(next(answers)) for it in one.value}
            for one in state.interrupts
        }
        given = Command(resume=words)


def take(seen: Seen, messages: Sequence[AnyMessage]) -> None:
    for one in messages:
        if isinstance(one, ToolMessage):
            blocks = one.content if isinstance(one.content, list) else []
            images = sum(isinstance(block, dict) and block["type"] == "image" for block in blocks)
            seen.results[one.tool_call_id] = Shown(one.text, one.status == "error", images)


async def door(case: Case) -> Seen:
    return await run_graph(case, _make_graph)
