"""Records of durable runs, in SQLite and PostgreSQL, while workers write them."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import Any

import anyio
import pytest

from handrail import Allow, Ask, Call, CheckedCall, Deny, Text, tool
from handrail.agent import Agent
from handrail.messages import Reply, Request, ToolResults, Usage
from handrail.permissions import Approvers, Edit, Origin
from handrail.runs import AnswerOutcome, Claimant, Records, open_runs, request_digest, verify
from handrail.runs._store.port import DatabaseError
from handrail.runs.durable import DurableRuns
from handrail.runs.history import read_history, share_tokens
from handrail.runs.lines import as_fields
from handrail.runs.records import EventQuery, Fleet, RuleCount, Vote
from runs.durable.statements import counting
from runs.pages import PAGES

SOAK = os.environ.get("HANDRAIL_PROFILE") == "soak"
RULE = Origin("refunds", "rules.toml", 3, digest="00ff")
WAITING = ["r~1~c1~0"]


@tool
async def refund(order: str) -> str:
    """Refund an order."""
    return f"refunded {order}"


async def model(request: Request) -> Reply:
    if any(isinstance(message, ToolResults) for message in request.messages):
        return Reply((Text("done"),), model="m")
    return Reply((Call("refund", {"order": "A1"}, "c1"),), model="m")


def make_agent(limits: Approvers) -> Agent[Any]:
    def policy(_call: CheckedCall) -> Ask:
        return Ask("Refund A1?", RULE, approvers=limits)

    return Agent(model, [refund], policy=policy)


async def give(runs: DurableRuns, by: str, answer: Any = None, **others: Any) -> AnswerOutcome:
    return await runs.store.answer(WAITING[0], answer or Allow(), by=Claimant(by, **others))


async def waiting(records: Records) -> list[str]:
    with anyio.fail_after(40):
        while not (rows := records.inbox().rows):  # noqa: ASYNC110  workers write it
            await anyio.sleep(0.02)
    return [row.id for row in rows]


async def test_a_run_is_read_answered_by_two_people_and_followed_to_its_end(  # noqa: PLR0915  one story
    database: str,
) -> None:
    limits = Approvers((("leads",),), not_requester=True, count=2)
    runs = DurableRuns(database, {"shop": make_agent(limits)}, poll=0.05)
    async with runs.work(interval=0.1, drain_seconds=5) as worker:
        labels = ["team=pay"]
        await runs.start("shop", "Refund A1.", run_id="r", principal="ana", labels=labels)
        records = open_runs(database).records(labels=labels)
        assert await waiting(records) == WAITING
        asked = records.request(WAITING[0])
        assert asked is not None
        digest = request_digest(asked.pending)
        place = records.events(limit=1).rows[0].row.place

        outcomes = [
            await give(runs, "eve"),
            await give(runs, "ana", groups=["leads"]),
            await give(runs, "jo", groups=["leads"], seen="00"),
            await give(runs, "jo", groups=["leads"], via="console", seen=digest),
            await give(runs, "jo", groups=["leads"]),
            await give(runs, "kim", Edit({"order": "B2"}), groups=["leads"]),
        ]
        votes = records.request(WAITING[0])
        outcomes += [
            await give(runs, "kim", groups=["leads"], via="console"),
            await give(runs, "lee", groups=["leads"]),
        ]
        seen: list[str] = []
        with anyio.fail_after(40):
            async for event in records.follow(place):
                seen.append(event.kind)
                if event.kind == "status" and "finished" in seen:
                    break
            while (done := await runs.get("r")).status != "done":  # noqa: ASYNC110
                await anyio.sleep(0.02)
        fleet = records.fleet()

    assert [outcome.status for outcome in outcomes] == [
        "not_allowed",
        "not_allowed",
        "changed",
        "counted",
        "counted",
        "counted",
        "used",
        "answered",
    ]
    assert re.match(
        r"Already answered\. kim approved it [\d.]+ seconds? before you\.", outcomes[-1].text
    )
    assert (asked.pending.approvers, asked.pending.origin) == (limits, RULE)
    assert votes is not None
    assert [(vote.by, vote.answer) for vote in votes.votes] == [("jo", "allow"), ("kim", "edit")]
    assert isinstance(votes.votes[0], Vote)
    receipt = records.receipt(WAITING[0])
    assert receipt is not None
    assert (receipt.by, receipt.via, receipt.answer) == ("kim", "console", "allow")
    assert receipt.resumed_after is not None
    assert (done.status, seen.count("vote"), seen.count("answer")) == ("done", 3, 1)
    check_end(records, database, runs)
    assert fleet is not None
    assert [row.id for row in fleet.workers] == [worker.id]
    assert sum(count for _, count in fleet.parked) == fleet.unknown == 0


def check_end(records: Records, database: str, runs: DurableRuns) -> None:
    """Compare what is read of the run with its journal."""
    run, calls, one = records.run("r"), records.calls("r", after=0), records.call("r", 1)
    entries = {entry.number: entry for entry in runs.store.read("r")}
    events = records.events(EventQuery(run="r"), limit=1000).rows
    assert run is not None
    assert one is not None
    assert (run.agent, run.principal, run.labels) == ("shop", "ana", ("team=pay",))
    assert (run.status, run.reason, run.waiting) == ("done", "answer", 0)
    assert dict(run.counts) == {"ok": 1}
    assert (run.entries, len(events), verify(runs.store, "r")) == (len(entries),) * 2 + (None,)
    assert {event.row.number: (event.body, event.digest) for event in events} == {
        number: (entry.body, entry.digest) for number, entry in entries.items()
    }
    assert [(row.tool, row.status) for row in calls.rows] == [("refund", "ok")]
    turns = [(turn.speaker, turn.reply, turn.calls) for turn in records.turns("r")]
    assert turns == [("person", 0, 0), ("model", 1, 1), ("model", 2, 0)]
    assert one.row.history is not None
    assert [moment.what for moment in one.row.history.moments] == ["asked", "answered"]
    rules = {(rule.rule, rule.file, rule.outcome): rule.count for rule in records.rules()}
    assert rules["refunds", "rules.toml", "answer allow"] == 1
    assert isinstance(records.rules()[0], RuleCount)
    others = open_runs(database).records(labels=["team=web"])
    assert (others.run("r"), others.calls("r", after=0).rows, others.rules()) == (None, (), ())


async def test_the_first_of_two_answers_at_once_is_used(database: str) -> None:
    runs = DurableRuns(database, {"shop": make_agent(Approvers())}, poll=0.05)
    outcomes: list[AnswerOutcome] = []

    async def add(by: str) -> None:
        outcomes.append(await give(runs, by, Deny("no") if by == "p1" else None))

    async with runs.work(interval=0.1, drain_seconds=5):
        await runs.start("shop", "Refund A1.", run_id="r")
        await waiting(open_runs(database).records())
        async with anyio.create_task_group() as group:
            for number in range(4):
                group.start_soon(add, f"p{number}")
        await runs.wait("r", seconds=40)
        unknown = await runs.store.answer("none", Allow(), by="jo")

    assert sorted(outcome.status for outcome in outcomes) == ["answered"] * 3 + ["used"]
    assert unknown.text == "There is no such request. Your answer was not used."
    kinds = [entry.kind for entry in runs.store.read("r")]
    assert kinds.count("answer") == 1


async def list_columns(runs: DurableRuns, table: str) -> list[str]:
    database = runs._database  # noqa: SLF001
    sqlite = "SELECT name FROM pragma_table_info(:name)"
    postgres = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(:name) AND attnum > 0"
    rows = await database.read(postgres if database.is_postgres else sqlite, name=table)
    return [name for (name,) in rows]


async def multiply(runs: DurableRuns, times: int) -> None:
    """Copy the run that waits, and its request."""
    database = runs._database  # noqa: SLF001  no program writes 100,000 requests
    numbers = (
        "(WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c "  # noqa: S608
        f"WHERE i < {times}) SELECT i FROM c) AS numbers"
    )
    for table, key in (("run", "id"), ("summary", "run"), ("question", "id")):
        values = {column: column for column in await list_columns(runs, f"handrail_{table}")}
        for name in {key, "run"} & values.keys():
            values[name] = f"{name} || '-' || i"
        values |= {"expires": "expires + i % 97"} if table == "question" else {}
        several = ", ".join(values.values())
        await database.write(
            f"INSERT INTO handrail_{table} SELECT {several} FROM handrail_{table}, {numbers}"  # noqa: S608
        )
    await database.write("ANALYZE")


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("times", [10, 100_000] if SOAK else [10])
async def test_a_page_takes_six_statements_at_most_however_many_requests_wait(
    database: str, times: int
) -> None:
    runs = DurableRuns(database, {"shop": make_agent(Approvers())}, poll=0.05)
    async with runs.work(interval=0.1, drain_seconds=5):
        await runs.start("shop", "Refund A1.", run_id="r")
        await waiting(open_runs(database).records())
    async with runs:
        await multiply(runs, times)
    taken: dict[str, int] = {}
    records: Any = open_runs(database).records()
    for name, page in PAGES.items():
        with counting("SELECT") as statements:
            page(records)
        taken[name] = len(statements)
    total = records.inbox().total
    if database.startswith("postgresql"):
        with pytest.raises(DatabaseError, match="read-only transaction"):
            records._database.read_now("DELETE FROM handrail_vote RETURNING 1", {})  # noqa: SLF001
    records.close()

    assert total == times + 1
    assert taken == {
        "inbox": 4,
        "second page of the inbox": 4,
        "receipt": 1,
        "runs": 3,
        "run": 6,
        "call": 3,
        "audit": 2,
        "rules": 1,
        "tokens": 1,
        "fleet": 5,
    }


async def test_tokens_are_divided_by_the_database_as_by_the_history(database: str) -> None:
    async def speak(request: Request) -> Reply:
        used = Usage(input_tokens=100, output_tokens=10, cached_tokens=7)
        reply = await model(request)
        again = tuple(replace(call, id=f"{call.id}-{n}") for call in reply.calls for n in range(3))
        return replace(reply, parts=again or reply.parts, usage=used)

    runs = DurableRuns(database, {"shop": Agent(speak, [refund])}, poll=0.05)
    async with runs.work(interval=0.1, drain_seconds=5):
        await runs.start("shop", "Refund A1.", run_id="r")
        await runs.wait("r", seconds=40)
    records = open_runs(database).records()
    found = records.tokens()
    records.close()
    async with runs:
        lines = [as_fields(entry) for entry in runs.store.read("r")]

    assert [(one.tool, one.calls, round(one.input, 6)) for one in found] == [
        ("", 0, 100.0),
        ("refund", 3, 100.0),
    ]
    for one, other in zip(found, share_tokens(read_history(lines)), strict=True):
        assert one._asdict() == pytest.approx(other._asdict())


async def test_a_statement_that_a_lost_connection_repeats_is_no_second_answer(sqlite: str) -> None:
    runs: Any = DurableRuns(sqlite, {"shop": make_agent(Approvers())}, poll=0.05)
    write = runs._questions._write  # noqa: SLF001

    async def repeat(sql: str, **values: Any) -> int:
        changed: int = await write(sql, **values)
        return await write(sql, **values) if sql.startswith("UPDATE") else changed

    async with runs.work(interval=0.1, drain_seconds=5):
        await runs.start("shop", "Refund A1.", run_id="r")
        await waiting(open_runs(sqlite).records())
    async with runs:
        runs._questions._write = repeat  # noqa: SLF001
        assert (await give(runs, "jo")).text == "Approved."
        assert (await give(runs, "jo")).status == "answered"


async def test_a_denial_that_comes_too_late_is_not_used(sqlite: str) -> None:
    runs: Any = DurableRuns(sqlite, {"shop": make_agent(Approvers())}, poll=0.05)
    async with runs.work(interval=0.1, drain_seconds=5):
        await runs.start("shop", "Refund A1.", run_id="r")
        await waiting(open_runs(sqlite).records())
    async with runs:
        await runs._database.write("UPDATE handrail_question SET expires = 1")  # noqa: SLF001
        outcome = await give(runs, "jo", Deny("no"))
        with pytest.raises(ValueError, match="Too late"):
            await runs.answer(WAITING[0], Deny("no"))

    assert (outcome.status, outcome.answer) == ("expired", None)


async def test_a_request_of_a_cancelled_run_takes_no_answer(database: str) -> None:
    runs = DurableRuns(database, {"shop": make_agent(Approvers())}, poll=0.05)
    async with runs.work(interval=0.1, drain_seconds=5):
        await runs.start("shop", "Refund A1.", run_id="r", principal="ana")
        assert await waiting(open_runs(database).records()) == WAITING
        await runs.cancel("r")
        outcome = await give(runs, "jo")

    assert (outcome.status, outcome.text) == (
        "ended",
        "The run has ended. Your answer was not used.",
    )


async def test_a_transaction_that_fails_changes_nothing(database: str) -> None:
    runs: Any = DurableRuns(database, {})
    vote = {"pending": "p", "voter": "jo", "at": 1.0, "via": "", "answer": "{}"}
    put = "INSERT INTO handrail_vote VALUES (:pending, :voter, :at, :via, :answer)"
    async with runs:
        for _ in range(2):  # the connection can be used again
            with pytest.raises(DatabaseError):
                await runs._database.transact([(put, [vote]), ("nonsense", [{}])], 0)  # noqa: SLF001
        rows = await runs._database.read("SELECT * FROM handrail_vote")  # noqa: SLF001

    assert rows == []


async def test_a_fleet_shows_who_works_and_what_waits(database: str) -> None:
    may = anyio.Event()

    async def slow(_request: Request) -> Reply:
        await may.wait()
        return Reply((Text("done"),))

    runs = DurableRuns(database, {"shop": Agent(slow)}, poll=0.05)
    records = open_runs(database).records()
    async with runs.work(slots=1, interval=0.1, drain_seconds=5) as worker:
        for number in range(2):
            await runs.start("shop", "Go.", run_id=f"r{number}")
        with anyio.fail_after(40):
            while not _is_busy(fleet := records.fleet()):  # noqa: ASYNC110
                await anyio.sleep(0.05)
        may.set()
        for number in range(2):
            await runs.wait(f"r{number}", seconds=40)

    assert fleet is not None
    assert [(row.id, row.version, row.running) for row in fleet.workers] == [(worker.id, "1", 1)]
    [queue] = fleet.queues
    assert (queue.running, queue.waiting) == (1, 1)
    assert queue.oldest is not None
    assert abs(queue.oldest - fleet.workers[0].began) < 600


def _is_busy(fleet: Fleet | None) -> bool:
    if fleet is None or [one.running for one in fleet.workers] != [1]:
        return False
    return [(one.running, one.waiting) for one in fleet.queues] == [(1, 1)]


async def test_the_journal_of_durable_runs_can_be_followed(database: str) -> None:
    seen: list[tuple[str, str]] = []
    async with DurableRuns(database, {"shop": make_agent(Approvers())}, poll=0.05) as runs:
        with anyio.fail_after(40):
            async with anyio.create_task_group() as group:

                async def write() -> None:
                    await runs.start("shop", "Refund A1.", run_id="r")

                group.start_soon(write)
                async for event in runs.store.follow(0):
                    seen.append((event.run, event.kind))
                    if len(seen) == 2:
                        break

    assert seen == [("r", "status"), ("r", "prompt")]
