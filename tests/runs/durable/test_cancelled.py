"""A cancelled run's messages: its recorded steps, and what may have happened after them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from handrail import READ, WRITE, Access, Call, Text, tool
from handrail.agent import Agent
from handrail.approvals import defer
from handrail.messages import ModelError, Prompt, Reply, Request, ToolResults
from handrail.permissions import Allow, Deny
from handrail.runs.durable import DurableRun, DurableRuns

LOST = (
    "Interrupted: the result of this call was lost. It may have taken effect: check before you "
    "call it again."
)
NOT_STARTED = "Not run: the run was interrupted before this call started."


class Shop:
    """A worker whose model asks for these calls; `hang` never ends."""

    def __init__(self, *turns: list[str] | Exception) -> None:
        self.turns = list(turns)
        self.hangs = anyio.Event()

    async def model(self, request: Request) -> AsyncIterator[Reply]:
        number = sum(isinstance(one, Reply) for one in request.messages)
        found = self.turns[number]
        if isinstance(found, Exception):
            self.turns[number] = ["hang"]
            raise found
        yield Reply((Text("So."), *[Call(name, {}, f"{name}{number}") for name in found]))

    def agent(self) -> Agent[Any]:
        @tool(effect=READ)
        async def look() -> str:
            """Look."""
            return "rain"

        async def hang() -> None:
            """Hang."""
            self.hangs.set()
            await anyio.sleep_forever()

        hanging = tool(hang, touches=lambda: Access(WRITE, "a:1"))
        asked = tool(hang, name="ask", needs_approval=True, touches=lambda: Access(WRITE, "a:2"))
        other = tool(hang, name="beg", needs_approval=True, touches=lambda: Access(WRITE, "a:3"))
        return Agent(self.model, [look, hanging, asked, other], approvals=defer)

    @asynccontextmanager
    async def working(self, database: str) -> AsyncIterator[DurableRuns]:
        runs = DurableRuns(database, {"shop": self.agent()}, poll=0.05)
        async with runs.work(interval=0.1, drain_seconds=5):
            yield runs


async def cancelled(runs: DurableRuns) -> DurableRun:
    assert await runs.cancel("r")
    return await runs.get("r")


def told(run: DurableRun) -> list[str]:
    assert run.state is not None
    found = list[str]()
    for message in run.state.messages:
        if isinstance(message, ToolResults):
            found += [result.text for result in message.results]
        elif isinstance(message, Prompt):
            found += [part.text for part in message.parts if isinstance(part, Text)]
    return found


async def test_a_cancelled_run_has_the_results_so_far(database: str) -> None:
    shop = Shop(["look"], ["look", "hang"])
    async with shop.working(database) as runs:
        await runs.start("shop", "Go.", run_id="r")
        await shop.hangs.wait()
        run = await cancelled(runs)

    assert (run.status, run.text, told(run)) == ("cancelled", "So.", ["Go.", "rain", LOST, LOST])


async def test_a_run_cancelled_before_it_began_has_its_prompt(database: str) -> None:
    async with DurableRuns(database, {"shop": Shop().agent()}) as runs:
        await runs.start("shop", "Go.", run_id="r")
        run = await cancelled(runs)

    assert told(run) == ["Go."]


@pytest.mark.parametrize("has_answers", [True, False])
async def test_an_approved_call_of_a_cancelled_run_may_have_taken_effect(
    database: str, *, has_answers: bool
) -> None:
    shop = Shop(["ask", "beg"])
    async with shop.working(database) as runs:
        await runs.start("shop", "Go.", run_id="r")
        await runs.wait("r")
        if has_answers:
            for pending in await runs.inbox():
                answer = Allow() if pending.call.name == "ask" else Deny("No.")
                await runs.answer(pending.id, answer, by="boss")
            with anyio.fail_after(40):
                await shop.hangs.wait()
        run = await cancelled(runs)

    # the state was written before the answers: the denied call was not started
    assert told(run) == ["Go.", LOST if has_answers else NOT_STARTED, NOT_STARTED]


async def test_a_resumed_run_that_is_cancelled_has_what_it_had_before_its_failure(
    database: str,
) -> None:
    shop = Shop(["look"], ModelError("gone"))
    async with shop.working(database) as runs:
        await runs.start("shop", "Go.", run_id="r")
        failed = await runs.wait("r")
        await runs.resume("r")
        with anyio.fail_after(40):
            await shop.hangs.wait()
        run = await cancelled(runs)

    assert (failed.status, told(run)) == ("failed", ["Go.", "rain", LOST])
