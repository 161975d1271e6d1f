"""A real model server, by the official clients, over all three formats that it speaks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import pytest

from handrail import READ, Call, Executor, Exposure, Result, Tool, Toolset, tool
from handrail.agent import Agent
from handrail.messages import (
    Delta,
    Model,
    ModelError,
    Prompt,
    Reply,
    Request,
    StreamItem,
    ToolResults,
)
from handrail.models import anthropic, openai_chat, openai_responses
from models.test_server_pages import run_section
from tiny_server import Tiny

pytestmark = pytest.mark.timeout(600)  # a model takes its time on a busy machine
NAMES = ["anthropic", "openai_chat", "openai_responses"]


@pytest.fixture
def server(tiny: Tiny) -> str:
    return tiny.url


@pytest.fixture
def anyio_backend() -> str:
    """The loops differ in what is left open, and not in what is said."""
    return "asyncio"


@tool(effect=READ)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


ONE_CALL: dict[str, dict[str, Any]] = {
    "anthropic": {"tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
    "openai_chat": {"tool_choice": "required", "parallel_tool_calls": False},
    "openai_responses": {"tool_choice": "required", "parallel_tool_calls": False},
}


BRIEF: dict[str, dict[str, Any]] = {
    "anthropic": {"max_tokens": 12},
    "openai_chat": {"max_completion_tokens": 12},
    "openai_responses": {"max_output_tokens": 12},
}
"""Wins over what a request says."""


def model_at(server: str, name: str, *, stream: bool = True, **options: Any) -> Model:
    options = {"temperature": 0, **options}  # the same reply each time
    if name == "anthropic":
        return anthropic("local", base_url=server, stream=stream, options=options)
    make = openai_chat if name == "openai_chat" else openai_responses
    return make("local", base_url=f"{server}/v1", stream=stream, options=options)


def caller_at(server: str, name: str) -> Model:
    """A model that calls a tool when it is asked something, and talks when it has the result."""
    forced = {"chat_template_kwargs": {"call_first": True}, **ONE_CALL[name]}
    calling, talking = model_at(server, name, **forced), model_at(server, name, **BRIEF[name])

    async def ask(request: Request) -> AsyncIterator[StreamItem]:
        """The limit ends what the model says, as it never ends by itself."""
        asked = isinstance(request.messages[-1], Prompt)
        async for item in cast("Any", (calling if asked else talking)(request)):
            ends = isinstance(item, Reply) and not asked
            yield replace(item, stop="end") if ends else item

    return ask


async def heard(model: Model, request: Request) -> list[StreamItem]:
    return [piece async for piece in cast("AsyncIterator[StreamItem]", model(request))]


@pytest.mark.parametrize("name", NAMES)
async def test_it_streams_words(server: str, name: str) -> None:
    pieces = await heard(model_at(server, name), Request((Prompt.of("Say hello."),), max_tokens=8))

    *deltas, reply = pieces
    assert isinstance(reply, Reply)
    assert len(deltas) > 1
    assert "".join(one.text for one in deltas if isinstance(one, Delta)) == reply.text
    assert reply.text
    assert (reply.usage.output_tokens, reply.usage.input_tokens > 8) == (8, True)


@pytest.mark.parametrize("name", NAMES)
async def test_it_replies_as_a_whole(server: str, name: str) -> None:
    model = model_at(server, name, stream=False)
    reply = await cast("Any", model(Request((Prompt.of("Say hello."),), max_tokens=4)))

    assert (reply.text != "", reply.usage.output_tokens) == (True, 4)


@pytest.mark.parametrize("name", NAMES)
async def test_it_calls_a_tool_reads_the_result_and_answers(server: str, name: str) -> None:
    seen: list[str] = []
    async with Executor(Toolset(add)) as executor:
        agent = Agent(caller_at(server, name), executor, max_tokens=64)
        done = await agent.run(
            "What is 2 plus 3?", on_event=lambda one: seen.append(type(one).__name__)
        )

    prompt, reply, results, answer = done.state.messages
    assert isinstance(reply, Reply)
    assert isinstance(results, ToolResults)
    ids = [call.id for call in reply.calls]
    asked = [(call.name, add.parse(call.args).values) for call in reply.calls]  # type: ignore[union-attr]
    assert (done.stop_reason, done.state.turns, prompt) == (
        "answer",
        2,
        Prompt.of("What is 2 plus 3?"),
    )
    # over Messages, the server knows no way to ask for one call alone
    assert asked == [("add", {"a": 2, "b": 3})] * (2 if name == "anthropic" else 1)
    assert [(one.call_id, one.text) for one in results.results] == [(one, "5") for one in ids]
    assert done.text == cast("Reply", answer).text != ""
    assert cast("Reply", answer).usage.output_tokens <= 12
    whole = [one for one in seen if one not in ("Delta", "ArgsDelta")]
    assert whole == ["Reply", "ToolResults", "Reply"]
    assert "ArgsDelta" in seen
    assert seen[-2] == "Delta"


@pytest.mark.parametrize("name", NAMES)
async def test_a_call_that_the_limit_cuts_off_is_not_run(server: str, name: str) -> None:
    """The control is the test above: with tokens enough, the same request is a call."""
    request = Request((Prompt.of("What is 2 plus 3?"),), Toolset(add), max_tokens=16)
    pieces = await heard(caller_at(server, name), request)

    assert [type(one).__name__ for one in cast("Reply", pieces[-1]).parts] == ["TruncatedCall"]


@pytest.mark.soak
async def test_a_run_goes_on_over_another_format(server: str) -> None:
    """The history of each is sent on over the next."""
    state = None
    for name in NAMES:
        agent = Agent(caller_at(server, name), Toolset(add), max_tokens=64)
        question = "What is 2 plus 3?"
        run = agent.run(question) if state is None else agent.resume(state, question)
        state = (await run).state

    assert state is not None
    assert (state.turns, state.calls > 2, state.open) == (6, True, ())


@tool(name="search_tools", effect=READ, exposure=Exposure.SEARCH)
def search_tools(queries: list[str]) -> str:
    """Find tools."""
    return " ".join(queries)


@tool(effect=READ)
def call_tool(name: str, arguments: dict[str, int]) -> str:
    """Call a tool that a search has found."""
    return f"{name} {arguments}"


@pytest.mark.soak
async def test_it_takes_tools_that_were_found(server: str) -> None:
    """At the end of the tools, or through a direct tool, which then needs no more of them."""
    deferred = tool(effect=READ, exposure=Exposure.DEFERRED)(add.fn)
    model = model_at(server, "openai_chat")

    async def tokens(found: tuple[str, ...], *direct: Tool[..., Any]) -> int:
        history = (
            Prompt.of("What is 2 plus 3?"),
            Reply((Call("search_tools", '{"queries":["add"]}', "s1"),), "calls"),
            ToolResults((Result("s1", "add(a: int, b: int) - Add two numbers.", found=found),)),
        )
        tools = Toolset(search_tools, deferred, *direct)
        *_, reply = await heard(model, Request(history, tools, max_tokens=1))
        return cast("Reply", reply).usage.input_tokens

    searched = await tokens(())
    assert await tokens(("add",)) > searched
    assert await tokens((), call_tool) > searched


async def test_what_the_server_refuses_is_said_in_its_words(server: str) -> None:
    model = openai_chat("local", base_url=f"{server}/v1", options={"grammar": "root ::= no"})
    with pytest.raises(ModelError, match="status 400") as failure:
        await heard(model, Request((Prompt.of("x"),), max_tokens=1))

    assert failure.value.kind == "other"


async def test_the_code_of_the_section_about_llama_cpp_runs(server: str) -> None:
    names = run_section("llama.cpp", "http://127.0.0.1:8080", server)
    pieces = await heard(names["model"], Request((Prompt.of("Say hello."),), max_tokens=4))

    assert cast("Reply", pieces[-1]).usage.output_tokens == 4


async def test_a_conversation_that_is_too_long_is_told_apart(server: str) -> None:
    request = Request((Prompt.of("word " * 9_000),), max_tokens=1)
    for name in NAMES:
        with pytest.raises(ModelError) as failure:
            await heard(model_at(server, name), request)
        assert failure.value.kind == "too_long"
