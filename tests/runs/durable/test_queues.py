"""Calls of some tools run on queues: on any worker, within limits, and once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from handrail import READ, WRITE, Access, Allow, Ask, Call, CheckedCall, Context, Text, tool
from handrail.agent import Agent
from handrail.messages import Reply, Request, ToolResults
from handrail.runs import open_runs
from handrail.runs.durable import CallQueue, DurableRun, DurableRuns
from handrail.runs.wording import describe_wait
from runs.durable.statements import counting


class Office:
    """Tools that note when they run, and for whom."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.now = 0
        self.most = 0
        self.seen: list[str] = []
        self.stopped = 0
        self.opened = anyio.Event()
        """Until then, tools wait."""
        if is_open:
            self.opened.set()

    async def act(self, line: str) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        self.seen.append(line)
        try:
            await self.opened.wait()
        except BaseException:
            self.stopped += 1
            raise
        finally:
            self.now -= 1

    def agent(self, *calls: tuple[str, dict[str, Any]], **options: Any) -> Agent[str]:
        @tool(effect=READ, tags=["slow"])
        async def look(place: int, context: Context[Any]) -> str:
            """Look."""
            await self.act(f"look {context.idempotency_key}")
            return f"saw {place} for {context.principal} with {context.deps}"

        @tool(effect=WRITE, touches=lambda place: Access(WRITE, f"box:{place}"))
        async def mail(place: int, context: Context[Any]) -> str:
            """Mail."""
            await self.act(f"mail {context.idempotency_key}")
            return f"mailed {place}"

        async def model(request: Request) -> Reply:
            if any(isinstance(message, ToolResults) for message in request.messages):
                return Reply((Text("done"),))
            return Reply(tuple(Call(name, args, f"{n}") for n, (name, args) in enumerate(calls)))

        return Agent(model, [look, mail], **options)


@asynccontextmanager
async def working(
    url: str, agent: Agent[Any], queues: dict[str, CallQueue], **options: Any
) -> AsyncGenerator[DurableRuns]:
    runs = DurableRuns(url, {"a": agent}, poll=0.05, queues=queues, **options)
    async with runs.work(interval=0.1, drain_seconds=5):
        yield runs


async def until(done: Callable[[], bool]) -> None:
    with anyio.fail_after(40):
        while not done():  # noqa: ASYNC110  tools of the worker, threads of the engine
            await anyio.sleep(0.02)


def texts(run: DurableRun) -> list[str]:
    messages: Any = () if run.state is None else run.state.messages
    turns = [message for message in messages if isinstance(message, ToolResults)]
    return [result.text for turn in turns for result in turn.results]


FOUR = [("mail", {"place": n}) for n in range(4)]


@pytest.mark.parametrize(
    ("limits", "most"),
    [
        ({}, 4),
        ({"per_worker": 1}, 1),
        ({"in_all": 2}, 2),
        ({"per_tenant": 1}, 1),
    ],
)
async def test_the_calls_of_a_queue_run_within_its_limits(
    sqlite: str, limits: dict[str, Any], most: int
) -> None:
    office = Office(is_open=False)
    queues = {"post": CallQueue(tools=["mail"], **limits)}
    with counting("handrail call post") as looks:
        async with working(sqlite, office.agent(*FOUR), queues) as runs:
            run = await runs.start("a", "Go.", run_id="r", principal="alice")
            await until(lambda: office.now >= most)
            seen = len(looks)
            await until(lambda: len(looks) > seen + 10)  # the queue gives out no other call
            office.opened.set()
            done = await runs.wait(run)

    assert texts(done) == [f"mailed {n}" for n in range(4)]
    assert sorted(office.seen) == [f"mail r/1/{n}" for n in range(4)]
    assert office.most == most


async def test_a_rate_holds_over_any_window(sqlite: str) -> None:
    office = Office()
    queues = {"post": CallQueue(tools=["mail"], rate=(2, 0.5))}
    async with working(sqlite, office.agent(*FOUR), queues) as runs:
        await runs.wait(await runs.start("a", "Go."))

        table = "SELECT started_at_epoch_ms FROM workflow_status WHERE name = 'handrail.call'"
        began = sorted(row[0] for row in await runs._database.read(table))  # noqa: SLF001

    assert len(began) == 4
    assert began[2] - began[0] >= 500
    assert began[3] - began[1] >= 500


async def test_tags_choose_calls_and_everything_else_runs_at_once(sqlite: str) -> None:
    office = Office()
    agent = office.agent(("look", {"place": 1}), ("mail", {"place": 2}))
    queues = {"slow": CallQueue(tags=["slow"])}
    async with working(sqlite, agent, queues, deps={"a": "glasses"}) as runs:
        done = await runs.wait(await runs.start("a", "Go.", run_id="r", principal="bob"))
        queued = await runs._engine.find("r/1/0"), await runs._engine.find("r/1/1")  # noqa: SLF001
        removed = await runs.prune(older_than=-1)
        left = await runs._engine.find("r/1/0")  # noqa: SLF001

    assert texts(done) == ["saw 1 for bob with glasses", "mailed 2"]
    assert (queued, removed, left) == (("done", None), 1, None)


async def test_a_call_on_a_queue_that_began_before_a_crash_does_not_run_again(sqlite: str) -> None:
    office = Office()
    queues = {"post": CallQueue(tools=["mail"])}
    async with working(sqlite, office.agent(("mail", {"place": 1})), queues) as runs:
        row = (
            "INSERT INTO handrail_call VALUES (:key, 'r', :turn, '0', 'mail', '{}', 0, NULL, NULL)"
        )
        await runs._database.write(row, key="r/1/0", turn="queued r/1/0")  # noqa: SLF001  a crash
        done = await runs.wait(await runs.start("a", "Go.", run_id="r"))

    assert "may have taken effect" in texts(done)[0]
    assert office.seen == []


async def test_cancelling_a_run_reaches_its_call_on_a_queue(database: str) -> None:
    office = Office(is_open=False)
    queues = {"post": CallQueue(tools=["mail"])}
    async with working(database, office.agent(("mail", {"place": 1})), queues) as runs:
        run = await runs.start("a", "Go.")
        await until(lambda: office.now > 0)
        await runs.cancel(run)
        await until(lambda: office.stopped > 0)
        after = await runs.get(run)

    assert (after.status, office.stopped) == ("cancelled", 1)


def policy(call: CheckedCall) -> Allow | Ask:
    return Ask("Mail?")


async def test_a_call_that_needs_approval_goes_to_its_queue_after_the_answer(sqlite: str) -> None:
    office = Office()
    queues = {"post": CallQueue(tools=["mail"])}
    agent = office.agent(("mail", {"place": 1}), policy=policy)
    async with working(sqlite, agent, queues) as runs:
        run = await runs.start("a", "Go.", run_id="r")
        await runs.wait(run)
        before = list(office.seen)
        [pending] = await runs.inbox()
        await runs.answer(pending.id, Allow())
        with anyio.fail_after(30):
            while (await runs.get(run)).status != "done":  # noqa: ASYNC110
                await anyio.sleep(0.02)

    assert (before, office.seen) == ([], ["mail r/1/0"])


async def test_a_call_that_the_engine_gave_up_is_unknown(sqlite: str) -> None:
    office = Office(is_open=False)
    agent = office.agent(("mail", {"place": 1}))
    async with working(sqlite, agent, {"post": CallQueue(tools=["mail"])}) as runs:
        run = await runs.start("a", "Go.", run_id="r")
        await until(lambda: office.now > 0)
        await runs._engine.cancel("r/1/0")  # noqa: SLF001  what only an operator can do
        done = await runs.wait(run)
        office.opened.set()

    assert "may have taken effect" in texts(done)[0]


async def test_a_call_on_a_queue_cannot_wait_for_a_person(sqlite: str) -> None:
    office = Office()
    inner = office.agent(("mail", {"place": 1}), policy=policy)
    helper = inner.as_tool("helper", "Does small tasks.")

    async def model(request: Request) -> Reply:
        if any(isinstance(message, ToolResults) for message in request.messages):
            return Reply((Text("done"),))
        return Reply((Call("helper", {"task": "mail"}, "0"),))

    queues = {"post": CallQueue(tools=["helper"])}
    async with working(sqlite, Agent(model, [helper]), queues) as runs:
        done = await runs.wait(await runs.start("a", "Go."))

    assert (texts(done), office.seen) == (["done"], [])  # the sub-agent's call was denied


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"in_all": 1}, "the queue post"),
        ({"rate": (1, 1.0)}, "the queue post, which limits the rate"),
    ],
)
async def test_the_journal_says_how_long_a_call_waited_on_a_queue(
    sqlite: str, limits: dict[str, Any], words: str
) -> None:
    office = Office()
    queues = {"post": CallQueue(tools=["mail"], **limits)}
    async with working(sqlite, office.agent(*FOUR[:2]), queues) as runs:
        await runs.wait(await runs.start("a", "Go.", run_id="r"))

    records = open_runs(sqlite).records()
    calls = [row.history for row in records.calls("r").rows if row.history]
    records.close()

    assert [[span.phase for span in call.spans] for call in calls] == [["waiting", "running"]] * 2
    assert all(span.closed for call in calls for span in call.spans)
    told = [describe_wait(call.spans[0], {}) for call in calls]
    assert [one.split(" for ", 1)[1] for one in told] == [words, words]
    assert all(call.spans[0].end == call.spans[1].start for call in calls)
