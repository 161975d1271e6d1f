"""Where a watcher is: it reads a reply once, whatever processes it asks, and however far these have read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from anyio import to_thread
from hypothesis import given
from hypothesis import strategies as st

from handrail import Text
from handrail.agent import Agent
from handrail.messages import Delta, Reply, Request, TruncatedCall
from handrail.runs import JournalError, JournalLine, open_runs
from handrail.runs._live.feed import Cursor, Feed
from handrail.runs._live.pieces import NOTIFY, Piece, add_pieces, dump
from handrail.runs.durable import DurableRuns, Update
from handrail.runs.journal import RunHead
from handrail.testing import ScriptedModel
from runs.durable.statements import counting
from runs.durable.test_live import read_all, text, working
from services import Postgres, find_binaries


class Attempt(NamedTuple):
    """A reply under way: rows, each with pieces."""

    name: str
    rows: list[list[Piece]]

    @property
    def text(self) -> str:
        return "".join(one.text for row in self.rows for one in row if one.kind == "text")


PIECES = st.builds(
    Piece,
    st.sampled_from(["text", "thought", "args"]),
    st.text("ab\ud800é", min_size=1, max_size=4),
)
ROWS = st.lists(st.lists(PIECES, max_size=3), min_size=1, max_size=5)


def make_feed(attempts: Sequence[Attempt], read: int) -> Feed:
    """A process that has read so many rows."""
    feed = Feed(RunHead("r"))
    rows = [(one.name, n, row) for one in attempts for n, row in enumerate(one.rows)]
    feed.take(0, [], [(1, name, n, dump(row)) for name, n, row in rows[:read]])
    return feed


def show(shown: str, updates: Sequence[Update]) -> str:
    for _, fields in updates:
        if fields["event"] == "restart":
            shown = ""
        elif fields["event"] == "delta" and not fields.get("thought"):
            shown += fields["text"]
    return shown


@given(ROWS, ROWS, st.lists(st.tuples(st.integers(0, 10), st.booleans()), max_size=12))
def test_a_watcher_that_changes_processes_sees_no_word_twice(
    first: list[list[Piece]], second: list[list[Piece]], looks: list[tuple[int, bool]]
) -> None:
    """A process can have read less than the one before it."""
    attempts = [Attempt("1" * 28, first), Attempt("2" * 28, second)]
    cursor, shown, feed, read = Cursor(), "", make_feed(attempts, 0), 0
    for count, is_new in looks:
        if is_new:  # another process, which knows the watcher by the id of its last event
            cursor, read = Cursor.read(cursor.id), count
        read = max(read, count)
        updates = cursor.show(feed := make_feed(attempts, read))
        shown = show(shown, updates)
        assert any(one.text.startswith(shown) for one in attempts)
    cursor.show(feed)
    assert show(shown, cursor.complete(attempts[1].text)) == attempts[1].text


def test_a_watcher_waits_for_a_process_that_has_read_less() -> None:
    words = [[Piece("text", word)] for word in ("One ", "two ", "three")]
    attempts = [Attempt("1" * 28, words)]
    cursor = Cursor()
    shown = show("", cursor.show(make_feed(attempts, 2)))
    other = Cursor.read(cursor.id)
    behind = other.show(make_feed(attempts, 1))
    rest = other.show(make_feed(attempts, 3))

    assert (shown, behind) == ("One two ", [])
    assert [update.fields["text"] for update in rest] == ["three"]


async def test_pieces_of_the_next_turn_count_whatever_a_clock_said(database: str) -> None:
    """The worker of the turn before had a clock that was ahead."""
    async with DurableRuns(database, {"a": Agent(never)}) as runs:
        run = await runs.start("a", "Go.")
        async with aclosing(runs.watch(run)) as updates:
            await anext(updates)
            for turn, attempt, word in ((1, "9" * 28, "Old"), (2, "1" * 28, "New")):
                row = {"run": run, "turn": turn, "attempt": attempt, "number": 0}
                put = {**row, "body": dump([Piece("text", word)])}
                step = add_pieces([put], postgres=runs.store.database.is_postgres)
                more = [NOTIFY] if runs.store.database.is_postgres else []
                await runs.store.database.transact([step, *more], 0)
            seen: list[Update] = []
            with anyio.fail_after(15):
                while text(seen) != "New":
                    seen.append(await anext(updates))


async def never(_request: Request) -> Reply:
    raise AssertionError("no worker works")


async def test_what_a_frozen_worker_wrote_late_is_removed(database: str) -> None:
    async def model(_request: Request) -> Reply:
        return Reply((Text("Done."),))

    async with working(database, model) as runs:
        run = await runs.start("a", "Go.")
        await runs.wait(run)
        row = {"run": run, "turn": 1, "attempt": "1" * 28, "number": 7, "body": "[]"}
        put = add_pieces([row], postgres=runs.store.database.is_postgres)
        assert await runs.store.database.transact([put], 0) == [1]
        with anyio.fail_after(20):
            while await to_thread.run_sync(runs.store.select, COUNT, {}) != [(0,)]:  # noqa: ASYNC110  another task
                await anyio.sleep(0.02)


COUNT = "SELECT COUNT(*) FROM handrail_piece"


async def test_a_long_reply_with_a_truncated_call_is_whole(database: str) -> None:
    whole = "words " * 1_000

    async def model(_request: Request) -> Any:
        yield Delta(whole)
        yield Reply((Text(whole), TruncatedCall("pay", "c", '{"a')), stop="length")

    async with working(database, model) as runs:
        run = await runs.start("a", "Go.")
        late = await runs.wait(run) and await read_all(runs, run)

    replies = [one.fields for one in late if one.fields["event"] == "reply"]
    assert text(late) == whole * len(replies)  # it is asked again
    assert replies[0]["text"].startswith("[truncated call of pay, not run] words")


async def test_a_late_watcher_reads_a_long_run_in_parts(tmp_path: Path) -> None:
    count = 5_000
    line = JournalLine.of("progressed", at=1.0, call_id="c", message="m")
    with open_runs(tmp_path / "runs.db") as store:
        store.append("r", [JournalLine.of("status", at=0.0, status="running")])
        for _ in range(10):
            store.append("r", [line] * (count // 10))
        store.append("r", [JournalLine.of("status", at=2.0, status="done")])
        with counting("FROM handrail_journal") as asked:
            async with aclosing(store.watch("r")) as updates:
                await anext(updates)
                before = len(asked)
                rest = [update async for update in updates]

    assert len(rest) == count + 1
    assert (before < 4, len(asked) > 6) == (True, True)


@pytest.mark.soak
async def test_a_replica_says_that_it_has_no_replies_under_way() -> None:
    if find_binaries() is None:
        pytest.skip("needs PostgreSQL: install `postgresql`")
    primary = await to_thread.run_sync(Postgres.start)
    async with DurableRuns(primary.url, {"a": Agent(ScriptedModel("Done."))}) as runs:
        await runs.start("a", "Go.", run_id="r")
    replica = await to_thread.run_sync(primary.replicate)
    read: list[str] = []

    async def watch() -> None:
        async for update in store.watch("r"):
            read.append(str(update.fields["event"]))  # noqa: PERF401  what came before an error

    with (
        open_runs(replica.url) as store,
        anyio.fail_after(60),
        pytest.raises(JournalError) as refused,
    ):
        await watch()
    await to_thread.run_sync(replica.stop)
    await to_thread.run_sync(primary.stop)

    assert read == ["status", "prompt"]
    assert str(refused.value) == (
        "The runs in 127.0.0.1/postgres cannot be watched here: this server is a replica, which "
        "has no text of replies under way. Connect to the primary."
    )
