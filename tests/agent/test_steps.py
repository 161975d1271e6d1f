"""A run's state, read from its recorded steps: what a cancelled run's worker leaves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from agent.stage import Recorded
from handrail import READ, Access, Call, Text, tool
from handrail.agent import Agent, RunState, add_steps
from handrail.approvals import defer
from handrail.messages import ModelError, Reply, Request, ToolResults
from handrail.permissions import Allow, Deny

pytestmark = pytest.mark.anyio


@tool(effect=READ)
def look() -> str:
    """Look."""
    return "rain"


@tool(needs_approval=True)
def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


def make_agent(*turns: list[Call] | str | Exception, **options: Any) -> Agent[Any]:
    """An agent that can pay, look, and render in the background until it looks."""
    may_end = anyio.Event()

    @tool(background=True, touches=lambda: Access(READ, "scene:1"))
    async def render() -> str:
        """Render."""
        await may_end.wait()
        return "scene"

    async def model(request: Request) -> AsyncIterator[Reply]:
        found = turns[sum(isinstance(one, Reply) for one in request.messages)]
        if isinstance(found, Exception):
            raise found
        if isinstance(found, str):
            may_end.set()
        yield Reply((Text(found),) if isinstance(found, str) else tuple(found))

    return Agent(model, [look, pay, render], approvals=defer, **options)


LOOK, RENDER = Call("look", {}, "l"), Call("render", {}, "r")
START = RunState(run_id="r").add_prompt("go")
RUNS: list[list[Any]] = [
    [[LOOK], "rain"],
    [[LOOK, Call("pay", {"euros": 5}, "p")]],
    [[RENDER], "I wait.", "Done.", "Done."],
    [[LOOK, RENDER], [Call("look", {}, "l2")], "I wait.", "Done.", "Done."],
]


@pytest.mark.parametrize("turns", RUNS)
async def test_the_recorded_steps_say_what_the_state_does(turns: list[Any]) -> None:
    recorder = Recorded()
    done = await make_agent(*turns).run_recorded(START, recorder)
    read = add_steps(START, recorder.texts)

    wanted = done.state._replace(usage=read.usage, before=read.before)
    assert read == wanted
    assert add_steps(START, recorder.texts[:-1]) != wanted
    assert add_steps(START, ['{"cut": true}', *recorder.texts]) == wanted  # a segment's end


@pytest.mark.parametrize(("answer", "text"), [(Allow(), "paid 5"), (Deny("No."), "No.")])
async def test_the_steps_after_an_answer_add_its_result(answer: Any, text: str) -> None:
    agent = make_agent([LOOK, Call("pay", {"euros": 5}, "p")], "Done.")
    parked = (await agent.run_recorded(START, Recorded())).state
    recorder = Recorded()
    answers = {one.id: answer for one in parked.questions}
    done = await agent.run_recorded(parked, recorder, answers=answers)
    read = add_steps(parked, recorder.texts)

    assert read.messages == done.state.messages
    assert isinstance(read.messages[2], ToolResults)
    assert [one.text for one in read.messages[2].results] == ["rain", text]


async def test_calls_that_the_run_answers_itself_have_results_too() -> None:
    final = Call("final_answer", {"answer": "no number"}, "f")
    recorder = Recorded()
    agent = make_agent([final], [LOOK], ModelError("gone"), output=int)
    with pytest.raises(ModelError, match="gone"):
        await agent.run_recorded(START, recorder)
    read = add_steps(START, recorder.texts)

    found = [one.results for one in read.messages if isinstance(one, ToolResults)]
    assert [[one.call_id for one in results] for results in found] == [["f"], ["l"]]
    assert (read.turns, read.calls, read.open) == (2, 2, ())
