"""What people write first: it works, or the error says what to write."""

from __future__ import annotations

from typing import Any

import pytest
from inline_snapshot import snapshot

from agent.stage import World, by_turn, calls, look, put, says
from handrail import Call, Context, Executor, Toolset, tool
from handrail.agent import Agent, Limits, RunState
from handrail.messages import Prompt, Reply, Request
from handrail.testing import ScriptedModel


def roof() -> str:
    """Look at the roof."""
    return "fine"


ROOF = Call("roof", "{}", "1")


@pytest.mark.parametrize(
    "tools", [[roof], (tool(roof),), roof, Toolset(roof)], ids=["list", "tuple", "one", "toolset"]
)
async def test_tools_are_functions_or_a_toolset(tools: Any) -> None:
    done = await Agent(by_turn(calls(ROOF), says("The roof is fine.")), tools).run("How is it?")

    assert done.output == done.text == "The roof is fine."


async def test_an_agent_needs_no_tools() -> None:
    assert (await Agent(by_turn(says("Hello."))).run("Hi.")).output == "Hello."


def test_a_run_from_synchronous_code() -> None:
    done = Agent(by_turn(calls(ROOF), says("Fine.")), [roof]).run_sync("How is the roof?")

    assert (done.stop_reason, done.output) == ("answer", "Fine.")


async def test_a_conversation_continues_from_a_state_or_from_messages() -> None:
    agent = Agent(by_turn(says("one"), says("two")))

    first = await agent.run("1?")
    by_state = await agent.run("2?", history=first.state)
    by_messages = await agent.run("2?", history=first.state.messages)

    expected = (Prompt.of("1?"), says("one"), Prompt.of("2?"), says("two"))
    assert by_state.state.messages == by_messages.state.messages == expected


async def test_limits_and_model_can_be_set_for_one_run() -> None:
    world = World()
    agent = Agent(by_turn(calls(look("a", "1")), says("never")), world.tools)

    limited = await agent.run("go", limits=Limits(turns=1, last_word=False))
    other = await agent.run("go", model=by_turn(says("other")))

    assert (limited.stop_reason, other.output) == ("limit", "other")


async def test_tools_know_whom_a_run_is_for_and_what_they_can_use() -> None:
    seen: list[object] = []

    @tool
    async def whose(context: Context[dict[str, int]]) -> str:
        """Say whose it is."""
        seen.append((context.principal, context.deps))
        return "ok"

    agent = Agent(by_turn(calls(Call("whose", "{}", "1")), says("done")), [whose])
    await agent.run("go", principal="ann", deps={"db": 1})

    assert seen == [("ann", {"db": 1})]


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_the_system_prompt_can_be_a_function_and_stays_the_same_for_a_run(kind: str) -> None:
    seen: list[Request] = []
    written: list[RunState] = []

    def system(state: RunState) -> str:
        written.append(state)
        return f"Prompt {len(written)}."

    async def later(state: RunState) -> str:
        return system(state)

    async def model(request: Request) -> Reply:
        seen.append(request)
        return await by_turn(calls(ROOF), says("done"))(request)

    agent = Agent(model, [roof], system=system if kind == "plain" else later)
    await agent.run("go")
    await agent.run("go")

    assert [request.system for request in seen] == ["Prompt 1."] * 2 + ["Prompt 2."] * 2
    assert written[0].messages == (Prompt.of("go"),)


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_each_request_can_be_prepared(kind: str) -> None:
    def prepare(request: Request) -> Request:
        return request._replace(messages=request.messages[-1:])

    async def later(request: Request) -> Request:
        return prepare(request)

    with ScriptedModel([ROOF], "done") as model:
        agent = Agent(model, [roof], prepare=prepare if kind == "plain" else later)
        done = await agent.run("go")

    assert [len(request.messages) for request in model.requests] == [1, 1]
    assert len(done.state.messages) == 4, "the transcript stays whole"


async def watch(_event: object) -> None: ...


MISTAKES: dict[str, Any] = {
    "no prompt": lambda: Agent(by_turn()).run(),
    "no prompt, streamed": lambda: Agent(by_turn()).stream(),
    "an async listener": lambda: Agent(by_turn()).run("go", on_event=watch),  # type: ignore[arg-type]
    "an SDK client": lambda: Agent(object()),  # type: ignore[arg-type]
    "a number of tools": lambda: Agent(by_turn(), 5),  # type: ignore[arg-type]
}


def test_a_mistake_is_an_error_at_once() -> None:
    texts: dict[str, str] = {}
    for mistake, write in MISTAKES.items():
        with pytest.raises((TypeError, ValueError)) as error:
            write()
        texts[mistake] = str(error.value)

    assert texts == snapshot(
        {
            "no prompt": "A run needs a prompt, as in `agent.run('How is the roof?')`.",
            "no prompt, streamed": "A run needs a prompt, as in `agent.run('How is the roof?')`.",
            "an async listener": "on_event must be a plain function: it is called and not awaited.",
            "an SDK client": "Agent(object): pass a model, as in `Agent('openai:NAME')`, or a function from a Request to a Reply.",
            "a number of tools": "Agent(tools=5): pass a list of functions or a Toolset.",
        }
    )


async def test_an_executor_of_ones_own_stays_open() -> None:
    world = World()
    async with Executor(world.tools) as executor:
        agent = Agent(by_turn(calls(put("a", "1")), says("done")), executor)
        await agent.run("go")
        await agent.run("go")

    assert world.did == ["put a", "put a"]
