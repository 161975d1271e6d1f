"""Texts at rest: what is sealed and what stays readable, keys that are lost, and other keys."""

from __future__ import annotations

import re
import sqlite3
from base64 import b64decode
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, LiteralString, cast

import anyio
import psycopg
import pytest

from handrail import WRITE, Access, Allow, Ask, Call, CheckedCall, Decision, Deny, Text, tool
from handrail.agent import Agent
from handrail.messages import ModelError, Prompt, Reply, Request, ToolResults
from handrail.permissions import Approvers, Edit
from handrail.runs import Claimant, Codec, JournalError, JournalLine, RunQuery, open_runs, verify
from handrail.runs._live.pieces import Piece, add_pieces, dump
from handrail.runs._sealing.compression import decompress
from handrail.runs._sealing.statements import SEALED
from handrail.runs.durable import CallQueue, DurableRun, DurableRuns
from handrail.runs.history import all_calls, read_history
from handrail.runs.lines import as_fields
from handrail.runs.sharded import ShardedRuns
from handrail.web._files import KeptFile, keep_file
from handrail.web.conversations import Conversations
from runs.parked import make_pending, park
from sealing import make_codec

WORD = "wolframite"
"""In every text that people, models and tools write."""
UNOPENED = "This text is sealed with the key 'k1', and `codec` cannot open it"
READABLE = {
    "handrail_approval": {"name", "claimant"},
    "handrail_budget": {"budget", "holder", "unit"},
    "handrail_budget_part": {"budget", "holder", "part"},
    "handrail_call": {"key", "run", "turn", "call", "tool", "writer"},
    "handrail_called": {"run", "call", "tool", "status", "rule", "pending"},
    "handrail_conversation": {"principal", "id", "run"},
    "handrail_file": {"principal", "id", "kind"},
    "handrail_journal": {"run"},
    "handrail_label": {"label", "run"},
    "handrail_message": {"principal", "conversation", "run"},
    "handrail_piece": {"run", "attempt"},
    "handrail_question": {"id", "run", "answered_by"},
    "handrail_rate": {"name", "holder", "times"},
    "handrail_remembered": {"id", "name", "kind", "holder"},
    "handrail_reservation": {"id", "budget", "holder", "part"},
    "handrail_result": {"run", "call"},
    "handrail_rule": {"rule", "file", "day", "outcome", "labels"},
    "handrail_run": {"id", "agent", "principal", "status", "app"},
    "handrail_state": {"run"},
    "handrail_step": {"run"},
    "handrail_summary": {"run", "status", "reason", "agent", "principal", "labels", "last_event"}
    | {"counts", "tokens", "cost"},
    "handrail_turn": {"run", "speaker", "model"},
    "handrail_vote": {"pending", "voter", "via"},
    "handrail_worker": {"id", "version"},
}
"""The columns of text that are not sealed, by table."""
ENGINE = {
    ("workflow_status", "inputs"),
    ("workflow_input", "inputs"),
    ("workflow_output", "output"),
}


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
    """Write runs with the word through every door. Return where it is, at three times."""
    runs, found = make_runs(database, codec), list[set[tuple[str, str]]]()
    metadata, labels = {"about": WORD}, ["tenant=acme"]
    async with runs.work(interval=0.1, drain_seconds=5):
        about: dict[str, Any] = {"principal": "ana", "metadata": metadata, "labels": labels}
        await runs.start("clerk", f"begin {WORD}", run_id="r", **about)
        await runs.start("clerk", f"break {WORD}", run_id="f", **about)
        assert (await runs.wait("r", seconds=40)).status == "waiting"
        assert (await runs.wait("f", seconds=40)).status == "failed"
        found.append(find_word(database))
        store, edit = runs.store, Edit({"text": f"new {WORD}"})
        answers = [
            await store.answer("r~1~publish~0", edit, by=Claimant("jo")),
            await store.answer("r~1~publish~0", edit, by=Claimant("eve")),
            await store.answer("r~1~burn~0", Deny(f"not {WORD}"), by="jo"),
        ]
        assert [answer.status for answer in answers] == ["counted", "used", "used"]
        assert (await wait_end(runs, "r")).text == f"done: {WORD}"
        await runs.resume("f")
        assert (await runs.wait("f", seconds=40)).status == "failed"
        await runs.fork("r", new_id="g", text=f"other {WORD}")
        await runs.wait("g", seconds=40)
        found.append(find_word(database))
    await write_rest(database, codec)
    return [*found, find_word(database)]


async def write_rest(database: str, codec: Codec | None) -> None:
    """Write what no run of these writes: other people's tables, and a run without a worker."""
    status = JournalLine.of("status", status="failed", prompt=WORD, why=WORD, note=WORD)
    with open_runs(database, codec=codec) as store:
        store.append("own", [status, JournalLine.of("prompt", at=1.0, text=WORD)])
        piece = {"run": "own", "turn": 1, "attempt": "a", "number": 0}
        body = dump([Piece("text", WORD)])
        said = add_pieces([{**piece, "body": body}], postgres="://" in database)
        store.database.transact_now([said], 0)
        chats = Conversations(store)
        head = await chats.create("ana", "k", title=WORD, metadata={"about": WORD})
        await chats.append(head, [Prompt.of(WORD)])
        kept = KeptFile(WORD, "text/plain", b64decode(f"{WORD}AA"))
        await keep_file(store, "ana", kept, most=1000)
        store.results("own").put("c", WORD)
        rule = {"id": "remembered-1", "holder": "ana", "rule": WORD, "at": 1.0, "expires": 2.0}
        sql = (
            "INSERT INTO handrail_remembered VALUES "
            "(:id, 'approvals', 'principal', :holder, :rule, :at, :expires)"
        )
        store.database.transact_now([(sql, [rule])], 0)


async def wait_end(runs: DurableRuns, run: str) -> DurableRun:
    with anyio.fail_after(15):
        while (found := await runs.wait(run)).status == "waiting":  # noqa: ASYNC110  a worker ends it
            await anyio.sleep(0.02)
    return found


def find_word(database: str, word: str = WORD) -> set[tuple[str, str]]:
    """Return the tables and columns with the word, and the file if it is in its bytes."""
    found = {
        (table, column) for table, column, text in read_texts(database) if word.encode() in text
    }
    for end in () if "://" in database else ("", "-wal"):
        file = Path(f"{database}{end}")
        if file.exists() and word.encode() in file.read_bytes():
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
                        (table, name, as_bytes(value))
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
                    (table, name, as_bytes(value)) for name, value in zip(columns, row, strict=True)
                )


def as_bytes(value: object) -> bytes:
    """Return what a column has, as someone who knows our compression reads it."""
    return (decompress(value) if isinstance(value, bytes) else str(value)).encode()


async def test_no_text_is_in_the_database_and_all_are_read_with_the_key(database: str) -> None:
    codec = make_codec("k1")
    assert await write_runs(database, codec) == [set(), set(), set()]
    with open_runs(database, codec=codec) as store:
        records = store.records()
        assert [run for run in store.names() if verify(store, run)] == []
        assert [turn.text for turn in records.turns("r")] == [
            f"begin {WORD}",
            f"now: {WORD}",
            f"done: {WORD}",
        ]
        history = read_history(map(as_fields, store.read("r")))
        texts = {call.tool: call.text for call in all_calls(history)}
        note = f'[Note: a person changed the arguments: text="new {WORD}".]'
        assert texts["publish"] == f"published new {WORD}\n{note}"
        assert texts["post"] == f"posted {WORD}"
        asked = records.request("r~1~publish~0")
        assert asked is not None
        assert asked.pending.question == f"publish {WORD}?"
        assert [vote.by for vote in asked.votes] == ["jo", "eve"]
        assert {summary.prompt for summary in records.runs().rows} == {
            f"begin {WORD}",
            f"break {WORD}",
            WORD,
        }
        records.close()


async def test_without_a_codec_each_sealed_column_has_the_text(database: str) -> None:
    found = set[tuple[str, str]]().union(*await write_runs(database, None)) - {("file", "")}
    sealed = {(table, name) for table, one in SEALED.items() for name in one.columns}
    assert found - ENGINE == {one for one in sealed if one[1] != "digest"}
    assert found & ENGINE


def test_each_column_of_text_is_sealed_or_known_as_readable(sqlite: str) -> None:
    found: dict[str, set[str]] = {}
    with closing(sqlite3.connect(sqlite)) as file:
        rows = file.execute(
            "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c "
            "WHERE m.name LIKE 'handrail@_%' ESCAPE '@' AND m.type = 'table' AND c.type = 'TEXT'"
        )
        for table, column in rows:
            found.setdefault(table, set()).add(column)
    sealed = {table: set(one.columns) for table, one in SEALED.items()}
    tables = READABLE.keys() | sealed.keys()
    both = {name: READABLE.get(name, set()) | sealed.get(name, set()) for name in tables}
    assert found == both
    assert not any(READABLE.get(name, set()) & sealed.get(name, set()) for name in tables)


@pytest.mark.parametrize(
    ("codec", "reason"),
    [
        (None, "This text is sealed with the key 'k1': give `codec`."),
        (
            make_codec("k2"),
            f"{UNOPENED} (KeyError): its key is missing or wrong, or the text was changed.",
        ),
    ],
    ids=["none", "another"],
)
async def test_a_missing_key_is_named(database: str, codec: Codec | None, reason: str) -> None:
    with open_runs(database, codec=make_codec("k1")) as store:
        park(store, "r")
    runs = make_runs(database, codec)
    with open_runs(database, codec=codec, clock=lambda: 1_500.0) as store:
        records = store.records()
        ways: list[Callable[[], object]] = [
            lambda: store.head("r"),
            lambda: list(store.read("r")),
            lambda: verify(store, "r"),
            lambda: store.append("r", [JournalLine.of("status")]),
            store.requests,
            lambda: store.answer_now("r~1~c1~0", Allow(), by="jo"),
            records.runs,
            records.inbox,
        ]
        for way in ways:
            with pytest.raises(JournalError) as caught:
                way()
            assert str(caught.value) == reason
        with pytest.raises(JournalError, match=re.escape(reason)):
            await runs.__aenter__()
        assert list(store.names()) == ["r"]
        records.close()


def test_a_changed_text_is_found(sqlite: str) -> None:
    codec = make_codec("k1")
    with open_runs(sqlite, codec=codec) as store:
        store.append("r", [JournalLine.of("prompt", text=WORD)])
        for change in ("substr(lines, 1, 20) || 'AAAA' || substr(lines, 25)", "lines || '!'"):
            with closing(sqlite3.connect(sqlite)) as file:
                file.execute(f"UPDATE handrail_journal SET lines = {change}")  # noqa: S608
                file.commit()
            with pytest.raises(JournalError, match=r"'k1'.* was changed"):
                verify(store, "r")


async def test_another_key_changes_no_digest_and_runs_go_on(database: str) -> None:
    await write_runs(database, make_codec("k1"))
    runs = make_runs(database, make_codec("k1"))
    async with runs.work(interval=0.1, drain_seconds=5):
        await runs.start("clerk", f"begin {WORD}", run_id="w")
        assert (await runs.wait("w", seconds=40)).status == "waiting"
    with open_runs(database, codec=make_codec("k2", "k1")) as store:
        before = {head.run: head for head in store.runs()}
        assert {key_of(text) for *_, text in read_texts(database)} == {b"k1", b""}
        assert store.rotate() > 0
        assert store.rotate() == 0
        assert {key_of(text) for *_, text in read_texts(database)} == {b"k2", b""}
    codec = make_codec("k2")
    with open_runs(database, codec=codec) as store:
        assert {head.run: head for head in store.runs()} == before
        assert [run for run in store.names() if verify(store, run)] == []
    runs = make_runs(database, codec)
    async with runs.work(interval=0.1, drain_seconds=5):
        for name in ("publish", "burn"):
            await runs.store.answer(f"w~1~{name}~0", Deny(WORD), by="jo")
        assert (await wait_end(runs, "w")).text == f"done: {WORD}"
        await runs.resume("f")
        assert (await runs.wait("f", seconds=40)).why == f"ModelError: no reply: {WORD}"


def key_of(text: bytes) -> bytes:
    """Return the name of the key with which a text is sealed, or a text inside of it."""
    found = re.search(rb"(?:\x02|\\\\u0002)([^:]*):", text)
    return found[1] if found else b""


def test_texts_of_the_time_before_are_sealed_later(database: str) -> None:
    with open_runs(database) as store:
        park(store, "r", principal=WORD[:4], prompt=WORD, why=WORD)
        before = store.head("r")
        with pytest.raises(ValueError, match="These runs have no codec"):
            store.rotate()
    assert find_word(database) != set()
    codec = make_codec("k1")
    with open_runs(database, codec=codec) as store:
        assert store.head("r") == before
        assert store.rotate() > 0
        assert (store.head("r"), verify(store, "r")) == (before, None)
    assert find_word(database) == set()


def test_a_change_of_keys_that_fails_is_finished_later(tmp_path: Path) -> None:
    file = str(tmp_path / "no-engine.db")
    with open_runs(file, codec=make_codec("k1")) as store:
        for number in range(120):
            store.append(f"r{number}", [JournalLine.of("prompt", text=WORD)])
    good, left = make_codec("k2", "k1"), [250]

    def fail_late(data: bytes) -> bytes:
        left[0] -= 1
        if left[0] < 0:
            raise OSError("the process dies here")
        return good.encode(data)

    with (
        open_runs(file, codec=Codec("k2", fail_late, good.decode)) as store,
        pytest.raises(JournalError, match="cannot be sealed"),
    ):
        store.rotate()
    assert {key_of(text) for *_, text in read_texts(file)} == {b"k1", b"k2", b""}
    with open_runs(file, codec=good) as store:
        assert [run for run in store.names() if verify(store, run)] == []
        assert store.rotate() > 0
        assert [run for run in store.names() if verify(store, run)] == []
    assert {key_of(text) for *_, text in read_texts(file)} == {b"k2", b""}


def test_a_run_can_be_written_while_keys_change(database: str) -> None:
    both, is_first = make_codec("k2", "k1"), [True]
    with open_runs(database, codec=make_codec("k1")) as store:
        store.append("r", [JournalLine.of("status", prompt=WORD)])
    with open_runs(database, codec=both) as writer:

        def write_between(key: str, data: bytes) -> bytes:
            if is_first.pop() if is_first else False:
                writer.append("r", [JournalLine.of("status", why=WORD)])
            return both.decode(key, data)

        with open_runs(database, codec=Codec("k2", both.encode, write_between)) as store:
            store.rotate()
        assert verify(writer, "r") is None
        assert [entry.number for entry in writer.read("r")] == [1, 2]
    with open_runs(database, codec=make_codec("k2")) as store:
        assert verify(store, "r") is None


async def test_a_run_waits_for_a_worker_that_has_its_key(
    sqlite: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("handrail.runs._engine.dbos_engine._KEY_SECONDS", 0.1)
    good, tries = make_codec("k1"), list[str]()

    def decode(key: str, data: bytes) -> bytes:
        text = good.decode(key, data)
        if text.startswith(b'["late"') and len(tries) < 2:  # the order of its segment
            tries.append(key)
            raise LookupError(key)
        return text

    runs = make_runs(sqlite, Codec("k1", good.encode, decode))
    async with runs.work(interval=0.1, drain_seconds=5):
        await runs.start("clerk", f"break {WORD}", run_id="late")
        run = await runs.wait("late", seconds=40)
    assert (run.status, run.why, tries) == ("failed", f"ModelError: no reply: {WORD}", ["k1", "k1"])
    said = "late:0 waits for a worker that has the key"
    assert [record.getMessage() for record in caplog.records].count(said) == 2


async def test_the_inbox_of_shards_opens_texts(tmp_path: Path) -> None:
    shards = {name: str(tmp_path / f"{name}.db") for name in ("s1", "s2")}
    codec = make_codec("k1")
    for name, place in shards.items():
        with open_runs(place, codec=codec, clock=lambda: 1_500.0) as store:
            park(store, f"{name}.r", make_pending(f"{name}.r", expires_at=4e9))
    async with ShardedRuns(shards, lambda place: make_runs(place, codec)) as runs:
        page = await runs.inbox()
    assert ([row.question for row in page.rows], page.away) == (["Refund A1?"] * 2, ())


def test_a_text_that_cannot_be_sealed_is_not_stored(database: str) -> None:
    def fail(data: bytes) -> bytes:
        raise OSError("no key server")

    codec = make_codec("k1")
    with open_runs(database, codec=Codec("k1", fail, codec.decode)) as store:
        with pytest.raises(JournalError, match=r"cannot be sealed with the key 'k1' \(OSError\)"):
            store.append("r", [JournalLine.of("prompt", text=WORD)])
        assert list(store.names()) == []


def test_the_name_of_a_key_is_plain() -> None:
    with pytest.raises(ValueError, match=r"Invalid name of a key: 'a:b'\."):
        Codec("a:b", bytes, lambda _, data: data)


@pytest.mark.parametrize("codec", [None, make_codec("k1")], ids=["plain", "sealed"])
def test_a_text_that_looks_sealed_is_a_plain_text(database: str, codec: Codec | None) -> None:
    looks = "\x02k1:AAAA"
    with open_runs(database, codec=codec) as store:
        status = JournalLine.of("status", principal=looks, prompt=looks, why=looks)
        reply = JournalLine.of("reply", turn=1, text=looks, model=looks)
        store.append("r", [status, reply])
        assert verify(store, "r") is None
        records = store.records()
        shown = f"\ufffd{looks[1:]}"
        summary, [turn] = records.run("r"), records.turns("r")
        assert summary is not None
        assert (summary.principal, turn.model) == (shown, shown)
        sealed = looks if codec else shown
        assert (summary.prompt, summary.why, turn.text) == (sealed, sealed, sealed)
        assert [row.id for row in records.runs(RunQuery(principal=looks)).rows] == ["r"]
        records.close()


@pytest.mark.parametrize("codec", [None, make_codec("k1")], ids=["plain", "sealed"])
def test_a_search_says_whether_it_finds_words_of_prompts(sqlite: str, codec: Codec | None) -> None:
    with open_runs(sqlite, codec=codec) as store:
        store.append("r1", [JournalLine.of("status", principal="ana", prompt=f"find {WORD}")])
        records = store.records()
        found = [len(records.runs(RunQuery(text=text)).rows) for text in ("find", "ana", "R1")]
        assert (records.searches_texts, found) == (codec is None, [int(codec is None), 1, 1])
        records.close()
