"""The database is away: no result is lost, callers learn of it soon, and a model reads why."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator
from contextlib import closing
from typing import Any

import anyio
import pytest
from anyio import to_thread

from handrail import Allow, Ask, Call, Text, tool
from handrail.agent import Agent
from handrail.messages import Reply, Request, ToolResults
from handrail.runs._durable import segments
from handrail.runs._store import claims, database
from handrail.runs._store.port import DatabaseAway, DatabaseError
from handrail.runs.durable import CallQueue, DurableRun, DurableRuns
from runs.durable.statements import counting
from services import Postgres, find_binaries

SOAK = os.environ.get("HANDRAIL_PROFILE") == "soak"


@pytest.fixture
async def away(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Postgres]:
    """A server with tables, for tests that stop it. Statements of clients soon give up."""
    if find_binaries() is None:
        pytest.skip("needs PostgreSQL: install `postgresql`")
    server = await to_thread.run_sync(Postgres.start)
    async with DurableRuns(server.url, {}):
        pass
    if not SOAK:  # else after 20 seconds
        monkeypatch.setattr(database, "RETRY_SECONDS", 0.3)
    yield server
    await to_thread.run_sync(server.stop)


class Payments:
    """An agent that pays once, when it may."""

    def __init__(self) -> None:
        self.began, self.may_end = anyio.Event(), anyio.Event()
        self.paid: list[str] = []

    def make_agent(self, **options: Any) -> Agent[Any]:
        @tool
        async def pay(order: str) -> str:
            """Pay an order."""
            self.began.set()
            await self.may_end.wait()
            self.paid.append(order)
            return f"paid {order}"

        async def model(request: Request) -> Reply:
            if isinstance(request.messages[-1], ToolResults):
                return Reply((Text("Done."),))
            return Reply((Call("pay", {"order": "A1"}, "c1"),))

        return Agent(model, [pay], **options)


def texts(run: DurableRun) -> list[str]:
    messages: Any = () if run.state is None else run.state.messages
    turns = [message for message in messages if isinstance(message, ToolResults)]
    return [result.text for turn in turns for result in turn.results]


async def test_a_result_is_kept_until_the_database_is_back(
    away: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    payments = Payments()
    runs = DurableRuns(away.url, {"a": payments.make_agent()}, poll=0.05)
    with anyio.fail_after(300):
        async with runs.work(interval=0.1):
            await runs.start("a", "Pay A1.", run_id="r")
            await payments.began.wait()
            await to_thread.run_sync(away.halt)
            payments.may_end.set()
            with pytest.raises(DatabaseAway, match="Cannot use the runs in"):
                await runs.list()  # a client has waited as long as it does
            with pytest.raises(DatabaseAway):
                await to_thread.run_sync(runs._database.read_now, "SELECT 1", {})  # noqa: SLF001
            await to_thread.run_sync(away.launch)
            while (done := await runs.get("r")).status in {"queued", "running"}:  # noqa: ASYNC110
                await anyio.sleep(0.05)

    assert (texts(done), payments.paid) == (["paid A1"], ["A1"])
    assert "a statement waits for the database: Cannot use the runs in" in caplog.text
    said = "a worker of durable runs waits for the database: Cannot use the runs in"
    assert caplog.text.count(said) in (1, 2)  # of its two loops, each says it once


# a database that cannot be written


async def add_trigger(sqlite: str, trigger: str) -> None:
    with closing(database.Database(sqlite)) as other:
        await other.write(
            f"CREATE TRIGGER full BEFORE {trigger} BEGIN SELECT RAISE(ABORT, 'full'); END"
        )


async def work_with(sqlite: str, trigger: str) -> tuple[list[str], list[str]]:
    """Let a run pay while something keeps its rows from being written."""
    payments = Payments()
    payments.may_end.set()
    runs = DurableRuns(sqlite, {"a": payments.make_agent()}, poll=0.05)
    await add_trigger(sqlite, trigger)
    async with runs.work(interval=0.1):
        done = await runs.wait(await runs.start("a", "Pay A1."))
    return texts(done), payments.paid


async def test_a_call_that_cannot_be_recorded_does_not_run(
    sqlite: str, caplog: pytest.LogCaptureFixture
) -> None:
    told, paid = await work_with(sqlite, "INSERT ON handrail_call")

    assert paid == []
    assert told == [
        "Not run: the database of this run cannot be written, and such a call runs only once that is recorded. Try again later, or tell the user."
    ]
    assert "the call" in caplog.text


async def test_a_result_that_its_row_cannot_have_is_in_the_turn(
    sqlite: str, caplog: pytest.LogCaptureFixture
) -> None:
    told, paid = await work_with(sqlite, "UPDATE ON handrail_call")

    assert (told, paid) == (["paid A1"], ["A1"])
    assert "was not recorded" in caplog.text


def is_full(record: logging.LogRecord) -> bool:
    return "continues in" in record.getMessage()


async def test_a_run_whose_rows_are_refused_continues_when_they_are_accepted(
    sqlite: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(segments, "PAUSES", (0.05,) * 1000)
    payments = Payments()
    payments.may_end.set()
    runs = DurableRuns(sqlite, {"a": payments.make_agent()}, poll=0.05)
    await add_trigger(sqlite, "INSERT ON handrail_step")
    async with runs.work(interval=0.1):
        run = await runs.start("a", "Pay A1.")
        with anyio.fail_after(60):
            while sum(map(is_full, caplog.records)) < 2:  # noqa: ASYNC110  a worker logs it
                await anyio.sleep(0.02)
        with closing(database.Database(sqlite)) as other:
            await other.write("DROP TRIGGER full")
        done = await runs.wait(run, seconds=60)

    assert (done.status, texts(done), payments.paid) == ("done", ["paid A1"], ["A1"])


async def test_an_approval_that_the_database_refuses_to_record_is_recorded_when_it_accepts(
    sqlite: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(claims, "PAUSES", (0.05,) * 1000)
    payments = Payments()
    payments.may_end.set()
    agent = payments.make_agent(policy=lambda _: Ask("Pay?"))
    runs = DurableRuns(sqlite, {"a": agent}, poll=0.05)
    await add_trigger(sqlite, "INSERT ON handrail_approval")
    async with runs.work(interval=0.1):
        run = await runs.start("a", "Pay A1.", run_id="r")
        await runs.wait(run, seconds=60)
        await runs.answer("r~1~c1~0", Allow())
        with anyio.fail_after(60):
            while caplog.text.count("an approval is recorded again in") < 2:  # noqa: ASYNC110
                await anyio.sleep(0.02)
        with closing(database.Database(sqlite)) as other:
            await other.write("DROP TRIGGER full")
        while (done := await runs.wait(run, seconds=60)).status == "waiting":  # noqa: ASYNC110
            await anyio.sleep(0.02)

    assert (done.status, texts(done), payments.paid) == ("done", ["paid A1"], ["A1"])


async def test_a_run_whose_rows_are_always_refused_fails(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "PAUSES", (0.01,))
    runs = DurableRuns(sqlite, {"a": Payments().make_agent()}, poll=0.05)
    await add_trigger(sqlite, "INSERT ON handrail_step")
    async with runs.work(interval=0.1):
        failed = await runs.wait(await runs.start("a", "Pay A1."), seconds=60)

    assert (failed.status, failed.why) == (
        "failed",
        f"DatabaseError: Cannot use the runs in {sqlite}: full.",
    )


async def test_a_call_whose_end_the_engine_could_not_write_runs_once_and_its_run_ends(
    sqlite: str,
) -> None:
    payments = Payments()
    payments.may_end.set()
    queues = {"bank": CallQueue(tools=["pay"])}
    runs = DurableRuns(sqlite, {"a": payments.make_agent()}, poll=0.05, queues=queues)
    ended = "NEW.name = 'handrail.call' AND NEW.status IN ('SUCCESS', 'ERROR')"
    async with runs.work(interval=0.05):
        await add_trigger(sqlite, f"UPDATE ON workflow_status WHEN {ended}")
        with counting("'ERROR'") as refused, anyio.fail_after(60):
            run = await runs.start("a", "Pay A1.")
            while not refused:  # noqa: ASYNC110  statements of another thread
                await anyio.sleep(0.02)
        with closing(database.Database(sqlite)) as other:
            await other.write("DROP TRIGGER full")
        done = await runs.wait(run, seconds=60)

    assert (done.status, texts(done), payments.paid) == ("done", ["paid A1"], ["A1"])


async def test_a_server_that_is_about_to_take_over_is_away(away: Postgres) -> None:
    """A replica refuses to write until it is told to."""
    name = away.url.rpartition("/")[2]
    with closing(database.Database(away.url)) as other:
        await other.write(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    errors = []
    for read_only in (False, True):
        with (
            closing(database.Database(away.url, read_only=read_only)) as replica,
            pytest.raises(DatabaseError, match="read-only transaction") as refused,
        ):
            await replica.write("DELETE FROM handrail_run")
        errors.append(type(refused.value))

    assert errors == [DatabaseAway, DatabaseError]


async def test_a_worker_that_lost_its_lock_takes_nothing_over(away: Postgres) -> None:
    """The server restarts between two statements of a look: no lock proves anything then."""
    runs = DurableRuns(away.url, {}, poll=0.05)
    async with runs.work(interval=60) as worker:
        inner: Any = worker._worker  # noqa: SLF001
        await runs._rows.add_worker("other", "1")  # noqa: SLF001
        await to_thread.run_sync(away.halt)
        await to_thread.run_sync(away.launch)
        await inner._take_over("other")  # noqa: SLF001
        before = await runs._rows.workers_of("1")  # noqa: SLF001
        await inner.look()  # it takes its own lock again
        await inner._take_over("other")  # noqa: SLF001
        after = await runs._rows.workers_of("1")  # noqa: SLF001

    assert (before, after) == (sorted([worker.id, "other"]), [worker.id])


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_an_outage_of_76_seconds_loses_no_result(away: Postgres) -> None:
    desks = [Payments() for _ in range(20)]
    agents = {f"a{number}": desk.make_agent() for number, desk in enumerate(desks)}
    runs = DurableRuns(away.url, agents, poll=0.25)
    async with runs.work():
        ids = [await runs.start(name, "Pay A1.") for name in agents]
        for desk in desks[:15]:
            await desk.began.wait()
        for desk in desks[15:]:
            desk.may_end.set()  # these are anywhere
        await to_thread.run_sync(away.halt)
        for desk in desks:
            desk.may_end.set()
        await anyio.sleep(76)
        await to_thread.run_sync(away.launch)
        ended = [await runs.wait(one, seconds=120) for one in ids]

    assert [(run.status, texts(run)) for run in ended] == [("done", ["paid A1"])] * 20
    assert [desk.paid for desk in desks] == [["A1"]] * 20
