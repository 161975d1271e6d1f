"""`handrail runs ...` over durable runs: the same commands, read from the journal of the workers."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from anyio import to_thread

from cli_harness import Handrail, Ran, Schemas, made
from handrail import READ, Allow, Ask, Call, CheckedCall, Decision, Text, tool
from handrail.agent import Agent
from handrail.messages import Delta, ModelError, Reply, Request, StreamItem
from handrail.runs import open_runs, verify
from handrail.runs.durable import DurableRuns
from replying import Way
from virtual_time import Quick

TOOLS = """
from handrail import READ, tool


@tool(effect=READ)
def look(order: str) -> str:
    "Look at an order."


@tool
def refund(order: str, amount: int) -> str:
    "Refund an order."
"""


class Shop:
    """An agent that refunds an order, in a database that commands read too."""

    def __init__(self, database: str, folder: Path, way: Way = "whole") -> None:
        self.database = database
        self.way = way
        self.handrail: Handrail = made(folder)
        self.refunded: list[str] = []
        self.is_away = True

    def __call__(self, *arguments: str) -> Ran:
        return self.handrail("runs", *arguments, "--database", self.database)

    def work(self, *awaited: str, start: str = "", prompt: str = "refund") -> None:
        """Start a run, and work until it waits; or until some runs have ended."""

        async def inside(runs: DurableRuns) -> None:
            if start:
                await runs.start("shop", prompt, run_id=start, principal="alice")
                await runs.wait(start, seconds=60)
            for run in awaited:
                while (await runs.wait(run, seconds=60)).status == "waiting":  # noqa: ASYNC110  another process answers
                    await anyio.sleep(0.02)

        self.use(inside, works=True)

    def use(self, body: Callable[[DurableRuns], Awaitable[Any]], *, works: bool = False) -> Any:
        async def inside() -> Any:
            runs = self.runs()
            with anyio.fail_after(60):
                async with runs.work(interval=0.1) if works else runs:
                    return await body(runs)

        return anyio.run(inside)

    def runs(self) -> DurableRuns:
        @tool(effect=READ)
        async def look(order: str) -> str:
            """Look at an order."""
            return f"order {order}"

        @tool
        async def refund(order: str, amount: int) -> str:
            """Refund an order."""
            self.refunded.append(order)
            return f"refunded {amount}"

        model = self._reply if self.way == "whole" else self._stream
        agent = Agent(model, [look, refund], policy=Quick(policy))
        return DurableRuns(self.database, {"shop": agent}, name="shop", version="3", poll=0.05)

    async def _reply(self, request: Request) -> Reply:
        [asked, *rest] = request.messages
        if self.is_away and "away" in str(asked):
            raise ModelError("The model is away.")
        if any(isinstance(message, Reply) for message in rest):
            return Reply((Text("Done."),))
        both = Call("look", {"order": "7"}, "c1"), Call("refund", {"order": "7", "amount": 9}, "c2")
        return Reply(both)

    async def _stream(self, request: Request) -> AsyncIterator[StreamItem]:
        reply = await self._reply(request)
        for call in reply.calls:
            yield call
        await anyio.sleep(MODEL)
        yield reply


MODEL = 0.05
"""Seconds of a streamed reply after its calls."""
of_each_database = pytest.mark.parametrize(
    ("database", "way"),
    [("sqlite", "whole"), ("sqlite", "late"), ("postgres", "late")],
    indirect=["database"],
)
in_both_ways = pytest.mark.parametrize("way", ["whole", "late"])
"""A durable run starts the calls of a stream with its reply, which it records before."""


def policy(call: CheckedCall) -> Decision:
    return Ask("Refund 9?") if call.name == "refund" else Allow()


@pytest.fixture
def small(sqlite: str, tmp_path: Path) -> Shop:
    return Shop(sqlite, tmp_path)


def talk(database: str, started: threading.Event, go: threading.Event) -> None:
    """Start a run and work on it. Its model says the last word when it may go."""

    async def model(_: Request) -> AsyncIterator[StreamItem]:
        yield Delta("Well.", thought=True)
        yield Delta("One \n")
        await to_thread.run_sync(go.wait)
        yield Delta("two.")
        yield Reply((Text("One \ntwo."),))

    async def work() -> None:
        async with DurableRuns(database, {"shop": Agent(model)}, poll=0.05) as runs:
            await runs.start("shop", "Count.", run_id="r")
            started.set()
            async with runs.work(interval=0.1):
                await runs.wait("r", seconds=60)

    anyio.run(work)


@pytest.mark.parametrize("output", ["jsonl", "text"])
def test_a_reply_is_printed_while_it_arrives(database: str, tmp_path: Path, output: str) -> None:
    started, go = threading.Event(), threading.Event()
    worker = threading.Thread(target=talk, args=(database, started, go))
    worker.start()
    started.wait()
    command = ("handrail", "runs", "watch", "r", "--database", database, "-o", output)
    with subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.PIPE) as ran:  # noqa: S603
        out = cast("BufferedReader", ran.stdout)
        said = b""
        while b"One" not in said:
            said += out.read1()
        go.set()
        lines = (said + out.read()).decode().splitlines()
    worker.join()

    if output == "text":
        parts = [line.partition("  text  ")[2] for line in lines]  # a status may come between
        assert "".join(parts) == "One  two."
        assert lines[-1].endswith("  status  done")
        return
    events = [json.loads(line) for line in lines]
    assert [one["text"] for one in events if one["event"] == "delta"] == ["Well.", "One \n", "two."]
    watched = Shop(database, tmp_path)("watch", "-o", "jsonl").lines
    assert [one for one in events if one["event"] != "delta"] == watched


@of_each_database
def test_a_run_is_seen_answered_and_checked_by_commands(
    database: str, tmp_path: Path, way: Way
) -> None:
    shop = Shop(database, tmp_path, way)
    shop.work(start="r")

    [waiting] = shop("inbox", "--json").json["calls"]
    assert (waiting["id"], waiting["principal"], waiting["question"]) == ("r", "alice", "Refund 9?")
    assert Schemas()("runs-inbox", {"calls": [waiting]})
    assert shop("inbox", "--for", "bob", "--json").json == {"calls": []}
    assert shop("approve", "r", "--all").err == "a worker continues the run\n"
    assert shop("inbox").out == "no calls wait\n"
    shop.work("r")

    assert shop.refunded == ["7"]
    [listed] = shop("list", "--json").json["runs"]
    assert (listed["id"], listed["status"], listed["reason"]) == ("r", "done", "answer")
    assert (listed["turns"], listed["calls"]) == (2, 2)
    checked = shop("verify", "last")
    assert (checked.exit, checked.out[:8]) == (0, "r  ok  2")
    watched = shop("watch", "-o", "jsonl").lines
    assert [line["event"] for line in watched if line["event"] != "status"] == [
        *("prompt", "reply"),
        *("requested", "decided", "requested", "decided", "waiting", "started", "finished"),
        *("asked", "finished"),
        *("answer", "requested", "answered", "decided", "started", "finished"),
        "reply",
    ]
    [answer] = [line for line in watched if line["event"] == "answer"]
    assert (answer["answer"], bool(answer["by"])) == ("allow", True)
    check_turns(shop, watched)


def check_turns(shop: Shop, lines: list[dict[str, Any]]) -> None:
    """Check that each call is in its turn, and that the model's time is its own."""
    about_turns = [line for line in lines if "call_id" in line or line["event"] == "reply"]
    assert [line["turn"] for line in about_turns] == [1] * (len(about_turns) - 1) + [2]
    shown = shop("show", "last", "--json").json["turns"]
    records = open_runs(shop.database).records()
    turns, rows = records.turns("r"), records.calls("r", after=0).rows
    records.close()
    expected: list[tuple[int, list[str]]] = [(0, []), (1, ["c1", "c2"]), (2, [])]
    assert [(one["number"], [call["id"] for call in one["calls"]]) for one in shown] == expected
    assert [
        (one.reply, [row.id for row in rows if row.turn == one.number]) for one in turns
    ] == expected
    seconds = [one.seconds for one in turns[1:]]
    assert seconds == [one["seconds"] for one in shown[1:]]
    assert min(seconds) > (MODEL if shop.way == "late" else 0)


@in_both_ways
def test_the_time_of_a_person_is_not_the_time_of_the_model(small: Shop, way: Way) -> None:
    small.way = way
    small.work(start="r")
    with closing(sqlite3.connect(small.database)) as connection:
        [(first,)] = connection.execute("SELECT MAX(changed) FROM handrail_run")
    small("approve", "r", "--all")
    small.work("r")

    shown = small("show", "r")
    stats = small("stats", "--json").json
    [refund] = [item for item in stats["tools"] if item["tool"] == "refund"]
    lines = small("watch", "-o", "jsonl").lines
    [asked] = [line["at"] for line in lines if line["event"] == "asked"]
    [answered] = [line["at"] for line in lines if line["event"] == "answered"]
    assert refund["asked"] == pytest.approx(answered - asked)
    assert stats["model_seconds"] < lines[-1]["at"] - lines[0]["at"] - refund["asked"]
    assert first < answered
    assert re.search(r"asked by the policy: Refund 9\?\n +approved by \S+ after ", shown.out)
    assert re.search(r"waited \S+ ms for #1 look", shown.out)
    page = small("export", "r", "--html").out
    assert ("Refund 9?" in page, " entries, whole, " in page) == (True, True)
    whole = small("export", "r", "--json").json
    assert Schemas()("runs-export", whole)["state"]["turns"] == 2


CHANGES = {
    "UPDATE handrail_journal SET lines = '[]' WHERE first = (SELECT MAX(first) FROM handrail_journal)": "the digest does not match",
    "UPDATE handrail_journal SET lines = 'x' WHERE first = (SELECT MAX(first) FROM handrail_journal)": "the digest does not match",
    "UPDATE handrail_summary SET about = '{}'": "the summary differs",
    "UPDATE handrail_journal SET first = 'x' WHERE first = 1": "the entry is missing",
    "DELETE FROM handrail_journal WHERE first = 1": "the entry is missing",
    "DELETE FROM handrail_journal WHERE first = (SELECT MAX(first) FROM handrail_journal)": "the run ends here instead of at",
    "UPDATE handrail_run SET digest = 'x'": "the run ends with another digest",
    "DELETE FROM handrail_run": "the run is not in the list of runs",
}
"""Changes of the database, and what is found."""


def test_a_changed_journal_of_durable_runs_is_found(small: Shop, tmp_path: Path) -> None:
    small.work(start="r")
    assert verify(small.runs().store, "r") is None
    found: dict[str, str] = {}

    for change in CHANGES:
        copy = tmp_path / f"{len(found)}.db"
        with (
            closing(sqlite3.connect(small.database)) as original,
            closing(sqlite3.connect(copy)) as changed,
        ):
            original.backup(changed)
            changed.execute(change)
            changed.commit()
        store = DurableRuns(str(copy), {}).store
        [run] = store.names()
        broken = verify(store, run)
        found[change] = f"{run}: {broken and broken.reason}"

    assert [
        (found[change], reason)
        for change, reason in CHANGES.items()
        if f"r: {reason}" not in found[change]
    ] == []
    ran = small.handrail("runs", "verify", "--database", str(tmp_path / "0.db"))
    assert (ran.exit, "r  BROKEN  entry " in ran.out) == (1, True)


def test_a_run_can_be_forked_resumed_cancelled_and_deleted(small: Shop) -> None:
    small.work(start="r")
    small("approve", "r", "--all")
    small.work("r")

    forked = small("fork", "r", "--turn", "1", "--answer", "Hm.", "--json")
    assert (forked.json["from"], forked.json["turn"]) == ("r", 1)
    assert "a worker runs it" in forked.err
    assert small("cancel", forked.json["id"]).out == f"{forked.json['id']}  cancelled\n"
    again = small("cancel", forked.json["id"], "--json")
    assert (again.exit, again.error["code"]) == (2, "ended")

    small.work(start="f", prompt="away")
    assert small("show", "f", "--json").json["status"] == "failed"
    small.is_away = False
    resumed = small("resume", "f")
    assert resumed.out == "f  continues in a worker\n"
    assert small("resume", "f", "--json").error["code"] == "refused"
    assert small("resume", "f", "More.").exit == 2
    assert small("prune", "f").out == "f  kept: a process is working on it\n0 runs deleted\n"
    small.work(start="f")
    small("deny", "f", "--all", "--reason", "No.")
    small.work("f")

    assert small("export", "f", "--json").json["state"]["turns"] == 2
    assert small("prune", "--older-than", "0s").out.splitlines()[-1] == "3 runs deleted"
    assert small("list").out == "no runs\n"
    with closing(sqlite3.connect(small.database)) as connection:
        [(left,)] = connection.execute("SELECT COUNT(*) FROM handrail_journal")
    assert left == 0


def test_a_waiting_run_has_no_state_and_its_answers_can_be_refused(small: Shop) -> None:
    small.work(start="r")

    assert small("export", "r", "--json").json["state"] is None
    assert small("replay", "r", "--json").error["code"] == "unreadable"
    shown = small("show", "r")
    where = f"--database {small.database}"
    assert shown.err == (
        f"calls are waiting for approval: `handrail runs approve r {where}` "
        f"or `handrail runs deny r {where}`\n"
    )
    assert small("show", "x").err == (
        f"handrail: there is no run 'x'\n  run `handrail runs list {where}` to see the IDs\n"
    )
    dry = small("prune", "--older-than", "0s", "--dry-run")
    assert dry.out == "r  kept: it waits for approval\n0 runs would be deleted\n"
    assert small("prune", "--older-than", "0s", "--max-seconds", "9").out == "0 runs deleted\n"
    assert small("prune", "r").out.startswith("r  deleted\n")


def test_the_runs_of_a_person_are_erased(small: Shop) -> None:
    small.work(start="r")

    assert small("erase", "--principal", "nobody").out == "0 runs deleted\n"
    erased = small("erase", "--principal", "alice", "--json").json
    own = small.handrail("runs", "erase", "--principal", "alice", "--json")

    assert erased == {"principal": "alice", "count": 1}
    assert small("list").out == "no runs\n"
    assert (own.exit, own.error["message"]) == (2, "your own runs are on behalf of no one")


@of_each_database
def test_a_durable_run_is_replayed_with_the_tools_of_the_settings(
    database: str, tmp_path: Path, way: Way
) -> None:
    shop = Shop(database, tmp_path, way)
    shop.handrail.write("tools.py", TOOLS)
    rule = '[[rule]]\nid = "r"\ndecide = "allow"\ntools = ["look"]\n'
    shop.handrail.config.mkdir(parents=True)
    (shop.handrail.config / "rules.toml").write_text(rule, encoding="utf-8")
    shop.work(start="r")
    shop("approve", "r", "--all")
    shop.work("r")

    ran = shop("replay", "r", "--tools", "tools.py")

    assert ran == Ran(0, "1 turn, 2 calls, 0 differences\n", "")


def test_the_setting_names_the_database(small: Shop) -> None:
    small.work(start="r")
    handrail = small.handrail
    environment = {"HANDRAIL_DATABASE": small.database}

    listed = handrail("runs", "list", "--json", env=environment).json["runs"]
    assert [run["id"] for run in listed] == ["r"]
    assert handrail("runs", "list", "--database", "", env=environment).out == "no runs\n"
    missing = handrail("runs", "list", "--database", "nowhere.db", "--json")
    assert (missing.exit, missing.error["code"]) == (1, "unreadable")
    assert not (handrail.workspace / "nowhere.db").exists()
    secret = "postgresql://me:secret@127.0.0.1:1/x"  # noqa: S105  nothing answers there
    refused = handrail("runs", "list", "--database", secret)
    assert (refused.exit, "secret" in refused.err) == (1, False)
