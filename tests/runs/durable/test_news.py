"""A worker sees an answer at once, and asks little while it is idle."""

from __future__ import annotations

from typing import Any

import anyio
import psycopg
import pytest

from handrail import Allow, Ask, Call, Text, tool
from handrail.agent import Agent
from handrail.messages import Reply, Request, ToolResults
from handrail.runs._engine import dbos_engine
from handrail.runs._live import news
from handrail.runs.durable import DurableRuns
from runs.durable.statements import counting

NEVER = 3600.0


@tool
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


async def model(request: Request) -> Reply:
    if any(isinstance(message, ToolResults) for message in request.messages):
        return Reply((Text("done"),))
    return Reply((Call("pay", {"amount": 1}, "1"),))


def make_runs(url: str, *, poll: float) -> DurableRuns:
    return DurableRuns(url, {"a": Agent(model, [pay], policy=lambda _: Ask("Pay?"))}, poll=poll)


def end_listeners(url: str) -> int:
    """End the sessions that listen, and return how many there were."""
    ended = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE query = 'LISTEN handrail' AND datname = current_database()"
    )
    with psycopg.connect(url, autocommit=True) as connection:
        return len(connection.execute(ended).fetchall())


async def answer(url: str, run: str) -> str:
    """Answer the request of a run with connections of its own, and return how the run ends."""
    async with make_runs(url, poll=NEVER) as others:
        await others.wait(run, seconds=60)
        await others.answer(f"{run}~1~1~0", Allow(), by="alice")
        with anyio.fail_after(60):
            while (ended := await others.get(run)).status in {"waiting", "running"}:  # noqa: ASYNC110
                await anyio.sleep(0.02)
        return ended.text


async def test_a_worker_that_never_looks_by_itself_sees_an_answer(database: str) -> None:
    async with make_runs(database, poll=NEVER) as runs:
        run = await runs.start("a", "Go.")
        async with runs.work(interval=NEVER):
            text = await answer(database, run)

    assert text == "done"


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
async def test_a_worker_listens_again_after_its_session_has_ended(database: str) -> None:
    async with make_runs(database, poll=NEVER) as runs:
        run = await runs.start("a", "Go.")
        async with runs.work(interval=NEVER):
            await runs.wait(run)
            ended = end_listeners(database)
            text = await answer(database, run)

    assert (ended, text) == (1, "done")


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
async def test_an_answer_that_no_one_hears_costs_time_only(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(news, "_PAUSE", NEVER)
    async with make_runs(database, poll=0.5) as runs:
        run = await runs.start("a", "Go.")
        async with runs.work(interval=NEVER):
            await runs.wait(run)
            ended = [end_listeners(database), end_listeners(database)]
            text = await answer(database, run)

    assert (ended, text) == ([1, 0], "done")


async def look_around(url: str) -> set[str]:
    """Return what an idle worker asks within more than a second, beside its look for work."""
    async with make_runs(url, poll=0.05) as runs, runs.work(interval=NEVER):
        with counting("handrail agent a") as looks, counting("") as asked, anyio.fail_after(60):
            while len(looks) < 10:  # noqa: ASYNC110  what begins with the worker
                await anyio.sleep(0.02)
            asked.clear()
            while len(looks) < 35:  # noqa: ASYNC110  statements of another task
                await anyio.sleep(0.02)
            return {*asked} - {*looks, "PRAGMA data_version"}


async def test_nothing_but_the_worker_checks_the_database(database: str) -> None:
    assert await look_around(database) == set()


async def test_the_engine_would_check_it_too(sqlite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def keep(_instance: Any) -> None: ...

    monkeypatch.setattr(dbos_engine, "end_checks", keep)

    asked = await look_around(sqlite)

    tables = ("queues", "workflow_status", "workflow_schedules", "application_versions")
    assert [any(f"main.{name}" in one for one in asked) for name in tables] == [True] * 4
