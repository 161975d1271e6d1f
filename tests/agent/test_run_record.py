"""What a host needs to record a run: its states before calls, all events, and what a crash leaves."""

from __future__ import annotations

import anyio

from agent.stage import by_turn, calls, says, streamed
from handrail import READ, Allow, Ask, Call, CheckedCall, Decision, Executor, Toolset, tool
from handrail.agent import Agent, RunState
from handrail.approvals import defer
from handrail.messages import Prompt, ToolResults


@tool(name="look", effect=READ)
def see(place: str) -> str:
    """Look."""
    return place


@tool
def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


def pays(euros: int, id_: str) -> Call:
    return Call("pay", {"euros": euros}, id_)


async def test_one_run_is_saved_before_its_calls_and_by_its_agent() -> None:
    steps: list[str] = []

    @tool
    def act() -> str:
        """Act."""
        steps.append("act")
        return "done"

    async def save(state: RunState) -> None:
        steps.append(f"run {type(state.messages[-1]).__name__}")

    async def save_all(state: RunState) -> None:
        steps.append(f"agent {type(state.messages[-1]).__name__}")

    model = streamed(by_turn(calls("", Call("act", "{}", "1")), says("!")))
    await Agent(model, [act], save=save_all).run("go", save=save)
    first, steps[:] = [*steps], []
    await Agent(streamed(by_turn(says("!"))), [act]).run("go", save=save)

    both = ["run Reply", "agent Reply", "act", "run ToolResults", "agent ToolResults"]
    assert first == [*both, "run Reply", "agent Reply"]
    assert steps == ["run Reply"]


async def test_the_call_events_of_a_run_are_all_and_only_its_own() -> None:
    model = streamed(by_turn(calls("", Call("look", {"place": "a"}, "1")), says("!")))
    found: list[str] = []
    async with Executor(Toolset(see)) as executor:
        agent = Agent(model, executor)
        async with agent.stream("go") as events, anyio.create_task_group() as group:
            other = agent.run("go too")

            async def read() -> None:
                found.extend([type(one).__name__ async for one in events.call_events()])

            group.start_soon(read)
            await other
            shown = [type(one).__name__ async for one in events]

    assert found == ["Requested", "Decided", "Started", "Finished"]
    assert [name for name in shown if name in found] == ["Requested", "Started", "Finished"]


def ask(call: CheckedCall) -> Decision:
    return Ask("Pay?") if call.args.get("euros", 0) > 100 else Allow()


async def abandoned(*asked: Call, allowed: tuple[int, ...] = ()) -> list[str]:
    """What is left of calls when their process dies; ``allowed`` are places of questions."""
    agent = Agent(streamed(by_turn(calls("", *asked))), [pay], policy=ask, approvals=defer)
    state = (await agent.run("go")).state
    left = state.abandon([state.questions[place].id for place in allowed])
    results = left.messages[-1]
    assert isinstance(results, ToolResults)
    assert (left.waiting, left.open, left.abandon()) == ((), (), left)
    return [str(one.failure.kind) if one.failure else one.text for one in results.results]


async def test_calls_that_may_have_begun_are_unknown_when_a_process_dies() -> None:
    assert await abandoned(pays(5, "1"), pays(500, "2")) == ["paid 5", "cancelled"]
    assert await abandoned(pays(5, "1"), pays(500, "2"), allowed=(0,)) == ["paid 5", "unknown"]
    # the third waits behind the second
    both = (pays(500, "1"), pays(6, "2"))
    assert await abandoned(*both) == ["cancelled", "cancelled"]
    assert await abandoned(*both, allowed=(0,)) == ["unknown", "unknown"]


def test_calls_without_results_are_unknown_when_a_process_dies() -> None:
    state = RunState(messages=(Prompt.of("go"), calls("", pays(5, "1"))))

    assert state.abandon().messages == state.transcript()
    assert RunState().abandon() == RunState()
