"""Pickles that someone has planted in the database of durable runs are not read."""

from __future__ import annotations

import base64
import pickle
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from dbos import _serialization

from handrail import HandrailError
from handrail.agent import Agent
from handrail.cli._tree import run
from handrail.messages import ToolResults
from handrail.runs import open_runs, verify
from handrail.runs._durable.once import MAY_HAVE_RUN
from handrail.runs._engine import dbos_engine
from handrail.runs.durable import CallQueue, DurableRuns
from runs.durable.planted import Attacker
from runs.durable.shop import Ledger, call_once, make_agent, make_model

REASON = (
    "Its row in the database was not read: it has the form 'py_pickle', and handrail writes "
    "'portable_json'. Someone else has changed it."
)


def _fork(client: Any) -> object:
    """The history of events is read where a workflow is forked."""
    forked = client.fork_workflow("done:0", 9)
    return client._sys_db.get_all_events(forked.workflow_id)  # noqa: SLF001


READERS: dict[str, Callable[[Any], object]] = {
    "workflow_status": lambda client: client._sys_db.check_workflow_result("done:0"),  # noqa: SLF001
    "operation_outputs": lambda client: client.list_workflow_steps("done:0"),
    "notifications": lambda client: client._sys_db.recv_consume("done:0", 9, "t", 0),  # noqa: SLF001
    "workflow_events": lambda client: client._sys_db.get_all_events("done:0"),  # noqa: SLF001
    "workflow_events_history": _fork,
    "streams": lambda client: list(client.read_stream("done:0", "k")),
}
"""What reads a table whose rows say in which form they are, by the table."""


@pytest.fixture
def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """DBOS as it is, which reads pickles."""

    def read(_self: object, text: str) -> object:
        return pickle.loads(base64.b64decode(text))  # noqa: S301  the control

    monkeypatch.setattr(_serialization.DefaultSerializer, "deserialize", read)
    monkeypatch.setattr(dbos_engine, "refuse_pickles", lambda: None)


@asynccontextmanager
async def with_a_queued_run(url: str, mark: Path) -> AsyncGenerator[DurableRuns]:
    """Runs, one of which is queued and has a pickle as its input."""
    runs = DurableRuns(url, {"a": Agent(make_model(()))}, poll=0.02)
    async with runs:
        await runs.start("a", "Hello?", run_id="victim")
        await to_thread.run_sync(Attacker(url, mark).plant_status, "victim:0", "ENQUEUED")
        yield runs


async def test_a_run_whose_input_is_a_pickle_fails_and_the_worker_goes_on(
    database: str, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    async with with_a_queued_run(database, mark) as runs, runs.work(interval=0.02):
        with anyio.fail_after(60):
            while not (await runs.list("failed")):  # noqa: ASYNC110  a worker finds it
                await anyio.sleep(0.02)
        victim = await runs.get("victim")
        other = await runs.wait(await runs.start("a", "Hello?"), seconds=60)
        with pytest.raises(ValueError, match="cannot continue: Its row in the database"):
            await runs.resume("victim")

    assert (victim.status, victim.why, other.text) == ("failed", REASON, "All done.")
    assert not mark.exists()


@pytest.mark.usefixtures("unguarded")
async def test_without_the_guard_a_worker_runs_the_code(sqlite: str, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    async with with_a_queued_run(sqlite, mark) as runs, runs.work(interval=0.02):
        with anyio.fail_after(60):
            while not mark.exists():  # noqa: ASYNC110  a worker reads it
                await anyio.sleep(0.02)


async def read_all(url: str, folder: Path) -> dict[str, bool]:
    """Let a worker's process read a pickle in each table. Returns where its code ran."""
    ran: dict[str, bool] = {}
    runs = DurableRuns(url, {"a": Agent(make_model(()))}, poll=0.02)
    async with runs.work(interval=0.02):
        await runs.wait(await runs.start("a", "Hello?", run_id="done"), seconds=60)
        for table in Attacker(url, folder).tables():
            mark = folder / table
            attacker = Attacker(url, mark)
            if table == "workflow_status":
                attacker.plant_status("done:0", "SUCCESS")
            else:
                attacker.plant_row(table, "done:0")
            with suppress(HandrailError, AttributeError):  # what is read in its place is no text
                await to_thread.run_sync(READERS[table], runs._engine.client)  # noqa: SLF001
            ran[table] = mark.exists()
    return ran


async def test_a_worker_reads_no_pickle_in_any_table(database: str, tmp_path: Path) -> None:
    assert await read_all(database, tmp_path) == dict.fromkeys(READERS, False)


@pytest.mark.usefixtures("unguarded")
async def test_without_the_guard_each_table_runs_code(database: str, tmp_path: Path) -> None:
    assert await read_all(database, tmp_path) == dict.fromkeys(READERS, True)


async def call_on_a_queue(url: str, mark: Path) -> str:
    """Run a call on a queue, whose result is already there: someone has planted it."""
    agent = make_agent(Ledger(mark.with_name("ledger")), call_once("pay"))
    runs = DurableRuns(url, {"a": agent}, poll=0.02, queues={"q": CallQueue(tools=["pay"])})
    async with runs.work(interval=0.02):
        await runs.wait(await runs.start("a", "Pay.", run_id="one"), seconds=60)
        attacker = Attacker(url, mark)
        attacker.plant_status("one/1/pay-0", "SUCCESS")
        attacker.rename("one/1/pay-0", "two/1/pay-0")
        run = await runs.wait(await runs.start("a", "Pay.", run_id="two"), seconds=60)
    messages = run.state.messages if run.state else ()
    [results] = [message for message in messages if isinstance(message, ToolResults)]
    return results.results[0].text


async def test_the_result_of_a_queued_call_that_is_a_pickle_is_unknown(
    database: str, tmp_path: Path
) -> None:
    text = await call_on_a_queue(database, tmp_path / "mark")

    assert (text, (tmp_path / "mark").exists()) == (MAY_HAVE_RUN, False)


@pytest.mark.usefixtures("unguarded")
async def test_without_the_guard_the_result_of_a_queued_call_runs_code(
    sqlite: str, tmp_path: Path
) -> None:
    with suppress(TypeError):  # what is read is no text
        await call_on_a_queue(sqlite, tmp_path / "mark")

    assert (tmp_path / "mark").exists()


COMMANDS = ("list", "show done", "show victim", "inbox", "stats", "verify", "cancel victim")


@pytest.mark.usefixtures("unguarded")
async def test_clients_pages_and_commands_read_no_row_of_the_engine(
    database: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    mark = tmp_path / "mark"
    agents = {"a": Agent(make_model(()))}
    runs = DurableRuns(database, agents, poll=0.02)
    async with runs.work():
        await runs.wait(await runs.start("a", "Hello?", run_id="done"), seconds=60)
    async with runs:
        await runs.start("a", "Hello?", run_id="victim")
        attacker = Attacker(database, mark)
        attacker.plant_status("done:0", "SUCCESS")
        attacker.plant_status("victim:0", "ENQUEUED")
        for table in READERS.keys() - {"workflow_status"}:
            attacker.plant_row(table, "done:0")
        await runs.get("victim")
        await runs.list()
        await runs.inbox()
        await runs.adopt("0")
        verified = sorted(run for run in runs.store.names() if verify(runs.store, run) is None)
        pages = sorted(row.id for row in open_runs(database).records().runs().rows)
        for command in COMMANDS:
            line = ["runs", *command.split(), "--database", database, "-C", str(tmp_path)]
            await to_thread.run_sync(run, line, "0")
        await runs.start("a", "Again?", run_id="victim")  # joins it
        await runs.fork("done")
        await runs.remove("victim")
        await runs.prune(older_than=0)
        capfd.readouterr()

    assert (verified, pages) == (["done", "victim"], ["done", "victim"])
    assert not mark.exists()
