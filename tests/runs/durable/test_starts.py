"""A run is queued in the transaction that writes its rows: with them, or not at all."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from dbos import DBOSClient

from handrail import Text
from handrail.agent import Agent
from handrail.messages import ModelError, Reply, Request
from handrail.runs.durable import DurableRuns
from runs.durable.fleet import Tables
from runs.durable.test_removal import count_rows


class Died(Exception):
    """Takes the place of a death."""


def make_runs(url: str, *, fails: bool = False, **options: Any) -> DurableRuns:
    async def model(request: Request) -> Reply:
        if fails:
            raise ModelError("Not available.")
        return Reply((Text(f"{len(request.messages)} message"),))

    return DurableRuns(url, {"a": Agent(model)}, poll=0.05, **options)


@contextmanager
def dying() -> Generator[None]:
    """Let a process die after it queued a run, and before it commits."""
    queue = DBOSClient.enqueue_in_transaction

    def die(*args: Any) -> None:
        queue(*args)
        raise Died

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DBOSClient, "enqueue_in_transaction", die)
        yield


async def test_a_start_that_dies_leaves_nothing_and_can_be_repeated(database: str) -> None:
    async with make_runs(database) as runs:
        await runs.start("a", "Go.", run_id="other")
        before = count_rows(database)
        with dying(), pytest.raises(Died):
            await runs.start("a", "Go.", run_id="r", metadata={"tenant": "acme"})
        after = count_rows(database)
        await runs.start("a", "Go.", run_id="r", metadata={"tenant": "acme"})
        whole = count_rows(database)
        await runs.start("a", "Another.", run_id="r")  # joins it
        again = count_rows(database)
        async with runs.work(interval=60):
            ended = await runs.wait("r", seconds=60)

    assert (before, whole) == (after, again)
    assert (ended.text, ended.metadata) == ("1 message", {"tenant": "acme"})


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
async def test_a_start_whose_process_was_frozen_is_repeated(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, seen = DBOSClient.enqueue_in_transaction, list[int]()
    gone = "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = %s)"

    def freeze(client: DBOSClient, connection: Any, *args: Any) -> None:
        server = connection.connection.driver_connection
        server.execute(f"SET idle_in_transaction_session_timeout = {0 if seen else 100}")
        seen.append(server.info.backend_pid)
        with psycopg.connect(database, autocommit=True) as other:
            while len(seen) == 1 and not other.execute(gone, seen).fetchall():
                pass
        queue(client, connection, *args)

    monkeypatch.setattr(DBOSClient, "enqueue_in_transaction", freeze)
    async with make_runs(database) as runs:
        await runs.start("a", "Go.", run_id="r")

    assert len(seen) == 2
    assert Tables(database).read("SELECT id, status FROM handrail_run") == [("r", "queued")]


async def test_a_run_whose_resumption_dies_has_failed_as_before(database: str) -> None:
    failing = make_runs(database, fails=True)
    async with failing.work(interval=60):
        await failing.start("a", "Go.", run_id="r")
        failed = await failing.wait("r", seconds=60)
    async with make_runs(database) as runs:
        before = count_rows(database)
        with dying(), pytest.raises(Died):
            await runs.resume("r")
        after = (await runs.get("r")).status, count_rows(database)
        await runs.resume("r")
        async with runs.work(interval=60):
            ended = await runs.wait("r", seconds=60)

    assert (failed.status, after) == ("failed", ("failed", before))
    assert ended.text == "1 message"
    assert Tables(database).read("SELECT status FROM handrail_run") == [("done",)]
