"""Texts at rest: what is sealed and what stays readable, keys that are lost, and other keys."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, LiteralString, cast

import anyio
import psycopg
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from handrail import WRITE, Access, Allow, Ask, Call, CheckedCall, Decision, Deny, Text, tool
from handrail.agent import Agent
from handrail.messages import ModelError, Reply, Request, ToolResults
from handrail.permissions import Approvers, Edit
from handrail.runs import Claimant, Codec, JournalLine, open_runs
from handrail.runs._sealing.statements import SEALED
from handrail.runs.durable import CallQueue, DurableRun, DurableRuns

WORD = "wolframite"
"""In every text that people, models and tools write."""
KEYS = {"k1": b"1" * 32, "k2": b"2" * 32}
ENGINE = {
    ("workflow_status", "inputs"),
    ("workflow_input", "inputs"),
    ("workflow_output", "output"),
}


def make_codec(key_id: str, *keys: str) -> Codec:
    """Return a codec that seals with a key, and opens with this one and others."""
    known = {name: AESGCM(KEYS[name]) for name in (key_id, *keys)}

    def encode(data: bytes) -> bytes:
        nonce = os.urandom(12)
        return nonce + known[key_id].encrypt(nonce, data, None)

    def decode(key: str, data: bytes) -> bytes:
        return known[key].decrypt(data[:12], data[12:], None)

    return Codec(key_id, encode, decode)


@tool(effect=WRITE, touches=lambda **_: Access(WRITE, "note:1"))
async def note(text: str) -> str:
    """Write a note."""
    return f"noted {text}"


@tool(effect=WRITE, touches=lambda **_: Access(WRITE, "note:2"))
async def publish(text: str) -> str:
    """Publish a text, with approval."""
    return f"published {text}"


@tool(effect=WRITE, touches=lambda **_: Access(WRITE, "note:3"))
async def burn(text: str) -> str:
    """Burn a text, with approval."""
    return f"burned {text}"


@tool(effect=WRITE, touches=lambda **_: Access(WRITE, "note:4"))
async def post(text: str) -> str:
    """Post a text, on a queue."""
    return f"posted {text}"


@tool(effect=WRITE, touches=lambda **_: Access(WRITE, "note:5"))
async def lose(text: str) -> str:
    """Lose a text."""
    raise LookupError(text)


TOOLS = (note, publish, burn, post, lose)


async def model(request: Request) -> Reply:
    if isinstance(request.messages[-1], ToolResults):
        return Reply((Text(f"done: {WORD}"),), model="m")
    if "break" in str(request.messages[0]):
        raise ModelError(f"no reply: {WORD}")
    calls = (Call(one.spec.name, {"text": WORD}, one.spec.name) for one in TOOLS)
    return Reply((Text(f"now: {WORD}"), *calls), model="m")


def policy(call: CheckedCall) -> Decision:
    if call.name not in ("publish", "burn") or call.args["text"].startswith("new"):
        return Allow()
    return Ask(
        f"{call.name} {WORD}?", approvers=Approvers(count=2 if call.name == "publish" else 1)
    )


def make_runs(database: str, codec: Codec | None) -> DurableRuns:
    return DurableRuns(
        database,
        {"clerk": Agent(model, TOOLS, policy=policy)},
        poll=0.05,
        queues={"posts": CallQueue(tools=["post"])},
        codec=codec,
    )


async def write_runs(database: str, codec: Codec | None) -> list[set[tuple[str, str]]]:
    """Write runs with the secret through every door. Return where it is, at three times."""
    runs, found = make_runs(database, codec), list[set[tuple[str, str]]]()
    metadata, labels = {"about": WORD}, ["tenant=acme"]
    async with runs.work(interval=0.1, drain_seconds=5):
        about: dict[str, Any] = {"principal": "ana", "metadata": metadata, "labels": labels}
        await runs.start("clerk", f"begin {WORD}", run_id="r", **about)
        await runs.start("clerk", f"break {WORD}", run_id="f", **about)
        assert (await runs.wait("r", seconds=40)).status == "waiting"
        assert (await runs.wait("f", seconds=40)).status == "failed"
        found.append(find_secret(database))
        store, edit = runs.store, Edit({"text": f"new {WORD}"})
        answers = [
            await store.answer("r/1/publish?0", edit, by=Claimant("jo")),
            await store.answer("r/1/publish?0", edit, by=Claimant("eve")),
            await store.answer("r/1/burn?0", Deny(f"not {WORD}"), by="jo"),
        ]
        assert [answer.status for answer in answers] == ["counted", "used", "used"]
        assert (await wait_end(runs, "r")).text == f"done: {WORD}"
        await runs.resume("f")
        assert (await runs.wait("f", seconds=40)).status == "failed"
        await runs.fork("r", new_id="g", text=f"other {WORD}")
        await runs.wait("g", seconds=40)
        found.append(find_secret(database))
    status = JournalLine.of("status", status="failed", prompt=WORD, why=WORD, note=WORD)
    with open_runs(database, codec=codec) as store:
        store.append("own", [status, JournalLine.of("prompt", at=1.0, text=WORD)])
    return [*found, find_secret(database)]


async def wait_end(runs: DurableRuns, run: str) -> DurableRun:
    with anyio.fail_after(15):
        while (found := await runs.wait(run)).status == "waiting":  # noqa: ASYNC110  a worker ends it
            await anyio.sleep(0.02)
    return found


def find_secret(database: str, secret: str = WORD) -> set[tuple[str, str]]:
    """Return the tables and columns with the secret, and the file if it is in its bytes."""
    found = {
        (table, column) for table, column, text in read_texts(database) if secret.encode() in text
    }
    for end in () if "://" in database else ("", "-wal"):
        file = Path(f"{database}{end}")
        if file.exists() and secret.encode() in file.read_bytes():
            found.add(("file", ""))
    return found


def read_texts(database: str) -> Iterable[tuple[str, str, bytes]]:
    if "://" not in database:
        with closing(sqlite3.connect(database)) as file:
            names = file.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for (table,) in names:
                cursor = file.execute(f"SELECT * FROM {table}")  # noqa: S608
                columns = [one[0] for one in cursor.description]
                for row in cursor:
                    yield from (
                        (table, name, str(value).encode())
                        for name, value in zip(columns, row, strict=True)
                    )
        return
    with psycopg.connect(database, autocommit=True) as server:
        places = server.execute(
            "SELECT schemaname, tablename FROM pg_tables WHERE schemaname IN ('public', 'dbos')"
        ).fetchall()
        for schema, table in places:
            cursor = server.execute(cast("LiteralString", f"SELECT * FROM {schema}.{table}"))  # noqa: S608
            columns = [one.name for one in cursor.description or ()]
            for row in cursor:
                yield from (
                    (table, name, str(value).encode())
                    for name, value in zip(columns, row, strict=True)
                )


async def test_no_text_of_a_run_is_in_the_database(database: str) -> None:
    assert await write_runs(database, make_codec("k1")) == [set(), set(), set()]


async def test_without_a_codec_each_sealed_column_has_the_text(database: str) -> None:
    found = set[tuple[str, str]]().union(*await write_runs(database, None)) - {("file", "")}
    sealed = {(table, name) for table, one in SEALED.items() for name in one.columns}
    assert found - ENGINE == {one for one in sealed if one[1] != "digest"}
    assert found & ENGINE
