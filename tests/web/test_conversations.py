"""Conversations in the database of runs: one process at a time, and no message lost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from handrail import Call, Image, Result, Text
from handrail.agent import RunState
from handrail.messages import Message, Prompt, Reply, ToolResults
from handrail.runs import RunRecord, open_runs
from handrail.web._files import KeptFile, keep_file
from handrail.web.conversations import ConversationBusy, ConversationHead, Conversations

SAID: tuple[Message, ...] = (
    Prompt((Text("Look."), Image(b"\x00\xff", "image/png"))),
    Reply((Text("I do."), Call("look", {"at": "it"}, "c1")), "calls"),
    ToolResults((Result("c1", "a \x00 thing"),)),
    Reply((Text("A thing."),), model="m"),
)


async def test_messages_come_back_as_they_were(database: str) -> None:
    store = Conversations(database)
    head = await store.create("ada", "k", title="Look", metadata={"plan": "gold"})
    head = await store.append(head, SAID[:2])
    head = await store.append(head, SAID[2:])
    saved = await Conversations(open_runs(database)).get("ada", "k")

    assert saved == (head, SAID)
    assert (head.title, head.metadata, head.entries) == ("Look", {"plan": "gold"}, 4)


async def test_two_writers_never_lose_a_message(database: str) -> None:
    """Each one adds what it can: all that returned are there, in one order."""
    several = [Conversations(database) for _ in range(4)]
    await several[0].create("ada", "k")
    added: list[str] = []

    async def write(store: Conversations, name: str) -> None:
        for number in range(5):
            done = False
            while not done:
                try:
                    await store.append(await store.head("ada", "k"), [Prompt.of(f"{name}{number}")])
                    done = True
                except ConversationBusy:
                    await anyio.lowlevel.checkpoint()
            added.append(f"{name}{number}")

    async with anyio.create_task_group() as group:
        for store, name in zip(several, "abcd", strict=True):
            group.start_soon(write, store, name)
    saved = await several[0].get("ada", "k")
    texts = [one.parts[0].text for one in saved.messages]  # type: ignore[union-attr]

    assert sorted(texts) == sorted(added)
    for name in "abcd":
        assert [text for text in texts if text[0] == name] == [f"{name}{n}" for n in range(5)]


async def claimed(store: Conversations, run: str = "r1") -> ConversationHead:
    return await store.claim(await store.create("ada", "k"), run, Prompt.of("hi"))


STALE: dict[str, Callable[[Conversations, ConversationHead], Any]] = {
    "append": lambda store, head: store.append(head, [Prompt.of("late")]),
    "claim": lambda store, head: store.claim(head, "r2", Prompt.of("late")),
    "renew": lambda store, head: store.renew(head),
    "park": lambda store, head: store.park(head),
    "settle": lambda store, head: store.settle(head, [Prompt.of("late")]),
}


@pytest.mark.parametrize("way", STALE)
async def test_a_lost_claim_changes_nothing(database: str, way: str) -> None:
    store = Conversations(database)
    mine = await claimed(store)
    await store.settle(mine, SAID)
    await store.claim(await store.head("ada", "k"), "r9", Prompt.of("next"))
    before = await store.get("ada", "k")
    with pytest.raises(ConversationBusy):
        await STALE[way](store, mine)

    assert await store.get("ada", "k") == before


async def test_a_conversation_begins_with_its_first_prompt_and_claim(database: str) -> None:
    store, prompt = Conversations(database), Prompt.of("  Look\nat it. ")
    mine = await store.begin("ada", "k", "r1", prompt, metadata={"plan": "gold"})
    saved = await store.get("ada", "k")
    late = await store.begin("ada", "k", "r2", Prompt.of("late"))
    await store.settle(mine, SAID[1:])

    assert (saved.head, saved.messages) == (mine, (prompt,))
    assert (mine.run, mine.title, mine.metadata) == ("r1", "Look at it.", {"plan": "gold"})
    assert mine.lease > 0
    assert late == mine
    assert (await store.get("ada", "k")).messages == (prompt, *SAID[1:])


async def test_one_of_many_claims_wins(database: str) -> None:
    store = Conversations(database)
    head = await store.create("ada", "k")
    won: list[str] = []

    async def claim(run: str) -> None:
        try:
            await Conversations(database).claim(head, run, Prompt.of(run))
            won.append(run)
        except ConversationBusy:
            pass

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(claim, f"r{number}")
    saved = await store.get("ada", "k")

    assert [saved.head.run] == won
    assert saved.messages == (Prompt.of(won[0]),)


async def test_a_claim_lapses(database: str) -> None:
    now = [1000.0]
    store = Conversations(database, clock=lambda: now[0])
    mine = await claimed(store)
    first = store.has_lapsed(mine)
    now[0] += 59
    mine = await store.renew(mine)
    now[0] += 59
    renewed = store.has_lapsed(mine)
    now[0] += 2

    assert (first, renewed, store.has_lapsed(mine)) == (False, False, True)
    assert not store.has_lapsed(await store.park(mine))


async def test_each_principal_has_separate_conversations(database: str) -> None:
    store = Conversations(database)
    for principal in ("ada", "eve"):
        await store.append(await store.create(principal, "k"), [Prompt.of(principal)])
    deleted = await store.delete("eve", "k")
    again = await store.delete("eve", "k")
    with pytest.raises(LookupError):
        await store.get("eve", "k")

    assert (deleted, again) == (True, False)
    assert (await store.get("ada", "k")).messages == (Prompt.of("ada"),)
    assert [head.principal for head in await store.list("ada")] == ["ada"]
    assert await store.list("eve") == ()


async def test_lists_come_in_pages_the_latest_first(database: str) -> None:
    now = [1000.0]
    store = Conversations(database, clock=lambda: now[0])
    for number in range(5):
        now[0] += 1
        await store.create("ada", f"k{number}")
    first = await store.list("ada", limit=2)
    second = await store.list("ada", limit=2, before=first[-1].changed)

    assert [head.id for head in (*first, *second)] == ["k4", "k3", "k2", "k1"]


@pytest.mark.parametrize("name", ["", "a\nb", "a\x00", "k" * 101])
async def test_names_are_checked(sqlite: str, name: str) -> None:
    store = Conversations(sqlite)
    with pytest.raises(ValueError, match="printable"):
        await store.create(name, "k")
    with pytest.raises(ValueError, match="printable"):
        await store.create("ada", name)


async def kept(store: Conversations) -> dict[str, list[str]]:
    """Whose rows each table of ours has."""
    tables = {"conversation": "principal", "message": "principal", "file": "principal"}
    tables |= {"summary": "principal", "journal": "run"}
    found = {}
    for table, column in tables.items():
        rows = await store.store.database.read(f"SELECT {column} FROM handrail_{table} ORDER BY 1")  # noqa: S608
        found[table] = [row[0] for row in rows]
    return found


async def record(store: Conversations, principal: str) -> None:
    """A conversation, a file, and a run that was recorded in this process."""
    head = await store.create(principal, "k")
    await store.append(head, SAID)
    await keep_file(store.store, principal, KeptFile("a.txt", "text/plain", b"a"), most=100)
    run = RunRecord(store.store, f"{principal}1")
    await anyio.to_thread.run_sync(run.keep, RunState(messages=SAID, run_id=f"{principal}1"))
    await anyio.to_thread.run_sync(partial(run.set_status, status="done", principal=principal))


async def test_everything_of_a_person_is_deleted(database: str) -> None:
    store = Conversations(database)
    for name in ("ada", "bob"):
        await record(store, name)
    before = await kept(store)
    await store.erase("ada")
    after = await kept(store)

    assert before["conversation"] == before["file"] == ["ada", "bob"]
    assert all(any(one.startswith("ada") for one in rows) for rows in before.values())
    assert after == {
        table: [one for one in rows if one.startswith("bob")] for table, rows in before.items()
    }


async def test_old_conversations_are_deleted(database: str) -> None:
    """One that is used while it is looked at, and one that a run continues, stay whole."""
    now = 1000.0
    store = Conversations(database, clock=lambda: now)
    for name in ("old", "busy"):
        await store.append(await store.create("ada", name), SAID)
    head = await store.head("ada", "busy")
    await store.park(await store.claim(head, "r1", Prompt.of("hi")))
    now = 2000.0
    await store.append(await store.create("ada", "new"), SAID)

    assert await store.prune(older_than=1001.0) == 0
    assert await store.prune(older_than=500.0) == 1
    assert [one.id for one in await store.list("ada")] == ["new", "busy"]
    assert len((await kept(store))["message"]) == len(SAID) * 2 + 1
