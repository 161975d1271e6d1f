"""What people write first: it works, or the error says what to write."""

from __future__ import annotations

from typing import Any

import pytest
from inline_snapshot import snapshot

from agent.stage import World, by_turn, calls, look, put, says
from handrail import (
    Allow,
    Ask,
    Call,
    CheckedCall,
    Context,
    Decision,
    Executor,
    Hook,
    Toolset,
    tool,
)
from handrail.agent import Agent, Limits, RunResult, RunState, Unfinished
from handrail.approvals import defer
from handrail.messages import ModelError, Prompt, Reply, Request
from handrail.permissions import Answer, Pending
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
        seen.append((context.principal, context.deps, context.metadata))
        return "ok"

    inner = Agent(by_turn(calls(Call("whose", "{}", "1")), says("done")), [whose])
    model = by_turn(
        calls(Call("whose", "{}", "1"), Call("help", '{"task": "go"}', "2")), says("ok")
    )
    agent = Agent(model, [whose, inner.as_tool("help", "Help.")])
    await agent.run("go", principal="ann", deps={"db": 1}, metadata={"tenant": "acme"})

    assert seen == [("ann", {"db": 1}, {"tenant": "acme"})] * 2


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
    "no key": lambda: Agent("anthropic:NAME"),
    "no provider": lambda: Agent("gpt-5"),
    "an SDK client": lambda: Agent(object()),  # type: ignore[arg-type]
    "tools before the model": lambda: Agent([roof], by_turn()),  # type: ignore[arg-type]
    "a number of tools": lambda: Agent(by_turn(), 5),  # type: ignore[arg-type]
    "the name of a tool": lambda: Agent(by_turn(), "roof"),  # type: ignore[arg-type]
    "tools by name": lambda: Agent(by_turn(), {"roof": 1}),  # type: ignore[dict-item]
    "a number as limits": lambda: Agent(by_turn(), limits=5),  # type: ignore[arg-type]
    "a policy that is no function": lambda: Agent(by_turn(), policy=5),  # type: ignore[arg-type]
    "an approver that is no function": lambda: Agent(by_turn(), approvals=True),  # type: ignore[arg-type]
    "an approver without an argument": lambda: Agent(by_turn(), approvals=lambda: None),  # type: ignore[arg-type,misc]
    "a policy beside an executor": lambda: Agent(by_turn(), Executor(Toolset()), policy=allow),
    "no prompt": lambda: Agent(by_turn()).run(),
    "no prompt, streamed": lambda: Agent(by_turn()).stream(),
    "an empty prompt": lambda: Agent(by_turn()).run(" "),
    "messages of an API as the prompt": lambda: Agent(by_turn()).run([{"role": "user"}]),  # type: ignore[arg-type]
    "messages of an API as the history": lambda: Agent(by_turn()).run("go", history=[{}]),  # type: ignore[list-item]
    "a result as the history": lambda: Agent(by_turn()).run("go", history=result()),  # type: ignore[arg-type]
    "a result to resume": lambda: Agent(by_turn()).resume(result()),  # type: ignore[arg-type]
    "an unknown option": lambda: Agent(by_turn()).run("go", message_history=[]),  # type: ignore[call-arg]
    "a number as the limits of a run": lambda: Agent(by_turn()).run("go", limits=5),  # type: ignore[arg-type]
    "one answer": lambda: Agent(by_turn()).run("go", answers=Allow()),  # type: ignore[arg-type]
    "an async listener": lambda: Agent(by_turn()).run("go", on_event=watch),  # type: ignore[arg-type]
    "the output of a run that was not awaited": lambda: Agent(by_turn()).run("go").output,  # type: ignore[attr-defined]
    "an attribute that no run has": lambda: Agent(by_turn()).run("go").answer,  # type: ignore[attr-defined]
}


def allow(_call: CheckedCall) -> Decision:
    return Allow()


def result() -> RunResult[str]:
    return Agent(by_turn(says("Fine."))).run_sync("go")


def test_a_mistake_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    texts: dict[str, str] = {}
    for mistake, write in MISTAKES.items():
        with pytest.raises((TypeError, ValueError, AttributeError, ModelError)) as error:
            write()
        texts[mistake] = str(error.value)

    assert texts == snapshot(
        {
            "no key": "No API key for Anthropic. Set ANTHROPIC_API_KEY.",
            "no provider": "Unknown model 'gpt-5'. Did you mean 'openai:gpt-5'?",
            "an SDK client": "Agent(object): pass a model, as in `Agent('openai:NAME')`, or a function from a Request to a Reply.",
            "tools before the model": "Agent(list): pass a model, as in `Agent('openai:NAME')`, or a function from a Request to a Reply.",
            "a number of tools": "Agent(tools=5): pass a list of functions or a Toolset.",
            "the name of a tool": "Agent(tools='roof'): pass a list of functions or a Toolset.",
            "tools by name": "Agent(tools={'roof': 1}): pass a list of functions or a Toolset.",
            "a number as limits": "limits=5: pass Limits, as in `Limits(turns=10)`.",
            "a policy that is no function": "Executor(policy=5): must be a function that decides about a CheckedCall, or a Rulebook.",
            "an approver that is no function": "Agent(approvals=True): must be an async function that answers a Pending, such as terminal().",
            "an approver without an argument": "Agent(approvals=<lambda>): must take one argument, a Pending.",
            "a policy beside an executor": "Agent(policy=...): pass it to your Executor instead.",
            "no prompt": "A run needs a prompt, as in `agent.run('How is the roof?')`.",
            "no prompt, streamed": "A run needs a prompt, as in `agent.run('How is the roof?')`.",
            "an empty prompt": "A run needs a prompt, as in `agent.run('How is the roof?')`.",
            "messages of an API as the prompt": "A prompt is text, images and files, not a list. Pass earlier messages as `history=`.",
            "messages of an API as the history": "history[0] is a dict: pass a RunState or messages, such as `Prompt.of('How is the roof?')`.",
            "a result as the history": "Pass the state of the result: `result.state`.",
            "a result to resume": "Pass the state of the result: `result.state`.",
            "an unknown option": "A run has no option 'message_history'. Its options are answers, deps, history, limits, metadata, model, on_event, principal, save, system.",
            "a number as the limits of a run": "limits=5: pass Limits, as in `Limits(turns=10)`.",
            "one answer": "answers must be a dict by the ids of the pending calls, as in `{pending.id: Allow()}`.",
            "an async listener": "on_event must be a plain function: it is called and not awaited.",
            "the output of a run that was not awaited": "'Run' object has no attribute 'output': await the run first",
            "an attribute that no run has": "'Run' object has no attribute 'answer'",
        }
    )


async def test_run_sync_in_async_code_says_what_to_write() -> None:
    agent = Agent(by_turn())

    with pytest.raises(RuntimeError) as error:
        agent.run_sync("go")

    assert str(error.value) == snapshot(
        "run_sync was called in an event loop, such as a notebook's. Write "
        "`result = await agent.run(...)` instead."
    )


async def test_events_that_are_read_before_the_run_starts_say_what_to_write() -> None:
    with pytest.raises(RuntimeError) as error:
        await anext(Agent(by_turn()).stream("go"))

    assert str(error.value) == snapshot(
        "Start the run first: `async with agent.stream(...) as events`."
    )


async def test_a_system_prompt_can_be_set_for_one_run() -> None:
    with ScriptedModel("one", "two") as model:
        agent = Agent(model, system="Be brief.")
        await agent.run("go")
        await agent.run("go", system="Be kind.")

    assert [request.system for request in model.requests] == ["Be brief.", "Be kind."]


async def test_policy_approvals_and_hooks_need_no_executor() -> None:
    world, seen = World(), list[str]()

    def note(call: CheckedCall) -> CheckedCall:
        seen.append(call.name)
        return call

    async def approve(pending: Pending) -> Answer:
        seen.append(pending.question)
        return Allow()

    def careful(call: CheckedCall) -> Decision:
        return Ask(f"Allow {call.name}?") if call.name == "put" else Allow()

    model = by_turn(calls(look("a", "1"), put("b", "2")), says("done"))
    agent = Agent(model, world.tools, policy=careful, approvals=approve, hooks=[Hook(before=note)])
    await agent.run("go")

    assert (sorted(world.did), sorted(seen)) == (
        ["look a", "put b"],
        ["Allow put?", "look", "put"],
    )


async def test_an_approval_is_used_once_for_all_runs_of_an_agent() -> None:
    world = World()
    model = by_turn(calls(put("a", "1")), says("done"))
    agent = Agent(model, world.tools, policy=lambda _call: Ask("Allow?"), approvals=defer)

    state = (await agent.run("go")).state
    answers = {pending.id: Allow() for pending in state.pending}
    for _ in range(2):
        await agent.resume(state, answers=answers)

    assert world.did == ["put a"]


async def test_an_executor_of_ones_own_stays_open() -> None:
    world = World()
    async with Executor(world.tools) as executor:
        agent = Agent(by_turn(calls(put("a", "1")), says("done")), executor)
        await agent.run("go")
        await agent.run("go")

    assert world.did == ["put a", "put a"]


async def test_a_prompt_can_be_none_if_there_is_a_history() -> None:
    agent = Agent(by_turn(says("one"), says("two")))
    first = await agent.run("go", None)
    states = [RunState((Prompt.of("go"),)), [Prompt.of("go")]]

    results = [await Agent(by_turn(says("hi"))).run(None, history=state) for state in states]
    async with Agent(by_turn(says("hi"))).stream(None, history=states[0]) as events:
        seen = [event async for event in events]
    resumed = await Agent(by_turn(says("hi"))).resume(RunState((Prompt.of("go"),)), None)

    assert (first.output, [one.output for one in results]) == ("one", ["hi", "hi"])
    assert (seen[-1].output, resumed.output) == ("hi", "hi")
    with pytest.raises(ValueError, match="A run needs a prompt"):
        agent.run(None)


async def test_unwrap_returns_the_output_or_says_why_there_is_none() -> None:
    done = await Agent(by_turn(says("hi"))).run("go")
    limited = await Agent(by_turn(says("hi")), limits=Limits(turns=0)).run("go")

    assert done.unwrap() == "hi"
    with pytest.raises(Unfinished) as refused:
        limited.unwrap()
    assert str(refused.value) == "The run has no answer: reached the limit of 0 turns."
    assert refused.value.result is limited
