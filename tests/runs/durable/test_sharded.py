"""Runs in three databases: an id finds its own, pages of the inbox are merged, one can be away."""

from __future__ import annotations

import math
import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest

from handrail import Allow, Ask, Call, Text, tool
from handrail.agent import Agent
from handrail.messages import Reply, Request, ToolResults
from handrail.runs import Claimant
from handrail.runs.durable import DurableRuns
from handrail.runs.records import InboxPage, InboxRow
from handrail.runs.sharded import ShardedRuns
from runs.durable.statements import counting

SOAK = os.environ.get("HANDRAIL_PROFILE") == "soak"
RUNS, LIMIT = (3_000, 250) if SOAK else (30, 7)
NAMES = ("s1", "s2", "s3")
Shards = dict[str, str]


@pytest.fixture(params=["sqlite", "postgres"])
def shards(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Shards]:
    """Three databases of each kind, empty and new."""
    if request.param == "sqlite":
        template = request.getfixturevalue("sqlite_template")
        yield {name: str(shutil.copy(template, tmp_path / f"{name}.db")) for name in NAMES}
        return
    copy: Callable[[], str] = request.getfixturevalue("copy_postgres")
    made = {name: copy() for name in NAMES}
    yield made
    for address in made.values():
        server, _, name = address.rpartition("/")
        execute(f"{server}/postgres", f"DROP DATABASE {name} WITH (FORCE)")


def execute(address: str, sql: str) -> None:
    if address.startswith("postgresql"):
        with psycopg.connect(address, autocommit=True) as server:
            server.execute(sql)  # type: ignore[call-overload]
        return
    connection = sqlite3.connect(address)
    connection.execute(sql)
    connection.commit()
    connection.close()


class Shop:
    """Refunds each order that a person approves, and counts the refunds."""

    def __init__(self) -> None:
        self.refunds: Counter[str] = Counter()

        @tool
        async def refund(order: str) -> str:
            """Refund an order."""
            self.refunds[order] += 1
            return f"refunded {order}"

        self.agent = Agent(self.reply, [refund], policy=lambda _call: Ask("Refund?"))

    async def reply(self, request: Request) -> Reply:
        if any(isinstance(message, ToolResults) for message in request.messages):
            return Reply((Text("done"),))
        [order] = request.messages[0].parts  # type: ignore[union-attr]
        return Reply((Call("refund", {"order": order.text}, "c"),))  # type: ignore[union-attr]

    def open(self, shards: Mapping[str, str], **options: Any) -> ShardedRuns:
        def make(address: str) -> DurableRuns:
            return DurableRuns(address, {"shop": self.agent}, poll=0.05)

        return ShardedRuns(shards, make, **options)


async def work(runs: ShardedRuns, ids: list[str], until: str) -> None:
    """Let a worker of each shard work until its runs have a status."""
    for name in NAMES:
        own = [run for run in ids if runs.find(run) == name]
        async with runs, runs.shard(name).work(interval=60, drain_seconds=5):
            with anyio.fail_after(1800):
                for run in own:
                    while (await runs.wait(run)).status != until:  # noqa: ASYNC110  answered
                        await anyio.sleep(0.05)


async def read_pages(runs: ShardedRuns, limit: int) -> list[InboxPage]:
    pages = [await runs.inbox(limit=limit)]
    while pages[-1].next:
        pages.append(await runs.inbox(after=pages[-1].next, limit=limit))
    return pages


def rows_of(pages: list[InboxPage]) -> list[InboxRow]:
    return [row for page in pages for row in page.rows]


@pytest.mark.timeout(3600)
async def test_each_run_has_its_shard_and_the_inbox_has_the_requests_of_all(
    shards: Shards,
) -> None:
    shop = Shop()
    runs = shop.open(shards, seconds=60.0)
    async with runs:
        given = [f"order {n}" for n in range(RUNS)]
        ids = [await runs.start("shop", order, run_id=order) for order in given]
        await work(runs, ids, "waiting")
        pages = await read_pages(runs, LIMIT)
        with counting("SELECT") as statements:
            await runs.inbox(after=pages[1].next, limit=LIMIT)
        taken = len(statements)
        rows = rows_of(pages)
        for number, row in enumerate(rows):
            by = "jo" if number % 2 else Claimant("jo")
            assert (await runs.answer(row.id, Allow(), by=by)).status == "used"
        empty = await runs.inbox()
        await work(runs, ids, "done")

    spread = Counter(runs.find(run) for run in ids)
    assert min(spread.values()) > RUNS / 10
    assert [len(page.rows) for page in pages[:-1]] == [LIMIT] * (len(pages) - 1)
    assert {(page.total, page.away) for page in pages} == {(RUNS, ())}
    assert sorted(row.run for row in rows) == sorted(ids)
    assert [row.expires for row in rows] == sorted(row.expires for row in rows)
    assert taken == 2 * len(NAMES)
    assert empty == InboxPage(rows=())
    assert shop.refunds == dict.fromkeys(given, 1)


async def test_requests_with_one_deadline_are_each_on_one_page(shards: Shards) -> None:
    """Also if ids differ in case: a database may sort them otherwise than Python."""
    runs = Shop().open(shards)
    numbers = ("4e9", "9e999" if shards["s1"].endswith(".db") else "'Infinity'")
    found: list[list[InboxPage]] = []
    async with runs:
        given = [f"{name}.{run}" for name in NAMES for run in ("a", "B", "c")]
        ids = [await runs.start("shop", run, run_id=run) for run in given]
        await work(runs, ids, "waiting")
        for number in numbers:
            for address in shards.values():
                execute(address, f"UPDATE handrail_question SET expires = {number}")  # noqa: S608
            found += [await read_pages(runs, limit) for limit in (1, 2, 100)]

    assert ids == given
    assert [sorted(row.run for row in rows_of(pages)) for pages in found] == [sorted(ids)] * 6
    assert [{row.expires for row in rows_of(pages)} for pages in found] == [
        *[{4e9}] * 3,
        *[{math.inf}] * 3,
    ]
    assert [len(pages) for pages in found] == [9, 5, 1] * 2


async def test_a_shard_that_is_away_is_named_and_the_others_go_on(
    copy_postgres: Callable[[], str],
) -> None:
    shards = {name: copy_postgres() for name in NAMES}
    server, _, database = shards["s2"].rpartition("/")
    runs = Shop().open(shards, seconds=1.0)

    def admit(word: str) -> None:
        execute(f"{server}/postgres", f"ALTER DATABASE {database} ALLOW_CONNECTIONS {word}")
        execute(
            f"{server}/postgres",
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'",  # noqa: S608
        )

    async with runs:
        ids = [await runs.start("shop", name, run_id=f"{name}.r") for name in NAMES]
        await work(runs, ids, "waiting")
        whole = await runs.inbox()
        admit("false")
        pages = [await runs.inbox() for _ in range(2)]
        started = [await runs.start("shop", "more") for _ in range(20)]
        await runs.answer("s1.r~1~c~0", Allow(), by="jo")
        admit("true")
        with anyio.fail_after(60):
            while (back := await runs.inbox()).away:  # noqa: ASYNC110  its connection comes back
                await anyio.sleep(0.05)

    assert sorted(row.run for row in whole.rows) == ids
    for page in pages:
        assert ([row.run for row in page.rows], page.total) == (["s1.r", "s3.r"], 2)
        assert page.away == ("s2",)
    assert {runs.find(run) for run in started} == {"s1", "s3"}
    assert sorted(row.run for row in back.rows) == ["s2.r", "s3.r"]


async def test_a_shard_that_was_never_there_fails_alone(
    sqlite_template: Path, tmp_path: Path
) -> None:
    shards = {name: str(tmp_path / name / "runs.db") for name in NAMES}
    for name in ("s1", "s3"):
        (tmp_path / name).mkdir()
        shutil.copy(sqlite_template, shards[name])
    (tmp_path / "s2").write_text("in the way", encoding="utf-8")
    runs = Shop().open(shards)
    async with runs:
        started = {runs.find(await runs.start("shop", "x")) for _ in range(20)}
        page = await runs.inbox()
        with pytest.raises(FileExistsError):
            await runs.start("shop", "x", run_id="s2.r")
        (tmp_path / "s2").unlink()
        (tmp_path / "s2").mkdir()
        later = await runs.start("shop", "x", run_id="s2.r")
        back = await runs.inbox()

    assert started == {"s1", "s3"}
    assert (page.away, back.away, later) == (("s2",), (), "s2.r")


async def test_one_more_shard_moves_no_run(shards: Shards) -> None:
    shop, two = Shop(), dict(list(shards.items())[:2])
    given = [f"order-{n}" for n in range(30)]
    async with shop.open(two) as runs:
        before = [await runs.start("shop", one, run_id=one) for one in given]
    async with shop.open(shards) as runs:
        again = [await runs.start("shop", one, run_id=one) for one in given]
        found = [(await runs.get(run)).id for run in before]
        others = [await runs.start("shop", one, run_id=f"new-{one}") for one in given]

    assert before == again == found
    assert {runs.find(run) for run in before} == {"s1", "s2"}
    assert {runs.find(run) for run in others} == set(NAMES)


async def test_without_the_look_at_earlier_shards_a_run_would_start_twice(shards: Shards) -> None:
    """A control: a shard that was added takes ids that others had."""
    shop, given = Shop(), [f"order-{n}" for n in range(30)]
    async with shop.open(shards) as runs:
        new = {runs.find(await runs.start("shop", one, run_id=one)) for one in given}

    assert "s3" in new


async def test_runs_of_the_first_database_keep_their_ids(sqlite: str, tmp_path: Path) -> None:
    shop = Shop()
    async with DurableRuns(sqlite, {"shop": shop.agent}) as alone:
        await alone.start("shop", "x", run_id="v1.old")
    shards = {"s1": sqlite, "s2": str(tmp_path / "more.db")}
    async with shop.open(shards, unnamed="s1") as runs:
        assert await runs.start("shop", "x", run_id="v1.old") == "v1.old"
        assert runs.find("v1.old") == "s1"
        assert await runs.cancel("v1.old")
        assert (await runs.get("v1.old")).status == "cancelled"
        assert runs.find(await runs.start("shop", "x", run_id="new")) in shards
        assert (await runs.answer("x", Allow(), by="jo")).status == "unknown"


async def test_an_id_without_a_shard_and_a_key_of_no_page_are_refused(sqlite: str) -> None:
    shop = Shop()
    async with shop.open({"s1": sqlite}) as runs:
        with pytest.raises(LookupError, match=r"The id 's4\.r' names no shard\. There are s1\."):
            await runs.get("s4.r")
        assert (await runs.answer("s4.r~1~c~0", Allow(), by="jo")).status == "unknown"
        for key in ("x", "x s1 r", f"{math.inf!r} s1"):
            with pytest.raises(ValueError, match="is not the key of a page"):
                await runs.inbox(after=key)
    for names in ({}, {"S1": sqlite}, {"a.b": sqlite}):
        with pytest.raises(ValueError, match="shard"):
            shop.open(names)
    with pytest.raises(ValueError, match="'s2' is not the name of a shard"):
        shop.open({"s1": sqlite}, unnamed="s2")
