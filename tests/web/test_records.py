"""What a chat's runs leave behind: for the next process, for commands, and for answers from elsewhere."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from cli_harness import Handrail, made
from handrail import READ, Allow, Call, Text, tool
from handrail.agent import Agent
from handrail.approvals import defer
from handrail.messages import Prompt, Reply, Request, StreamItem
from handrail.runs import RunStore, open_runs
from handrail.runs.chain import verify
from handrail.runs.journal import JournalLine
from handrail.runs.record import RunRecord
from handrail.runs.statuses import CANCELLED
from handrail.web import ChatApp
from handrail.web.conversations import ConversationBusy, Conversations
from runs.durable.statements import counting, watching
from web.chats import ORIGIN, as_person, client_of, identify, post_chat, text_of
from web.paying_program import make_app

PROGRAM = Path(__file__).parent / "paying_program.py"


@pytest.fixture
def handrail(tmp_path: Path) -> Handrail:
    return made(tmp_path)


@pytest.fixture
def store(sqlite: str) -> Generator[RunStore]:
    with open_runs(sqlite) as opened:
        yield opened


@contextmanager
def paying(database: str, folder: Path, *words: str) -> Generator[httpx2.Client]:
    """A web process of its own, killed at the end, however far it is."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, PROGRAM, database, folder, str(port), *words]
    path = {**os.environ, "PYTHONPATH": str(PROGRAM.parents[1])}
    process = subprocess.Popen(list(map(str, command)), env=path)  # noqa: S603
    transport = httpx2.HTTPTransport(retries=100)
    url, headers = f"http://127.0.0.1:{port}", as_person("ada")
    try:
        with httpx2.Client(
            base_url=url, headers=headers, timeout=30, transport=transport
        ) as client:
            until(lambda: is_open(port) or process.poll() is not None)
            yield client
            process.kill()
    finally:
        process.kill()
        process.wait()


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def until(check: Any) -> None:
    while not check():
        time.sleep(0.02)


def say(client: httpx2.Client, text: str, *, to: str) -> str:
    """Send a message, and read until a text comes. Returns the run."""
    with client.stream("POST", "/chat", json={"text": text, "conversation": "k"}) as response:
        run = ""
        for line in response.iter_lines():
            if not run and line.startswith("data: "):
                run = line.rpartition('"run":"')[2].partition('"')[0]
            if to in line:
                break
    return run


def let_claims_lapse(store: RunStore) -> None:
    """As a minute later."""
    sql = "UPDATE handrail_conversation SET lease = 1 WHERE lease > 0"
    store.database.transact_now([(sql, [{}])], 0)


@asynccontextmanager
async def next_process(database: str, folder: Path) -> AsyncGenerator[httpx2.AsyncClient]:
    async with client_of(make_app(database, folder)) as client:
        yield client


async def ask_what_happened(database: str, folder: Path) -> str:
    async with next_process(database, folder) as client:
        return text_of(await post_chat(client, {"text": "And?", "conversation": "k"}))


@pytest.mark.parametrize(("words", "told"), [((), "unknown"), (("forgetful",), "nothing")])
def test_a_payment_that_a_crash_interrupted_is_unknown(
    store: RunStore, tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    """A process that writes nothing before it pays is the control."""
    database = str(store.path)
    with paying(database, tmp_path, *words) as client:
        say(client, "pay 5", to="event: reply")
        until((tmp_path / "paid").exists)
    let_claims_lapse(store)

    assert anyio.run(ask_what_happened, database, tmp_path) == told


def test_an_approved_payment_that_a_crash_interrupted_is_unknown(
    store: RunStore, sqlite: str, tmp_path: Path, handrail: Handrail
) -> None:
    with paying(sqlite, tmp_path) as client:
        run = say(client, "pay 500", to="waiting")
        waiting = handrail("runs", "show", run, "--database", sqlite)
        approved = handrail("runs", "approve", run, "--all", "--database", sqlite)
        until((tmp_path / "paid").exists)
        paid = handrail("runs", "show", run, "--database", sqlite, "--output", "json").json
    dead = handrail("runs", "list", "--database", sqlite, "--output", "json").json
    let_claims_lapse(store)
    told = anyio.run(ask_what_happened, sqlite, tmp_path)
    shown = handrail("runs", "show", run, "--database", sqlite, "--output", "json").json

    assert (waiting.exit, approved.exit) == (0, 0), waiting.err + approved.err
    assert waiting.err.endswith(f"or `handrail runs deny {run} --database {sqlite}`\n")
    assert "the web application continues the run" in approved.err
    assert (paid["status"], paid["command"], paid["prompt"]) == ("running", "web", "pay 500")
    assert [one["status"] for one in dead["runs"]] == ["running"]  # until its claim lapses
    assert (told, (tmp_path / "paid").read_text(encoding="utf-8")) == ("unknown", "500\n")
    assert (shown["status"], shown["reason"], shown["why"]) == (
        "failed",
        "error",
        "its process died",
    )
    assert [call["tool"] for turn in shown["turns"] for call in turn["calls"]] == ["pay"]


async def wait_until_free(client: httpx2.AsyncClient) -> dict[str, Any]:
    while True:
        shown: dict[str, Any] = (await client.get("/conversations/k")).json()
        if shown["state"] == "free":
            return shown
        await anyio.sleep(0.02)


@pytest.mark.parametrize("is_watched", [True, False])
async def test_an_answer_from_another_process_continues_a_chat(
    database: str, tmp_path: Path, *, is_watched: bool
) -> None:
    """Also if no process was there when it came: a later one continues."""
    (tmp_path / "go").touch()
    store = open_runs(database)
    async with next_process(database, tmp_path) as client:
        body = {"text": "pay 500", "conversation": "k"}
        async with client.stream("POST", "/chat", json=body) as response:
            async for line in response.aiter_lines():
                if "waiting" in line:
                    [waiting] = store.requests()
                    if not is_watched:
                        break
                    await store.answer(waiting.pending.id, Allow(), by="boss")
    if not is_watched:
        await store.answer(waiting.pending.id, Allow(), by="boss")
    async with next_process(database, tmp_path) as client:
        await client.get("/readyz")
        with anyio.fail_after(20):
            while store.runs()[0].status != "done":  # noqa: ASYNC110  another process does it
                await anyio.sleep(0.02)
            shown = await wait_until_free(client)

    assert [one["text"] for one in shown["messages"] if "text" in one][-1] == "paid 500"
    assert (tmp_path / "paid").read_text(encoding="utf-8") == "500\n"


def test_commands_stop_and_remove_the_runs_of_chats(
    sqlite: str, tmp_path: Path, handrail: Handrail
) -> None:
    found: list[Any] = []
    steps = [
        ("pay 5", "event: reply", "resume fork cancel"),
        ("pay 500", '"waiting"', "cancel"),
        ("pay 500", '"waiting"', "prune"),
    ]
    with paying(sqlite, tmp_path) as client:
        for text, mark, words in steps:
            run = say(client, text, to=mark)
            until(lambda run=run: handrail("runs", "show", run, "--database", sqlite).exit == 0)
            for word in words.split():
                done = handrail("runs", word, run, "--database", sqlite)
                found.append((word, done.exit, done.err.partition(run)[0]))
            until(lambda: client.get("/conversations/k").json()["state"] == "free")
        shown = client.get("/conversations/k").json()

    results = [one["results"][0]["failure"] for one in shown["messages"] if one["role"] == "tool"]
    assert found == [
        ("resume", 2, "handrail: cannot resume run "),
        ("fork", 2, "handrail: cannot fork run "),
        ("cancel", 0, "waiting for the process that works on it\n"),
        ("cancel", 0, ""),
        ("prune", 0, ""),
    ]
    assert results == ["unknown", "cancelled"]


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_a_cancelled_run_asks_no_one_what_it_would_do_next(
    database: str, *, is_cancelled: bool
) -> None:
    began, go = anyio.Event(), anyio.Event()

    @tool(effect=READ)
    async def look() -> str:
        """Look."""
        began.set()
        await go.wait()
        return "seen"

    @tool(needs_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    async def model(request: Request) -> AsyncIterator[StreamItem]:
        turn = sum(isinstance(one, Reply) for one in request.messages)
        yield Reply((Call(("look", "pay")[turn], {}, f"c{turn}"),))

    agent = Agent(model, [look, pay], approvals=defer)
    app, store = ChatApp(agent, identify, origins=[ORIGIN], database=database), open_runs(database)
    async with client_of(app) as client:
        body = {"text": "Go.", "conversation": "k"}
        async with client.stream("POST", "/chat", json=body) as response:
            await began.wait()
            if is_cancelled:
                [run] = [one.run for one in store.runs()]
                RunRecord(store, run).set_status(**CANCELLED._asdict())
            go.set()
            async for line in response.aiter_lines():
                if "waiting" in line or "event: end" in line:
                    break
        asked = [one.pending.call.name for one in store.requests()]
        status = [one.status for one in store.runs()]

    assert (asked, status) == (([], ["cancelled"]) if is_cancelled else (["pay"], ["waiting"]))


async def ask_or_end(client: httpx2.AsyncClient, conversation: str) -> None:
    """Send a message, and read until the run asks or ends."""
    body = {"text": "Go.", "conversation": conversation}
    async with client.stream("POST", "/chat", json=body) as response:
        async for line in response.aiter_lines():
            if "waiting" in line or "event: end" in line:
                break


@pytest.mark.parametrize("by", ["a command", "its user"])
async def test_a_run_cancelled_while_its_question_is_written_asks_no_one(
    database: str, by: str
) -> None:
    """Between a look at the run and each write in turn; the last turn is after all writes."""
    other, found = open_runs(database), list[tuple[bool, list[str], list[str]]]()
    writes, at, cancelled = count(), 0, list[str]()

    def clock() -> float:
        if next(writes) == at and (runs := other.runs()):
            cancelled.append(runs[0].run)
            if by == "a command":
                RunRecord(other, runs[0].run).set_status(**CANCELLED._asdict())
            else:
                anyio.from_thread.run(partial(client.post, f"/conversations/{at}/cancel", json={}))
        return time.time()

    @tool(needs_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    async def model(request: Request) -> AsyncIterator[StreamItem]:
        yield Reply((Call("pay", {}, "c1"),))

    agent = Agent(model, [pay], approvals=defer)
    store = open_runs(database, clock=clock)
    async with client_of(ChatApp(agent, identify, origins=[ORIGIN], database=store)) as client:
        for at in range(4):
            writes = count()
            cancelled.clear()
            await ask_or_end(client, str(at))
            asked = [one.pending.call.name for one in store.requests()]
            found.append((bool(cancelled), asked, [store.runs()[0].status]))
            await client.post(f"/conversations/{at}/cancel", json={})

    assert found == [
        (False, ["pay"], ["waiting"]),
        (True, [], ["cancelled"]),
        (True, [], ["cancelled"]),
        (False, ["pay"], ["waiting"]),
    ]


@pytest.mark.parametrize("is_erased", [True, False])
async def test_a_run_under_way_writes_nothing_about_an_erased_person(
    database: str, *, is_erased: bool
) -> None:
    began, go = anyio.Event(), anyio.Event()

    @tool(effect=READ)
    async def look() -> str:
        """Look."""
        began.set()
        await go.wait()
        return "a secret"

    async def model(request: Request) -> AsyncIterator[StreamItem]:
        turn = sum(isinstance(one, Reply) for one in request.messages)
        yield Reply((Text("Seen."),) if turn else (Call("look", {}, "c1"),))

    app = ChatApp(Agent(model, [look]), identify, origins=[ORIGIN], database=database)
    store = open_runs(database)
    async with client_of(app) as client:
        body = {"text": "My secret.", "conversation": "k"}
        async with client.stream("POST", "/chat", json=body) as response:
            await began.wait()
            if is_erased:
                await Conversations(store).erase("ada")
            go.set()
            events = [line async for line in response.aiter_lines() if line.startswith("event")]

    assert events[-1] == "event: end"
    assert [one.status for one in store.runs()] == ([] if is_erased else ["done"])
    assert list(store.names()) == [one.run for one in store.runs()]


@pytest.mark.parametrize("change", ["none", "written", "removed"])
async def test_a_chat_ends_as_another_process_left_its_run(database: str, change: str) -> None:
    """100 other runs make the web process forget this one."""
    store, other = open_runs(database), open_runs(database)
    line = JournalLine.of("note", text="Beside.")

    @tool(effect=READ)
    def look() -> str:
        """Look."""
        [run] = [one.run for one in store.runs()]
        if change == "removed":
            for number in range(100):
                store.append(f"r{number}", [line])
            other.remove(run)
        elif change == "written":
            other.append(run, [line])
        return "a thing"

    async def model(request: Request) -> AsyncIterator[StreamItem]:
        turn = sum(isinstance(one, Reply) for one in request.messages)
        yield Reply((Text("Seen."),) if turn else (Call("look", {}, "c1"),))

    app = ChatApp(Agent(model, [look]), identify, origins=[ORIGIN], database=store)
    async with client_of(app) as client:
        await post_chat(client, {"text": "Look.", "conversation": "k"})
    saved = await Conversations(store).get("ada", "k")
    runs = [one for one in other.runs() if not one.run.startswith("r")]

    assert saved.head.lease == 0
    assert [one.status for one in runs] == ([] if change == "removed" else ["done"])
    assert [verify(other, one.run) for one in runs] == [None] * len(runs)
    kinds = [[one.kind for one in other.read(run.run)].count("note") for run in runs]
    assert kinds == {"none": [0], "written": [1], "removed": []}[change]


async def test_a_short_answer_is_two_transactions(sqlite: str) -> None:
    with watching(), counting("COMMIT") as commits, counting("s.unfinished") as reads:
        app = ChatApp(Agent(say_hello), identify, origins=[ORIGIN], database=sqlite)
        async with client_of(app) as client:
            await post_chat(client, {"text": "First."})
            before = len(commits)
            await post_chat(client, {"text": "Second."})

    assert (len(commits) - before, len(reads)) == (2, 0)


async def say_hello(request: Request) -> Reply:
    return Reply((Text("Hello."),))


async def test_old_runs_of_chats_are_pruned_with_their_conversations(
    database: str, tmp_path: Path
) -> None:
    async with next_process(database, tmp_path) as client:
        await post_chat(client, {"text": "hello", "conversation": "k"})
        async with client.stream("POST", "/chat", json={"text": "pay 500"}) as response:
            async for line in response.aiter_lines():
                if "waiting" in line:
                    break
    store = Conversations(database)
    before = [one.status for one in store.store.runs()]
    removed = await store.prune(older_than=-1)

    assert (before, removed) == (["waiting", "done"], 1)
    assert [one.status for one in store.store.runs()] == ["waiting"]


async def test_one_of_two_processes_takes_a_waiting_run(database: str) -> None:
    """Also at the same instant."""
    first, second = (Conversations(database, clock=lambda: 1_000.0) for _ in range(2))
    head = await first.claim(await first.create("ada", "k"), "r1", Prompt.of("hi"))
    head = await first.park(head)
    mine = await first.renew(head)
    with pytest.raises(ConversationBusy):
        await second.renew(head)

    assert await second.head("ada", "k") == mine
