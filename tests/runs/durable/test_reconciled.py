"""A process dies between the two writes that start a run: a worker queues it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
from dbos import DBOSClient

from handrail import Text
from handrail.agent import Agent
from handrail.messages import ModelError, Reply, Request
from handrail.runs._serving import worker
from handrail.runs.durable import DurableRuns
from runs.durable.fleet import Tables


class Died(Exception):
    """Takes the place of a death between two writes."""


def make_runs(url: str, *, fails: bool = False, **options: Any) -> DurableRuns:
    async def model(request: Request) -> Reply:
        if fails:
            raise ModelError("Not available.")
        [prompt] = request.messages
        assert not isinstance(prompt, Reply)
        return Reply((Text(f"{len(request.messages)} message"),))

    return DurableRuns(url, {"a": Agent(model)}, poll=0.05, **options)


@contextmanager
def dying() -> Generator[None]:
    """Let a process die before it queues a run."""

    def die(*_: object) -> None:
        raise Died

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DBOSClient, "enqueue", die)
        yield


async def test_a_run_that_was_not_queued_is_queued_by_a_worker(
    database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker, "LOST_SECONDS", 0.0)
    async with make_runs(database) as runs:
        with dying(), pytest.raises(Died):
            await runs.start("a", "Go.", run_id="r", metadata={"tenant": "acme"})
        before = (await runs.get("r")).status, await runs._engine.find("r:0")  # noqa: SLF001
        async with runs.work(interval=0.05):
            ended = await runs.wait("r", seconds=60)

    assert (before, ended.text) == (("queued", None), "1 message")
    assert ended.metadata == {"tenant": "acme"}
    assert "the run r was not queued: the process that started it died" in caplog.text


async def test_a_resumed_run_that_was_not_queued_is_queued_by_a_worker(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "LOST_SECONDS", 0.0)
    failing = make_runs(database, fails=True)
    async with failing.work(interval=60):
        await failing.start("a", "Go.", run_id="r")
        failed = await failing.wait("r", seconds=60)
    async with make_runs(database) as runs:
        with dying(), pytest.raises(Died):
            await runs.resume("r")
        before = (await runs.get("r")).status, await runs._engine.find("r:1")  # noqa: SLF001
        async with runs.work(interval=0.05):
            ended = await runs.wait("r", seconds=60)

    assert (failed.status, before, ended.text) == ("failed", ("queued", None), "1 message")


async def test_runs_of_others_and_young_ones_are_left(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        make_runs(sqlite) as runs,
        make_runs(sqlite, version="2") as later,
        make_runs(sqlite, name="other") as other,
    ):
        for number, each in enumerate((runs, later, other)):
            with dying(), pytest.raises(Died):
                await each.start("a", "Go.", run_id=str(number))
        async with runs.work(interval=60):  # it looks once: all of them are young
            await runs.wait(await runs.start("a", "Go."), seconds=60)
            young = [await runs._engine.find(f"{number}:0") for number in range(3)]  # noqa: SLF001
        monkeypatch.setattr(worker, "LOST_SECONDS", 0.0)
        async with runs.work(interval=0.05):
            await runs.wait("0", seconds=60)
            old = [await runs._engine.find(f"{number}:0") for number in range(3)]  # noqa: SLF001

    assert (young, old) == ([None] * 3, ["done", None, None])
    assert Tables(sqlite).read("SELECT id FROM handrail_run WHERE status = 'queued'") == [
        ("1",),
        ("2",),
    ]
