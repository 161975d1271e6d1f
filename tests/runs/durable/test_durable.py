"""Runs that survive their process: started, watched, answered, cancelled, resumed, forked."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest
from anyio import to_thread
from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer

from handrail import (
    Allow,
    Approvals,
    Call,
    Context,
    Deny,
    Executor,
    HandrailError,
    Result,
    Text,
    Toolset,
    tool,
)
from handrail.agent import Agent, Limits
from handrail.messages import ModelError, Reply, Request, ToolResults
from handrail.permissions import Edit
from handrail.runs import open_runs
from handrail.runs._durable.rows import run_row, take_row
from handrail.runs.durable import DurableRun, DurableRuns, Unserializable
from handrail.testing import ScriptedModel
from runs.durable.shop import TURNS, Ledger, call_once, make_agent, make_model
from runs.durable.workers import Forks, Verdict, judge

LOST = (
    "Interrupted: the result of this call was lost. It may have taken effect: check before you "
    "call it again."
)
LARGE = ((("pay", {"amount": 500}),),)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


@asynccontextmanager
async def working(
    url: str, agent: Agent[Any], *, name: str = "shop", **options: Any
) -> AsyncGenerator[DurableRuns]:
    runs = DurableRuns(url, {name: agent}, poll=0.05, **options)
    async with runs.work(interval=0.1, drain_seconds=5):
        yield runs


async def until(done: Callable[[], Awaitable[object]]) -> None:
    with anyio.fail_after(40):
        while not await done():  # noqa: ASYNC110  what it waits for may be in another process
            await anyio.sleep(0.02)


async def ended(runs: DurableRuns, run: str) -> DurableRun:
    async def has_ended() -> bool:
        return (await runs.get(run)).status not in {"queued", "running", "waiting"}

    await until(has_ended)
    return await runs.get(run)


def texts(run: DurableRun) -> list[str]:
    messages: Any = () if run.state is None else run.state.messages
    turns = [message for message in messages if isinstance(message, ToolResults)]
    return [result.text for turn in turns for result in turn.results]


async def test_a_run_that_has_an_answer_does_not_wait_for_a_person(
    database: str, ledger: Ledger
) -> None:
    async with DurableRuns(database, {"shop": make_agent(ledger)}) as runs:
        run = await runs.start("shop", "Do it.", run_id="r")
        async with working(database, make_agent(ledger)):
            waiting = await runs.wait(run)
        [pending] = await runs.inbox()
        await runs.answer(pending.id, Allow(), by="bob")
        with pytest.raises(TimeoutError):  # no one works on it
            await runs.wait(run, seconds=0.1)
        async with working(database, make_agent(ledger)):
            done = await runs.wait(run)

    assert (waiting.status, done.status, done.text) == ("waiting", "done", "All done.")


async def test_a_run_waits_for_a_person_and_any_process_can_answer(
    database: str, ledger: Ledger
) -> None:
    async with working(database, make_agent(ledger)) as runs, DurableRuns(database, {}) as client:
        run = await runs.start("shop", "Do it.", run_id="r", principal="alice", metadata={"t": [1]})
        waiting = await runs.wait(run)
        [pending] = await client.inbox()
        before = ledger.count()
        await client.answer(pending.id, Allow(), by="bob")
        done = await ended(client, run)
        again = await runs.start("shop", "Do it.", run_id="r")

        assert (waiting.status, waiting.text, again) == ("waiting", "", "r")
        assert (pending.question, before["pay r/2/pay-0"]) == ("Pay 500?", 0)
        assert (done.agent, done.principal, done.reason) == ("shop", "alice", "answer")
        assert (done.text, await client.inbox()) == ("All done.", ())
        assert set(ledger.count().values()) == {1}
        assert len(ledger.count()) == sum(map(len, TURNS))
        with pytest.raises(ValueError, match=r"'r~2~pay-0~0': Already answered. bob approved it"):
            await client.answer(pending.id, Deny("no"))
        with pytest.raises(LookupError, match="There is no question 'x'"):
            await client.answer("x", Allow())
        with pytest.raises(LookupError, match="There is no run 'x'"):
            await client.get("x")
        with pytest.raises(LookupError, match=r"There is no agent 'x'\. There are shop"):
            await runs.start("x", "Do it.")


@pytest.mark.parametrize(
    ("answer", "text", "paid"),
    [
        (Deny("Not today."), "Not today.", 0),
        (Edit({"amount": 5}), "paid 5\n[Note: a person changed the arguments: amount=5.]", 1),
        (Result("pay-0", "Paid by hand."), "Paid by hand.", 0),
    ],
)
async def test_every_kind_of_answer_reaches_the_call(  # noqa: PLR0917
    sqlite: str, ledger: Ledger, answer: Any, text: str, paid: int
) -> None:
    async with working(sqlite, make_agent(ledger, make_model(LARGE))) as runs:
        run = await runs.start("shop", "Do it.")
        await runs.wait(run)
        [pending] = await runs.inbox()
        await runs.answer(pending.id, answer)
        done = await ended(runs, run)

    assert (texts(done), sum(ledger.count().values())) == ([text], paid)


async def test_a_recorded_answer_that_is_not_known_is_no_approval(
    sqlite: str, ledger: Ledger
) -> None:
    async with working(sqlite, make_agent(ledger, make_model(LARGE))) as runs:
        run = await runs.start("shop", "Do it.", run_id="r")
        await runs.wait(run)
        with closing(sqlite3.connect(sqlite, isolation_level=None)) as other:
            other.execute("UPDATE handrail_question SET answer = ?", ('{"allowed": true}',))
        with pytest.raises(ValueError, match="Already answered"):
            await runs.answer("r~1~pay-0~0", Allow())
        done = await ended(runs, run)

    assert (done.status, done.why) == ("failed", "ValueError: unknown answer")
    assert ledger.count() == {}


async def test_a_question_without_an_answer_is_denied_when_it_expires(
    database: str, ledger: Ledger
) -> None:
    agent = make_agent(ledger, make_model(LARGE), approvals=Approvals(timeout=0.3))
    async with working(database, agent) as runs:
        run = await runs.start("shop", "Do it.", run_id="r")
        done = await ended(runs, run)
        with pytest.raises(ValueError, match=r"Too late\. .* Your answer was not used\."):
            await runs.answer("r~1~pay-0~0", Allow())

    assert texts(done) == ["Not run: no one answered in time. Call again if it is still needed."]
    assert ledger.count() == {}


async def test_an_answer_that_comes_while_the_run_works_is_used_at_once(
    sqlite: str, ledger: Ledger
) -> None:
    ledger.pause = 0.3
    script = make_model(
        ((("pay", {"amount": 500}), ("look", {"place": "a"}), ("pay", {"amount": 600})),)
    )
    async with working(sqlite, make_agent(ledger, script)) as runs:
        run = await runs.start("shop", "Do it.", run_id="r")
        await runs.wait(run)
        first, second = await runs.inbox()
        await runs.answer(first.id, Allow())
        await until(lambda: has_paid(ledger, "pay r/1/pay-0"))
        await runs.answer(second.id, Allow())
        done = await ended(runs, run)

    assert texts(done) == ["paid 500", "saw a", "paid 600"]


async def test_a_living_worker_is_left_alone(forks: Forks, database: str, ledger: Ledger) -> None:
    forks.begin(ledger.path, database, "r", pause=0.3, drains=True)
    await until(lambda: has_paid(ledger, "look r/1/look-0"))
    async with working(database, make_agent(ledger)) as runs:
        await runs.start("shop", "Do it.", run_id="q")
        await until(lambda: is_waiting(runs, "q"))  # whichever worker took it
        await to_thread.run_sync(forks.end)  # this worker may have a part of its run

    assert (await judge(ledger.path, database, "r")).unknown == 0
    assert set(ledger.count().values()) == {1}


async def test_tools_get_the_objects_of_the_worker(sqlite: str) -> None:
    @tool
    async def greet(context: Context[str]) -> str:
        """Greet."""
        return f"{context.deps}, {context.principal}"

    agent = Agent(make_model(((("greet", {}),),)), [greet])
    async with working(sqlite, agent, deps={"shop": "Hello"}) as runs:
        done = await ended(runs, await runs.start("shop", "Do it.", principal="alice"))

    assert texts(done) == ["Hello, alice"]


async def test_a_sub_agent_can_wait_for_a_person_too(sqlite: str, ledger: Ledger) -> None:
    script = make_model(((("helper", {"task": "pay"}), ("pay", {"amount": 600})),))
    async with working(sqlite, make_agent(ledger, script, fee=700)) as runs:
        run = await runs.start("shop", "Do it.", run_id="r")
        await runs.wait(run)
        questions = {pending.question: pending.id for pending in await runs.inbox()}
        await runs.answer(questions["Pay 700?"], Allow())
        await until(lambda: has_paid(ledger, "pay r%2F1%2Fhelper-0/1/pay-0"))
        await until(lambda: is_waiting(runs, run))
        await runs.answer(questions["Pay 600?"], Deny("No."))
        done = await ended(runs, run)

    assert (texts(done), ledger.count()) == (
        ["All done.", "No."],
        {"pay r%2F1%2Fhelper-0/1/pay-0": 1},
    )


async def has_paid(ledger: Ledger, line: str) -> bool:
    return line in ledger.count()


async def is_waiting(runs: DurableRuns, run: str) -> bool:
    return (await runs.get(run)).status == "waiting"


@pytest.mark.parametrize(
    ("database", "name", "point", "unknown"),
    [
        ("sqlite", "pay", "call.intended", 1),
        ("sqlite", "pay", "call.ran", 1),
        ("postgres", "pay", "call.ran", 1),
        ("sqlite", "pay", "call.stored", 0),
        ("sqlite", "pay", "turn.recorded", 0),
        ("sqlite", "wire", "call.intended", 0),  # it can be settled, and runs again
        ("sqlite", "wire", "call.ran", 0),
        ("postgres", "wire", "call.ran", 0),
    ],
    indirect=["database"],
)
async def test_another_worker_continues_and_says_what_may_have_happened(  # noqa: PLR0913, PLR0917
    forks: Forks,
    database: str,
    ledger: Ledger,
    name: str,
    point: str,
    unknown: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert forks.run(ledger.path, database, "r", agent=name, crash=f"{point}:1")
    caplog.set_level(logging.WARNING, "handrail")
    agent = make_agent(ledger, call_once(name))
    async with working(database, agent, name=name) as runs:
        await ended(runs, "r")

    never = (name, point) == ("pay", "call.intended")
    assert await judge(ledger.path, database, "r") == Verdict((), (), unknown)
    assert caplog.text.count("may have taken effect") == unknown
    assert ledger.count() == ({} if never else {f"{name} r/1/{name}-0": 1})
    assert "died: 1 of its runs continue" in caplog.text


async def test_the_public_resume_of_the_engine_would_run_a_living_run_twice(
    sqlite: str, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    ledger.pause = 0.6
    script = make_model(((("pay", {"amount": 1}), ("pay", {"amount": 2})),))
    async with working(sqlite, make_agent(ledger, script)) as runs:
        run = await runs.start("shop", "Do it.", run_id="r")
        await until(lambda: has_paid(ledger, "pay r/1/pay-0"))
        client: Any = runs._engine.client  # noqa: SLF001  what our port leaves out
        resume = partial(client.resume_workflow, "r:0", queue_name="handrail agent shop")
        await to_thread.run_sync(resume)
        done = await ended(runs, run)

    assert "the call r/1/pay-0 may have taken effect" in caplog.text  # a second execution
    assert done.text == "All done."
    assert ledger.count() == {"pay r/1/pay-0": 1, "pay r/1/pay-1": 1}


async def test_a_long_run_is_a_chain_of_segments(database: str, ledger: Ledger) -> None:
    script = make_model(((("pay", {"amount": 1}),),) * 5)
    async with working(database, make_agent(ledger, script), segment_turns=2) as runs:
        done = await ended(runs, await runs.start("shop", "Do it.", run_id="r"))
        row = await runs._rows.find_run("r")  # noqa: SLF001  no user needs its number

    assert (done.text, texts(done), row and row.segment) == ("All done.", ["paid 1"] * 5, 2)
    assert set(ledger.count().values()) == {1}


async def test_a_worker_that_stops_lets_its_turns_end_and_others_continue(
    sqlite: str, ledger: Ledger
) -> None:
    ledger.pause = 0.2
    script = make_model(((("pay", {"amount": 1}),),) * 2)
    agent = make_agent(ledger, script)
    async with working(sqlite, agent) as runs:
        await runs.start("shop", "Do it.", run_id="r")
        await until(lambda: has_paid(ledger, "pay r/1/pay-0"))
    stopped = ledger.count()
    async with working(sqlite, agent) as runs:
        done = await ended(runs, "r")

    assert stopped == {"pay r/1/pay-0": 1}
    assert (texts(done), set(ledger.count().values())) == (["paid 1", "paid 1"], {1})


async def test_cancelling_a_run_reaches_its_tool(database: str) -> None:
    seen: list[str] = []

    @tool
    async def sleep() -> str:
        """Sleep."""
        seen.append("begun")
        try:
            await anyio.sleep(60)
        except BaseException:
            seen.append("cancelled")
            raise
        return ""

    async def has(what: str) -> bool:
        return what in seen

    async with working(database, Agent(make_model(((("sleep", {}),),)), [sleep])) as runs:
        run = await runs.start("shop", "Do it.")
        await until(partial(has, "begun"))
        cancelled = [await runs.cancel(run), await runs.cancel(run)]
        await until(partial(has, "cancelled"))
        after = await runs.get(run)

    assert (cancelled, after.status, texts(after)) == ([True, False], "cancelled", [LOST])


async def test_a_run_whose_model_fails_can_be_resumed(sqlite: str, ledger: Ledger) -> None:
    model, failures = make_model(((("pay", {"amount": 1}),),)), [ModelError("busy", "overloaded")]

    async def flaky(request: Request) -> Reply:
        if failures and isinstance(request.messages[-1], ToolResults):
            raise failures.pop()
        reply: Any = model(request)
        return await reply

    async with working(sqlite, make_agent(ledger, flaky)) as runs:
        run = await runs.start("shop", "Do it.", principal="alice")
        failed = await ended(runs, run)
        await runs.resume(run)
        done = await ended(runs, run)
        with pytest.raises(ValueError, match="has not failed: it is done"):
            await runs.resume(run)

    assert (failed.status, failed.reason, failed.why) == (
        "failed",
        "error",
        "ModelError: busy",
    )
    assert (done.status, done.text, set(ledger.count().values())) == ("done", "All done.", {1})


async def test_a_model_that_crashes_or_says_nothing_fails_the_run(
    sqlite: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(_request: Request) -> Reply:
        raise ZeroDivisionError("no")

    async def silent(_request: Request) -> AsyncGenerator[Any]:
        return
        yield

    async with working(sqlite, Agent(broken)) as runs:
        crashed = await ended(runs, await runs.start("shop", "Do it."))
    async with working(sqlite, Agent(silent)) as runs:
        empty = await ended(runs, await runs.start("shop", "Do it."))

    assert (crashed.status, crashed.why) == ("failed", "ZeroDivisionError: no")
    assert empty.why == "ModelError: The model's stream ended without a Reply."


async def test_a_run_is_forked_after_any_turn(sqlite: str, ledger: Ledger) -> None:
    script = make_model(((("pay", {"amount": 1}),), (("pay", {"amount": 2}),)))
    async with working(sqlite, make_agent(ledger, script)) as runs:
        run = await runs.start("shop", "Do it.", run_id="r")
        await ended(runs, run)
        other = await ended(runs, await runs.fork(run, turn=1, new_id="f"))
        whole = await ended(runs, await runs.fork(run, turn=3))
        with pytest.raises(ValueError, match="has 3 turns, so it cannot be forked after turn 4"):
            await runs.fork(run, turn=4)

    assert (texts(other), texts(whole)) == (["paid 1", "paid 2"], ["paid 1", "paid 2"])
    assert set(ledger.count()) == {"pay r/1/pay-0", "pay r/2/pay-0", "pay f/2/pay-0"}


async def standing_of(runs: DurableRuns, database: str) -> set[tuple[str, str]]:
    """Where the only run stands, by everyone who says so."""
    run, [listed] = await runs.get("r"), await runs.list()
    head, row = runs.store.head("r"), open_runs(database).records().run("r")
    assert head is not None
    assert row is not None
    return {(one.status, one.reason) for one in (run, listed, head, row)}


async def test_a_run_is_queued_until_a_worker_takes_it(database: str) -> None:
    failures: list[Exception] = [ModelError("busy")]
    begun, go = anyio.Event(), anyio.Event()

    async def model(_request: Request) -> Reply:
        begun.set()
        await go.wait()
        if failures:
            raise failures.pop()
        return Reply((Text("done"),))

    queued, running = {("queued", "")}, {("running", "")}
    seen: list[set[tuple[str, str]]] = []
    async with DurableRuns(database, {"a": Agent(model)}, poll=0.05) as runs:
        await runs.start("a", "Go.", run_id="r")
        for _ in range(2):
            seen.append(await standing_of(runs, database))
            begun, go = anyio.Event(), anyio.Event()
            async with runs.work(interval=60):
                await begun.wait()
                while (found := await standing_of(runs, database)) != running:  # noqa: ASYNC110
                    await anyio.sleep(0.02)  # until its worker writes it
                seen.append(found)
                go.set()
                await runs.wait("r")
            seen.append(await standing_of(runs, database))
            if len(seen) == 3:
                await runs.resume("r")
        await runs.start("a", "Go.", run_id="other")
        await runs.cancel("other")
        other = await runs.get("other")

    assert seen == [queued, running, {("failed", "error")}, queued, running, {("done", "answer")}]
    assert (other.status, other.reason) == ("cancelled", "")


async def test_a_worker_that_takes_a_run_too_late_does_not_change_its_end(
    sqlite: str, ledger: Ledger
) -> None:
    async with DurableRuns(sqlite, {"a": make_agent(ledger)}, poll=0.05) as runs:
        await runs.start("a", "Go.", run_id="r")
        late, noted = runs._rows.journal("r"), runs.store.head("r")  # noqa: SLF001
        await runs.cancel("r")
        await late.open(0, 0, 0, take_row("r"))
        await late.flush()
        run, head = await runs.get("r"), runs.store.head("r")

    assert noted is not None
    assert head is not None
    assert (noted.status, run.status, head.status) == ("queued", "cancelled", "cancelled")


async def test_runs_are_listed_and_removed(database: str, ledger: Ledger) -> None:
    async with working(database, make_agent(ledger)) as runs:
        done = await runs.start("shop", "Do it.", run_id="a")
        waiting = await runs.start("shop", "Do it.", run_id="b")
        await runs.wait(done)
        await runs.wait(waiting)
        with pytest.raises(ValueError, match="has not ended: it is waiting"):
            await runs.fork(done, turn=1)
        first = {pending.run_id: pending.id for pending in await runs.inbox()}
        await runs.answer(first["a"], Allow())
        await ended(runs, done)
        listed = [(run.id, run.status) for run in await runs.list()]
        only = [run.id for run in await runs.list("waiting")]
        removed = [await runs.prune(older_than=60), await runs.prune(older_than=-1)]

        assert (listed, only) == ([("b", "waiting"), ("a", "done")], ["b"])
        assert (removed, [run.id for run in await runs.list()]) == ([0, 1], ["b"])


async def test_what_json_cannot_represent_is_refused_with_its_place(
    sqlite: str, ledger: Ledger
) -> None:
    when = datetime.now(UTC)

    @tool
    async def stamp() -> Result:
        """Stamp."""
        return Result("x", "ok", metadata={"at": [when]})  # type: ignore[dict-item]

    async with working(sqlite, Agent(make_model(((("stamp", {}),),)), [stamp])) as runs:
        done = await ended(runs, await runs.start("shop", "Do it."))
        for value, place in [
            ({"a": [1, {"b": when}]}, r"metadata\.a\[1\]\.b is of type datetime"),
            ({"a": float("nan")}, r"metadata\.a is nan"),
            ({"a": {1: 2}}, r"metadata\.a has the key 1"),
        ]:
            with pytest.raises(Unserializable, match=place):
                await runs.start("shop", "Do it.", metadata=value)  # type: ignore[arg-type]

    [text] = texts(done)
    assert text.startswith(
        "The call ran, but its result cannot be recorded: metadata.at[0] is of type datetime, which"
    )


async def add_row(runs: DurableRuns, run: str) -> None:
    """Add a run that no segment belongs to, as no program does."""
    await runs._database.transact([run_row(run, "shop", None, metadata="{}", app="handrail")], 0)  # noqa: SLF001


async def test_a_run_that_the_engine_gave_up_has_failed(sqlite: str, ledger: Ledger) -> None:
    async with working(sqlite, make_agent(ledger)) as runs:
        await add_row(runs, "r")
        await runs._engine.start("r:0", "shop", "{")  # noqa: SLF001
        given_up = await runs.wait("r")
        await add_row(runs, "q")
        with pytest.raises(TimeoutError):
            await runs.wait("q", seconds=0.1)
        with anyio.fail_after(60):
            while not (failed := await runs.list("failed")):  # noqa: ASYNC110  a worker notes it
                await anyio.sleep(0.02)
        noted = await runs.get("r")

    assert (given_up.status, given_up.why) == ("failed", "The engine gave the run up.")
    assert (noted.status, noted.why) == ("failed", "The engine gave the run up.")
    assert [run.id for run in failed] == ["r"]


async def test_agents_that_cannot_run_durably_say_why(sqlite: str) -> None:
    own = Agent(make_model(()), Executor(Toolset()))
    hasty = Agent(make_model(()), limits=Limits(seconds=1))
    details = []
    for agent in (own, hasty):
        async with working(sqlite, agent) as runs:
            details.append((await ended(runs, await runs.start("shop", "Do it."))).why)

    assert details == [
        "TypeError: This Executor does not record its calls. Pass the tools to the Agent instead.",
        "ValueError: Limits(seconds=...): a durable run can wait for days. Limit turns or cost instead.",
    ]


async def test_a_program_that_uses_dbos_is_joined(sqlite: str, ledger: Ledger) -> None:
    config = DBOSConfig(
        name="handrail",
        system_database_url=f"sqlite:///{sqlite}",
        application_version="1",
        executor_id="host-1",
        serializer=DBOSPortableJSONSerializer(),
        log_level="ERROR",
    )
    DBOS(config=config)
    DBOS.launch()
    try:
        async with working(sqlite, make_agent(ledger, make_model(()))) as runs:
            joined = await ended(runs, await runs.start("shop", "Do it."))
        other = DurableRuns(sqlite, {}, version="2")
        with pytest.raises(HandrailError, match=r"already uses DBOS, .*\('handrail', '1'\)"):
            async with other.work():
                pass
        still = DBOS.executor_id
    finally:
        DBOS.destroy()

    assert (joined.text, still) == ("All done.", "host-1")


async def test_a_program_that_pickles_its_rows_is_not_joined(sqlite: str) -> None:
    config = DBOSConfig(
        name="handrail",
        system_database_url=f"sqlite:///{sqlite}",
        application_version="1",
        log_level="ERROR",
    )
    DBOS(config=config)
    DBOS.launch()
    try:
        with pytest.raises(HandrailError) as raised:
            async with DurableRuns(sqlite, {}).work():
                pass
    finally:
        DBOS.destroy()

    assert str(raised.value) == (
        "This process uses DBOS with rows that are not JSON, such as pickles, which run code when "
        "they are read. Give it `serializer=DBOSPortableJSONSerializer()`."
    )


async def test_two_workers_cannot_have_one_id(sqlite: str, ledger: Ledger) -> None:
    async with working(sqlite, make_agent(ledger)) as runs:
        with pytest.raises(HandrailError, match="Another worker has the id"):
            async with runs.work():
                pass


async def test_a_worker_that_lost_its_lock_takes_it_again(sqlite: str, ledger: Ledger) -> None:
    runs = DurableRuns(sqlite, {"shop": make_agent(ledger)})
    async with runs.work(interval=0.02) as worker:
        path = Path(f"{sqlite}.workers") / worker.id
        other = path.with_name("other")
        file = os.open(other, os.O_RDWR | os.O_CREAT)
        fcntl.flock(file, fcntl.LOCK_EX)
        other.replace(path)  # as a worker that takes this one for dead
        seen = [worker._worker._seen_at]  # noqa: SLF001  the time of its last look

        async def has_looked() -> bool:
            seen.append(worker._worker._seen_at)  # noqa: SLF001
            return len(set(seen)) > 4

        async def is_taken() -> bool:
            with path.open("rb") as again:
                try:
                    fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return True
            return False

        await until(has_looked)
        os.close(file)
        await until(is_taken)
        listed = await runs._rows.workers_of("1")  # noqa: SLF001
    async with runs.work(interval=60) as last:
        await until(lambda: ready(last))
        (path.parent / last.id).unlink()

    assert listed == [worker.id]


async def test_a_result_that_another_worker_recorded_is_used(sqlite: str, ledger: Ledger) -> None:
    script = make_model(((("pay", {"amount": 1}),),) * 2)
    async with working(sqlite, make_agent(ledger, script)) as runs:
        row = "INSERT INTO handrail_call VALUES ('r/2/pay-0', 'r', '2', 'pay-0', 'pay', '{}', 0, :r, NULL)"
        result = Result("pay-0", "paid elsewhere").to_json()
        await runs._database.write(row, r=result)  # noqa: SLF001  a worker that was taken for dead
        done = await ended(runs, await runs.start("shop", "Do it.", run_id="r"))

    assert (texts(done), ledger.count()) == (["paid 1", "paid elsewhere"], {"pay r/1/pay-0": 1})


async def test_a_worker_raises_what_its_block_raises(sqlite: str, ledger: Ledger) -> None:
    with pytest.raises(ZeroDivisionError):
        async with working(sqlite, make_agent(ledger)):
            raise ZeroDivisionError


def cut_connections(url: str) -> None:
    with psycopg.connect(url.rpartition("/")[0] + "/postgres", autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
            [url.rpartition("/")[2]],
        )


async def test_lost_connections_are_opened_again(
    copy_postgres: Callable[[], str], ledger: Ledger
) -> None:
    url = copy_postgres()
    async with working(url, make_agent(ledger)) as runs:
        run = await runs.start("shop", "Do it.", run_id="r")
        await runs.wait(run)
        cut_connections(url)
        [pending] = await runs.inbox()
        await runs.answer(pending.id, Allow())
        done = await ended(runs, run)

    async with DurableRuns(url, {}) as client:
        before = await client.list()
        cut_connections(url)
        after = await client.list()

    assert (done.text, set(ledger.count().values())) == ("All done.", {1})
    assert (len(after), after) == (1, before)


async def test_a_caller_that_goes_away_leaves_no_harm(sqlite: str, ledger: Ledger) -> None:
    async with DurableRuns(sqlite, {"shop": make_agent(ledger)}) as runs:
        many = [asyncio.create_task(runs.list()) for _ in range(8)]
        await anyio.lowlevel.checkpoint()  # all have begun
        for one in many:
            one.cancel()  # as asyncio does, which no scope holds back
        left = await asyncio.gather(*many, return_exceptions=True)
        listed = await runs.list()

    assert ([type(one) for one in left], listed) == ([asyncio.CancelledError] * 8, ())


async def test_a_worker_that_cannot_read_says_so_and_goes_on(
    sqlite: str, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    runs = DurableRuns(sqlite, {"shop": make_agent(ledger)})
    async with runs.work(interval=0.02) as worker:
        change = runs._database.write  # noqa: SLF001  a table that someone removes
        await until(lambda: ready(worker))
        await change("ALTER TABLE handrail_worker RENAME TO gone")
        await until(lambda: says(caplog, "could not read the database"))
        await change("ALTER TABLE gone RENAME TO handrail_worker")
        name = worker.id

    assert (name.count("-") >= 2, worker.is_ready) == (True, False)


async def ready(worker: Any) -> bool:
    return bool(worker.is_ready)


async def says(caplog: pytest.LogCaptureFixture, text: str) -> bool:
    return text in caplog.text


async def test_runs_that_are_not_open_and_other_databases_say_what_to_do(tmp_path: Path) -> None:
    runs = DurableRuns(str(tmp_path / "runs.db"), {"a": Agent(make_model(()))})
    with pytest.raises(ValueError, match="mysql: durable runs are kept in a SQLite file"):
        DurableRuns("mysql://x", {})
    async with runs:
        await runs.start("a", "Do it.", run_id="r")
    with pytest.raises(RuntimeError, match=r"not open\. Use `async with runs:`"):
        await runs.start("a", "Do it.", run_id="q")


async def test_a_durable_run_has_the_typed_answer(sqlite: str) -> None:
    def make(*answers: str) -> Agent[Any]:
        steps = [Call("final_answer", f'{{"answer": {text}}}', "f") for text in answers]
        return Agent(ScriptedModel(*steps, stream=False), Toolset(), output=dict[str, int])

    async with working(sqlite, make('{"n": "x"}', '{"n": 4}')) as runs:
        run = await runs.start("shop", "Count.")
        done, [listed] = await ended(runs, run), await runs.list()
        async with DurableRuns(sqlite, {}) as client:
            elsewhere = await client.get(run)

    assert (done.text, done.output, listed.output, elsewhere.output) == ("", {"n": 4}, None, None)


async def test_a_run_without_an_answer_has_no_output(sqlite: str) -> None:
    steps = [Call("final_answer", "{}", f"f{n}") for n in range(9)]
    agent = Agent(ScriptedModel(*steps, stream=False), Toolset(), output=dict[str, int])
    async with working(sqlite, agent) as runs:
        done = await ended(runs, await runs.start("shop", "Count."))

    assert (done.reason, done.output) == ("invalid", None)


@pytest.mark.parametrize("name", ["n1", "Shop", "a shop", "", "x" * 257])
def test_a_name_that_the_engine_does_not_accept_is_refused(sqlite: str, name: str) -> None:
    with pytest.raises(ValueError, match="must be 3 to 256 lower case letters, digits, dashes"):
        DurableRuns(sqlite, {}, name=name)
