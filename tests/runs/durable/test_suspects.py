"""Where a worker runs a suspect alone, and what it takes before, beside and after it."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from anyio import to_thread

from handrail import READ, tool
from handrail.agent import Agent
from handrail.messages import Reply, Request, ToolResults
from handrail.runs._serving import taking
from handrail.runs._store.database import Database
from handrail.runs._store.liveness import Lock, make_lock
from handrail.runs.durable import CallQueue, DurableRuns
from runs.durable.shop import make_model
from runs.durable.statements import counting


class Stage:
    """Agents whose models and tools wait until they may continue."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._gates: dict[str, anyio.Event] = {}

    async def pass_(self, point: str) -> None:
        self.seen.append(point)
        if point in self._gates:
            await self._gates[point].wait()

    def close(self, *points: str) -> None:
        self._gates |= {point: anyio.Event() for point in points}

    def open(self, point: str) -> None:
        self._gates[point].set()

    async def reached(self, *points: str) -> None:
        with anyio.fail_after(60):
            while not {*points} <= {*self.seen}:  # noqa: ASYNC110  the engine begins them
                await anyio.sleep(0.02)

    def agent(self, name: str, turns: int, *, call: str = "step") -> Agent[str]:
        """An agent that makes a call in each turn."""

        @tool(effect=READ, name=call)
        async def step(number: int) -> str:
            """Take a step."""
            await self.pass_(f"{name} {number}")
            return f"step {number}"

        script = tuple(((call, {"number": number}),) for number in range(turns))
        model: Any = make_model(script)

        async def ask(request: Request) -> Reply:
            if not any(isinstance(message, ToolResults) for message in request.messages):
                await self.pass_(f"{name} begins")
            reply: Reply = await model(request)
            return reply

        return Agent(ask, [step])


async def start_hidden(runs: DurableRuns, agent: str) -> None:
    """Start a run that no worker takes, before there is one."""
    await runs.start(agent, "Go.", run_id=agent)
    await move(runs, agent, "hidden")


async def move(runs: DurableRuns, run: str, queue: str) -> None:
    """Move a queued run to another queue, as two deaths of its workers do."""
    await runs._database.write(  # noqa: SLF001
        "UPDATE workflow_status SET queue_name = :queue WHERE workflow_uuid = :id",
        id=f"{run}:0",
        queue=queue,
    )


async def looks(count: int) -> None:
    """Wait until the worker has looked for work so often."""
    with counting("handrail agent a") as seen, anyio.fail_after(60):
        while len(seen) < count:  # noqa: ASYNC110  statements of another task
            await anyio.sleep(0.02)


def make_runs(url: str, stage: Stage, **agents: int) -> DurableRuns:
    return DurableRuns(
        url, {name: stage.agent(name, turns) for name, turns in agents.items()}, poll=0.02
    )


async def test_an_idle_worker_takes_a_suspect_and_nothing_beside_it(sqlite: str) -> None:
    stage = Stage()
    stage.close("b begins")
    runs = make_runs(sqlite, stage, a=1, b=1)
    async with runs:
        await start_hidden(runs, "b")
        async with runs.work(interval=60):
            await move(runs, "b", "handrail suspect b")
            await stage.reached("b begins")
            await runs.start("a", "Go.", run_id="a")
            await looks(5)
            alone = list(stage.seen)
            stage.open("b begins")
            ended = [(await runs.wait(run)).status for run in "ba"]

    assert (alone, ended) == (["b begins"], ["done", "done"])


async def test_a_busy_worker_clears_its_slots_before_it_takes_a_suspect(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "PATIENCE", 0.0)
    stage = Stage()
    stage.close("a 0", "b begins")
    runs = make_runs(sqlite, stage, a=2, b=1, c=1)
    async with runs:
        await start_hidden(runs, "b")
        async with runs.work(interval=60):
            await runs.start("a", "Go.", run_id="a")
            await stage.reached("a 0")
            await move(runs, "b", "handrail suspect b")
            await looks(5)
            await runs.start("c", "Go.", run_id="c")
            await looks(5)
            clearing = list(stage.seen)
            stage.open("a 0")  # its turn ends, and it continues after the suspect
            await stage.reached("b begins")
            await looks(5)
            alone = list(stage.seen)
            stage.open("b begins")
            ended = [(await runs.wait(run)).status for run in "bac"]

    assert (clearing, alone) == (["a begins", "a 0"], ["a begins", "a 0", "b begins"])
    assert (ended, stage.seen.count("a 0"), stage.seen.count("a 1")) == (["done"] * 3, 1, 1)


async def test_calls_on_queues_reach_a_worker_that_clears_its_slots_or_runs_a_suspect(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "PATIENCE", 0.0)
    stage = Stage()
    stage.close("a begins")
    agents = {name: stage.agent(name, 1, call="mail") for name in "ab"}
    runs = DurableRuns(sqlite, agents, poll=0.02, queues={"post": CallQueue(tools=["mail"])})
    async with runs:
        await start_hidden(runs, "b")
        async with runs.work(interval=60):
            await runs.start("a", "Go.", run_id="a")
            await stage.reached("a begins")
            await move(runs, "b", "handrail suspect b")
            await looks(5)
            stage.open("a begins")
            texts = [(await runs.wait(run, seconds=60)).text for run in "ab"]

    assert texts == ["All done."] * 2
    assert stage.seen.index("a 0") < stage.seen.index("b begins")


def hold_all(url: str) -> list[Lock]:
    """Hold the locks that let a worker take suspects."""
    seconds, database = taking.WINDOW_SECONDS, Database(url)
    names = [taking.name_lock("1", seconds * number) for number in range(taking.WINDOWS)]
    locks = [make_lock(database, name) for name in names]
    assert [lock.take() for lock in locks] == [True] * taking.WINDOWS
    return locks


async def test_a_frozen_worker_does_not_keep_suspects_from_the_others(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "PATIENCE", 0.05)
    monkeypatch.setattr(taking, "WINDOW_SECONDS", 0.2)
    stage = Stage()
    *held, free = hold_all(sqlite)
    free.release()
    runs = make_runs(sqlite, stage, a=1, b=1)
    async with runs:
        await start_hidden(runs, "b")
        async with runs.work(interval=60):
            await move(runs, "b", "handrail suspect b")
            done = await runs.wait("b", seconds=60)

    assert (done.status, [lock.is_held() for lock in held]) == ("done", [True] * 9)


async def test_one_worker_at_a_time_takes_suspects(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "PATIENCE", 0.05)
    stage = Stage()
    others = hold_all(sqlite)
    runs = make_runs(sqlite, stage, a=1, b=1)
    async with runs:
        await start_hidden(runs, "b")
        async with runs.work(interval=60):
            await move(runs, "b", "handrail suspect b")
            done = [(await runs.wait(await runs.start("a", "Go."))).status]
            await looks(5)
            waits = await runs._engine.find("b:0"), "b begins" in stage.seen  # noqa: SLF001
            for other in others:
                other.release()
            done.append((await runs.wait("b", seconds=60)).status)

    assert (waits, done) == (("queued", False), ["done", "done"])


async def test_a_worker_whose_suspect_is_gone_continues(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "PATIENCE", 0.0)
    stage = Stage()
    stage.close("a 0")
    runs = make_runs(sqlite, stage, a=2, b=1)
    async with runs:
        await start_hidden(runs, "b")
        async with runs.work(interval=60):
            await runs.start("a", "Go.", run_id="a")
            await stage.reached("a 0")
            await move(runs, "b", "handrail suspect b")
            await looks(5)
            await runs.cancel("b")
            stage.open("a 0")
            done = await runs.wait("a", seconds=60)

    assert (done.text, stage.seen) == ("All done.", ["a begins", "a 0", "a 1"])


async def test_a_worker_whose_calls_take_long_does_not_wait_for_them_for_long(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "PATIENCE", 0.0)
    monkeypatch.setattr(taking, "CLEAR_SECONDS", 0.1)
    stage = Stage()
    stage.close("a 0")
    runs = make_runs(sqlite, stage, a=1, b=1, c=1)
    async with runs:
        await start_hidden(runs, "b")
        async with runs.work(interval=60):
            await runs.start("a", "Go.", run_id="a")
            await stage.reached("a 0")
            await move(runs, "b", "handrail suspect b")
            await looks(3)
            await runs.start("c", "Go.", run_id="c")
            beside = (await runs.wait("c", seconds=60)).status, list(stage.seen)
            stage.open("a 0")
            ended = [(await runs.wait(run, seconds=60)).status for run in "ab"]

    assert beside == ("done", ["a begins", "a 0", "c begins", "c 0"])
    assert ended == ["done", "done"]


async def test_a_suspect_that_runs_long_does_not_stay_alone(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "ALONE_SECONDS", 0.1)
    stage = Stage()
    stage.close("b 0")
    runs = make_runs(sqlite, stage, a=1, b=1)
    async with runs:
        await start_hidden(runs, "b")
        async with runs.work(interval=60):
            await move(runs, "b", "handrail suspect b")
            await stage.reached("b 0")
            await runs.start("a", "Go.", run_id="a")
            beside = (await runs.wait("a", seconds=60)).status, list(stage.seen)
            stage.open("b 0")
            ended = (await runs.wait("b", seconds=60)).status

    assert (beside, ended) == (("done", ["b begins", "b 0", "a begins", "a 0"]), "done")


async def test_a_worker_waits_for_calls_of_others_before_it_takes_a_suspect(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "PATIENCE", 0.0)
    stage = Stage()
    stage.close("a 0")
    agents = {"a": stage.agent("a", 1, call="mail"), "b": stage.agent("b", 1)}
    runs = DurableRuns(sqlite, agents, poll=0.02, queues={"post": CallQueue(tools=["mail"])})
    async with runs:
        await start_hidden(runs, "b")
        await queue_call(runs, "a")
        async with runs.work(interval=60):
            await stage.reached("a 0")
            await move(runs, "b", "handrail suspect b")
            await looks(5)
            clearing = list(stage.seen)
            stage.open("a 0")
            ended = (await runs.wait("b", seconds=60)).status

    assert (clearing, ended) == (["a 0"], "done")


async def queue_call(runs: DurableRuns, agent: str) -> None:
    """Queue a call as the run of another worker does."""
    order = ["r/1/c", agent, "r", "r/1", "mail", '{"number": 0}', "c", None, {}]
    options: dict[str, Any] = {"workflow_name": "handrail.call", "workflow_id": "r/1/c"}
    options |= {"queue_name": "handrail call post", "app_version": "1"}
    await runs._open_engine()  # noqa: SLF001
    client: Any = runs._engine.client  # noqa: SLF001
    await to_thread.run_sync(client.enqueue, options, json.dumps(order))


async def test_a_queued_call_of_an_agent_that_the_worker_does_not_have_is_put_back(
    sqlite: str,
) -> None:
    stage = Stage()
    queues = {"post": CallQueue(tools=["mail"])}
    runs = DurableRuns(sqlite, {"a": stage.agent("a", 1)}, poll=0.02, queues=queues)
    async with runs:
        await queue_call(runs, "other")
        async with runs.work(interval=60):
            with anyio.fail_after(60):
                while await runs._engine.find("r/1/c") != "parked":  # noqa: ASYNC110, SLF001
                    await anyio.sleep(0.02)
            ended = await runs.wait(await runs.start("a", "Go."), seconds=60)
        attempts = await runs._database.read(  # noqa: SLF001
            "SELECT recovery_attempts FROM workflow_status WHERE workflow_uuid = 'r/1/c'"
        )

    assert (ended.status, attempts) == ("done", [(0,)])


async def test_a_full_worker_takes_nothing(sqlite: str) -> None:
    stage = Stage()
    stage.close("a begins", "b begins")
    runs = make_runs(sqlite, stage, a=1, b=1)
    async with runs:
        for name in "ab":
            await runs.start(name, "Go.", run_id=name)
        async with runs.work(slots=1, interval=60):
            await looks(5)
            first = list(stage.seen)
            for name in "ab":
                stage.open(f"{name} begins")
            ended = [(await runs.wait(name, seconds=60)).status for name in "ab"]

    assert (len(first), ended) == (1, ["done", "done"])
