"""Where taking from a queue goes wrong: no run is lost, no slot is, and other versions of DBOS."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import wraps
from importlib import metadata
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from dbos import _sys_db as dbos_rows
from sqlalchemy.exc import OperationalError

from handrail import HandrailError, Text
from handrail.agent import Agent
from handrail.messages import Reply, Request
from handrail.runs._engine import dbos_engine, dbos_internals
from handrail.runs._engine.workflows import Workflows
from handrail.runs.durable import DurableRuns
from runs.durable.statements import counting

READ_ROWS = dbos_rows.SystemDatabase.get_workflow_statuses


async def answer(_request: Request) -> Reply:
    return Reply((Text("done"),))


def make_runs(url: str) -> DurableRuns:
    return DurableRuns(url, {"a": Agent(answer)}, poll=0.02)


def list_locks(url: str) -> list[Path]:
    return list(Path(f"{url}.workers").iterdir())


def break_once(patch: pytest.MonkeyPatch) -> list[str]:
    """Let a connection break after rows were taken, once. Returns what was taken."""
    lost: list[str] = []

    def read(self: Any, workflow_ids: list[str]) -> Any:
        if not lost:
            lost.extend(workflow_ids)
            raise OperationalError("SELECT", {}, ConnectionError("lost"))
        return READ_ROWS(self, workflow_ids)

    patch.setattr(dbos_rows.SystemDatabase, "get_workflow_statuses", read)
    return lost


@pytest.mark.parametrize("doubt", [60.0, -1.0])
async def test_what_was_taken_and_not_begun_is_taken_again(
    sqlite: str, monkeypatch: pytest.MonkeyPatch, doubt: float
) -> None:
    monkeypatch.setattr(dbos_engine, "_DOUBT_SECONDS", doubt)
    lost = break_once(monkeypatch)
    async with make_runs(sqlite) as runs:
        run = await runs.start("a", "Go.", run_id="r")
        async with runs.work(interval=60):
            ended = await runs.wait(run, seconds=60)

    assert (ended.text, lost) == ("done", ["r:0"])


async def test_what_was_taken_and_not_begun_would_be_lost(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forget(_rows: Workflows, _token: str) -> None: ...

    monkeypatch.setattr(Workflows, "put_back", forget)
    lost = break_once(monkeypatch)
    async with make_runs(sqlite) as runs:
        await runs.start("a", "Go.", run_id="r")
        async with runs.work(interval=60):
            with counting("handrail agent a") as looks, anyio.fail_after(60):
                while len(looks) < 10:  # noqa: ASYNC110  statements of another task
                    await anyio.sleep(0.02)
            await runs.wait(await runs.start("a", "Go."), seconds=60)
            left = (await runs.get("r")).status

    assert (left, lost) == ("queued", ["r:0"])


class LockNotAvailable(Exception):
    """What PostgreSQL raises if another worker takes from the same queue."""

    sqlstate = "55P03"


async def test_a_queue_that_another_worker_takes_from_is_left_for_later(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim: Any = dbos_rows.SystemDatabase.start_queued_workflows
    tries: list[object] = []

    @wraps(claim)
    def refuse_once(self: Any, *args: Any, **options: Any) -> Any:
        tries.append(args)
        if len(tries) == 1:
            raise OperationalError("SELECT", {}, LockNotAvailable())
        return claim(self, *args, **options)

    monkeypatch.setattr(dbos_rows.SystemDatabase, "start_queued_workflows", refuse_once)
    async with make_runs(sqlite) as runs, runs.work(interval=60):
        ended = await runs.wait(await runs.start("a", "Go."), seconds=60)

    assert (ended.text, len(tries)) == ("done", 2)


async def test_a_run_that_is_cancelled_while_it_is_taken_leaves_its_slot(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cancel(self: Any, workflow_ids: list[str]) -> Any:
        with closing(sqlite3.connect(sqlite, timeout=30)) as connection:
            connection.execute(
                "UPDATE workflow_status SET status = 'CANCELLED', owner_xid = NULL "
                "WHERE workflow_uuid = 'r:0'"
            )
            connection.commit()
        return READ_ROWS(self, workflow_ids)

    monkeypatch.setattr(dbos_rows.SystemDatabase, "get_workflow_statuses", cancel)
    async with make_runs(sqlite) as runs:
        await runs.start("a", "Go.", run_id="r")
        async with runs.work(slots=1, interval=60):
            with anyio.fail_after(60):
                while await runs._engine.find("r:0") != "cancelled":  # noqa: ASYNC110, SLF001
                    await anyio.sleep(0.02)
            ended = await runs.wait(await runs.start("a", "Go."), seconds=60)

    assert ended.text == "done"


async def test_a_row_with_other_arguments_leaves_its_slot(sqlite: str) -> None:
    async with make_runs(sqlite) as runs:
        options = {"workflow_name": "handrail.segment", "queue_name": "handrail agent a"}
        await runs._open_engine()  # noqa: SLF001  what our port leaves out
        client: Any = runs._engine.client  # noqa: SLF001
        planted: dict[str, Any] = {**options, "workflow_id": "x:0", "app_version": "1"}
        await to_thread.run_sync(client.enqueue, planted, "one", "two")
        async with runs.work(slots=1, interval=60):
            ended = await runs.wait(await runs.start("a", "Go."), seconds=60)
            planted_status = await runs._engine.find("x:0")  # noqa: SLF001

    assert (ended.text, planted_status) == ("done", "failed")


async def test_a_run_that_was_resumed_in_between_has_not_failed(sqlite: str) -> None:
    async with make_runs(sqlite) as runs:
        run = await runs.start("a", "Go.", run_id="r")
        await runs._database.write(  # noqa: SLF001  as five deaths of its worker do
            "UPDATE workflow_status SET status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED', "
            "recovery_attempts = 5"
        )
        [(_, number, why)] = await runs._engine.given_up()  # noqa: SLF001  what a worker reads
        await runs.resume(run)
        await runs._segments.give_up(run, number, why)  # noqa: SLF001  and writes, too late
        status = (await runs.get(run)).status
        async with runs.work(interval=60):
            ended = await runs.wait(run, seconds=60)

    assert (status, ended.status, ended.text) == ("queued", "done", "done")
    assert why == "Its process died 5 times. It continues when someone resumes it."


def other_parameters(dbos: object, status: object) -> None: ...


def one_more(dbos: object, status: object, owner_xid: str, more: str) -> None: ...


BEGIN = "dbos._core.execute_dequeued_workflow"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (BEGIN, other_parameters),
        (BEGIN, one_more),
        (BEGIN, None),
        ("dbos._queue._INTERNAL_QUEUE_CONSTRUCTION", None),
    ],
)
async def test_a_dbos_without_what_we_use_is_refused(
    sqlite: str, monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    runs = make_runs(sqlite)
    with monkeypatch.context() as patch:
        if value is None:
            patch.delattr(name)
        else:
            patch.setattr(name, value)
        with pytest.raises(HandrailError) as refused:
            async with runs.work():
                pass
    locks = list_locks(sqlite)
    async with runs, runs.work(interval=60):
        ended = await runs.wait(await runs.start("a", "Go."), seconds=60)

    assert (locks, ended.text) == ([], "done")
    assert str(refused.value) == (
        f"Durable runs do not work with dbos {metadata.version('dbos')}: they use "
        f"{name.removeprefix('dbos.')}, which it does not have, or not with the same parameters. "
        "Install a version that this handrail knows: `pip install 'handrail[durable]'`."
    )


async def test_an_instance_without_what_we_use_is_refused(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = make_runs(sqlite)
    with monkeypatch.context() as patch:
        patch.setattr(dbos_internals, "ATTRIBUTES", ("_config", "_later._name"))
        with pytest.raises(HandrailError, match=r"they use DBOS\._later\._name, which"):
            async with runs.work():
                pass
    async with runs, runs.work(interval=60):
        ended = await runs.wait(await runs.start("a", "Go."), seconds=60)

    assert ended.text == "done"


async def test_a_function_of_dbos_with_one_more_option_is_used(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin: Any = dbos_internals._find(dbos_internals._BEGIN)  # noqa: SLF001

    def later(dbos: Any, status: Any, owner_xid: str, urgent: bool = False) -> Any:  # noqa: FBT001, FBT002
        return begin(dbos, status, owner_xid)

    monkeypatch.setattr(BEGIN, later)
    async with make_runs(sqlite) as runs, runs.work(interval=60):
        ended = await runs.wait(await runs.start("a", "Go."), seconds=60)

    assert ended.text == "done"
