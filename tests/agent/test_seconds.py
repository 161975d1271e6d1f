"""How long a model took: from the request to the end of its reply, without its calls."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import anyio
import pytest

from agent.stage import Recorded
from handrail import READ, Call, Text, tool
from handrail.agent import Agent, Run, RunState, dump_state, load_state
from handrail.messages import Delta, Reply, Request, StreamItem
from replying import WAYS, Way, replying

MODEL, CALL = 0.05, 0.2
"""Seconds of a reply, and of a call."""


@tool(effect=READ)
async def look() -> str:
    """Look, which takes some time."""
    await anyio.sleep(CALL)
    return "seen"


STEPS = (Call("look", {}, "c1"), "Done.")


def seconds_of(state: RunState) -> list[float]:
    replies = [message for message in state.messages if isinstance(message, Reply)]
    return [-1.0 if reply.seconds is None else reply.seconds for reply in replies]


@pytest.mark.parametrize("way", WAYS)
async def test_the_time_of_calls_is_not_the_time_of_the_model(way: Way) -> None:
    began = time.perf_counter()
    done = await Agent(replying(way, *STEPS, seconds=MODEL), [look]).run("Go")
    took = time.perf_counter() - began

    seconds = seconds_of(done.state)
    assert len(seconds) == 2
    assert min(seconds) >= MODEL
    assert took - sum(seconds) >= CALL


@pytest.mark.parametrize("way", WAYS)
async def test_a_model_can_say_how_long_it_took(way: Way) -> None:
    first = Reply((Call("look", {}, "c1"),), "calls", seconds=90.5)

    done = await Agent(replying(way, first, "Done."), [look]).run("Go")

    assert seconds_of(done.state)[0] == 90.5


@pytest.mark.parametrize("way", WAYS)
async def test_a_recorded_reply_keeps_its_time_after_a_restart(way: Way) -> None:
    agent, recorder = Agent(replying(way, *STEPS, seconds=MODEL), [look]), Recorded()
    start = RunState(run_id="r").add_prompt("Go")

    first = await agent.run_recorded(start, recorder)
    recorder.restart()
    again = await agent.run_recorded(start, recorder)

    assert min(seconds_of(first.state)) >= MODEL
    assert seconds_of(again.state) == seconds_of(first.state)
    assert seconds_of(load_state(dump_state(first.state))) == seconds_of(first.state)


async def test_a_recorder_keeps_the_time_that_a_model_says() -> None:
    agent = Agent(replying("whole", Reply((Text("Done."),), seconds=90.5)), [])

    done = await agent.run_recorded(RunState(run_id="r").add_prompt("Go"), Recorded())

    assert seconds_of(done.state) == [90.5]


async def test_a_reply_that_was_interrupted_has_its_time() -> None:
    runs: list[Run[str]] = []

    async def model(_request: Request) -> AsyncIterator[StreamItem]:
        await anyio.sleep(MODEL)
        yield Delta("Half of")
        runs[0].interrupt()
        await anyio.sleep_forever()

    runs.append(Agent(model, []).resume(RunState().add_prompt("Go")))
    done = await runs[0]

    assert (done.stop_reason, done.state.messages[-1]) == (
        "interrupted",
        Reply((Text("Half of"),), "other"),
    )
    assert seconds_of(done.state)[0] >= MODEL


def test_the_time_of_a_reply_is_no_part_of_it() -> None:
    fast, slow = Reply((Text("Hi."),)), Reply((Text("Hi."),), seconds=9.0)

    assert (fast, hash(fast), repr(fast)) == (slow, hash(slow), repr(slow))
