"""LlamaIndex as a host of the kit, bare and with handrail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import anyio
import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    DocumentBlock,
    ImageBlock,
    LLMMetadata,
    MessageRole,
)
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools import FunctionTool
from pydantic import PrivateAttr

from handrail import READ, WRITE, Call, Context, Executor, File, Text, Toolset, tool
from handrail.adapters.llama_index import tools
from conformance import Conversation, Read, Setup

Run = Callable[[Conversation], Awaitable[None]]
Script = Callable[[Sequence[Any]], Sequence[Call]]


class Scripted(FunctionCallingLLM):
    """Replies with the calls that a function returns."""

    _script: Any = PrivateAttr()
    _calls: Sequence[Call] = PrivateAttr(default=())

    def follow(self, script: Script) -> Scripted:
        self._script = script
        return self

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_function_calling_model=True, model_name="m")

    async def astream_chat_with_tools(
        self, tools: Any, user_msg: Any = None, chat_history: Any = None, **_: Any
    ) -> Any:
        self._calls = self._script(chat_history or [])
        text = "" if self._calls else "done"

        async def reply() -> AsyncIterator[ChatResponse]:
            yield ChatResponse(message=ChatMessage(role="assistant", content=text))

        return reply()

    def get_tool_calls_from_response(self, response: Any, *_: Any, **__: Any) -> Any:
        return [
            ToolSelection(tool_id=call.id, tool_name=call.name, tool_kwargs=dict(call.args))
            for call in self._calls
        ]

    def _prepare_chat_with_tools(self, *_: Any, **__: Any) -> Any:
        return {}

    def chat(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    stream_chat = complete = stream_complete = chat
    achat = astream_chat = acomplete = astream_complete = achat_with_tools = chat


def read_messages(messages: Sequence[Any]) -> list[Read]:
    """Return what the model reads since its last reply."""
    new: list[Read] = []
    for message in messages:
        if message.role == MessageRole.ASSISTANT:
            new = []
        elif message.role == MessageRole.TOOL:
            images = sum(isinstance(block, ImageBlock) for block in message.blocks)
            call_id = message.additional_kwargs["tool_call_id"]
            new.append(Read(call_id, message.content or "", images))
    return new


async def converse(conversation: Conversation, made: Any) -> None:
    model = Scripted().follow(lambda messages: conversation.reply(read_messages(messages)))
    await FunctionAgent(tools=made, llm=model).run("go")


def bare(setup: Setup) -> Run:
    setup.require("streams")
    functions = [fn for fn in setup.world.functions() if fn.__name__ != "draw"]
    made = [FunctionTool.from_defaults(async_fn=fn) for fn in functions]
    return lambda conversation: converse(conversation, made)


def railed(setup: Setup, **given: Any) -> Run:
    made = tools(setup.executor(asks_person=True), **given)
    return lambda conversation: converse(conversation, made)


HOST_DECIDES: dict[str, str] = {}
UNSURE = {"two turns at once": "lost update"}
"""On a slow machine, the second run begins when the first has ended."""
BARE = {
    "a tool raises": "leaks",
    "wrong type": "runs",
    "two writers": "lost update",
    "a long result": "whole",
    "approval given": "n/a",
    "approval refused": "n/a",
    "approval expired": "n/a",
    "approval edited": "n/a",
    "a read behind a question": "n/a",
    "a hang": "hangs",
    "an image": "n/a",
    "a stream": "not read",
    "the rest of a long result": "whole",
    "a stale tool": "n/a",
    "an unknown outcome": "not said",
}


@tool(effect=READ)
async def whoami(context: Context[Any]) -> list[Text | File]:
    """Say who calls."""
    return [Text(f"{context.principal} {type(context.deps).__name__}"), File(b"1", "text/csv", "a")]


def test_the_tools_get_the_context_and_the_principal() -> None:
    seen: list[Any] = []

    def script(messages: Sequence[Any]) -> Sequence[Call]:
        seen.append(messages[-1])
        return [Call("whoami", {}, "c1")] if len(seen) == 1 else []

    async def run() -> None:
        made = tools(Executor(Toolset(whoami)), principal=lambda _: "alice")
        await FunctionAgent(tools=made, llm=Scripted().follow(script)).run("go")

    anyio.run(run)

    text, document = seen[1].blocks
    assert text.text == "alice Context"
    assert isinstance(document, DocumentBlock)
    assert document.document_mimetype == "text/csv"


@tool(effect=WRITE)
async def show_turn(context: Context[Any]) -> str:
    """Show the turn."""
    return context.idempotency_key.rpartition("/")[0]


def test_the_calls_of_a_reply_are_one_turn_and_those_of_the_next_another() -> None:
    seen: list[str] = []

    def script(messages: Sequence[Any]) -> Sequence[Call]:
        seen.extend(read.text for read in read_messages(messages))
        return [Call("show_turn", {}, f"c{n}") for n in (1, 2)] if len(seen) < 4 else []

    async def run() -> None:
        made = tools(Executor(Toolset(show_turn)))
        await FunctionAgent(tools=made, llm=Scripted().follow(script)).run("go")

    anyio.run(run)

    assert [seen.index(one) for one in seen] == [0, 0, 2, 2]


def test_a_tool_runs_without_a_workflow_and_only_async() -> None:
    [made] = tools(Executor(Toolset(whoami)), principal=lambda _: "alice")
    output = anyio.run(made.acall)

    assert output.blocks[0].text == "None NoneType"
    assert made.metadata.get_parameters_dict()["type"] == "object"
    with pytest.raises(NotImplementedError, match="acall"):
        made.call()
