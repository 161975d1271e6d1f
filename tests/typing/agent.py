"""What type checkers must see of agents. mypy and pyright read this file; it is never run."""

from __future__ import annotations

from typing import assert_never, assert_type

from handrail import Toolset
from handrail.agent import Agent, EventStream, InnerEvent, Run, RunResult, StreamEvent
from handrail.coding import coding_agent
from handrail.events import Asked, Finished, Progressed, Requested, Started, Yielded
from handrail.messages import ArgsDelta, Delta, Reply, Restart
from handrail.testing import ScriptedModel


async def run() -> None:
    model = ScriptedModel("Done.")
    agent = Agent(model, Toolset())
    assert_type(agent, Agent[str])
    assert_type(await agent.run("Begin."), RunResult[str])
    typed = Agent(model, Toolset(), output=int)
    assert_type((await typed.run("Begin.")).output, int | None)
    coder = coding_agent(".", model, rules="plan", output=int)
    assert_type(coder, Agent[int])
    assert_type(coding_agent(".", model), Agent[str])


def write(events: EventStream, event: StreamEvent, result: RunResult, run: Run) -> None:
    """Without an argument, the answer is text."""
    assert_type(events, EventStream[str])
    assert_type(event, StreamEvent[str])
    assert_type(result.output, str | None)
    assert_type(run, Run[str])


async def watch() -> None:
    async with Agent(ScriptedModel("Done."), output=int).stream("Begin.") as events:
        async for event in events:
            assert_type(event, StreamEvent[int])
            show(event)
    assert_type(events.result.output, int | None)


def show(event: StreamEvent[int]) -> str:
    """Every kind of event has a case."""
    match event:
        case Delta() | ArgsDelta() | Yielded():
            return event.text
        case Requested() | Asked():
            return event.call.name if isinstance(event, Requested) else event.pending.question
        case Started() | Progressed():
            return event.call_id
        case Finished():
            return event.result.text
        case Restart() | Reply() | InnerEvent():
            return ""
        case RunResult():
            return f"{event.output}"
        case _:
            assert_never(event)


def show_some(event: StreamEvent[int]) -> str:
    """A kind of event without a case is an error; if it is not, the comment below is one."""
    match event:
        case Delta() | ArgsDelta() | Yielded() | Requested() | Asked() | Started() | Progressed():
            return "not the last event"
        case Finished() | Restart() | Reply() | InnerEvent():
            return "not the last event"
        case _:
            assert_never(event)  # type: ignore[arg-type]
