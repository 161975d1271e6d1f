"""Files of visitors: how many one person keeps, also with requests at the same time."""

from __future__ import annotations

import anyio

from handrail.web import ChatApp
from handrail.web._files import _SENT, MAX_FILES  # type: ignore[attr-defined]
from web.chats import ORIGIN, as_person, client_of, identify, post_chat, shop_agent

TEXT = {"content-type": "text/plain"}
FULL = {
    "error": f"There is no room for this file: you can keep 100 bytes in {MAX_FILES:,} files. "
    "Delete others first."
}


async def test_a_person_keeps_files_up_to_a_limit_and_deletes_them(database: str) -> None:
    app = ChatApp(shop_agent(), identify, origins=[ORIGIN], database=database, max_stored_bytes=100)
    bob = {**as_person("bob"), **TEXT}
    async with client_of(app) as client:
        codes: list[int] = []

        async def send() -> None:
            sent = await client.post("/files", content=b"a" * 30, headers=TEXT)
            codes.append(sent.status_code)

        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(send)
        refused = await client.post("/files", content=b"a" * 11, headers=TEXT)
        small = await client.post("/files", content=b"a" * 10, headers=TEXT)
        other = await client.post("/files", content=b"b" * 90, headers=bob)
        place = f"/files/{small.json()['id']}"
        foreign = await client.delete(place, headers=bob)
        deleted = [(await client.delete(place)).status_code for _ in range(2)]
        again = await client.post("/files", content=b"a" * 10, headers=TEXT)

    assert sorted(codes) == [201] * 3 + [507] * 7
    assert (refused.status_code, refused.json()) == (507, FULL)
    answers = (small, other, foreign, again)
    assert [one.status_code for one in answers] == [201, 201, 404, 201]
    assert deleted == [204, 404]


async def test_messages_keep_each_of_their_files_once_and_up_to_a_limit(database: str) -> None:
    app = ChatApp(shop_agent(), identify, origins=[ORIGIN], database=database, max_stored_bytes=900)
    async with client_of(app) as client:
        kept = await client.post("/files", content=bytes(range(200)) * 2, headers=TEXT)
        chat = {"text": "a", "files": [kept.json()["id"]] * 3}
        await post_chat(client, {**chat, "conversation": "k"})
        stored = (await app._store.database.read(_SENT, principal="ada"))[0][0]  # noqa: SLF001
        full = await client.post("/chat", json=chat)
        await client.delete("/conversations/k")
        last = (await post_chat(client, chat))[-1]

    assert 530 < stored < 900  # 400 bytes as base64, once
    assert (full.status_code, last.data) == (507, {"status": "done", "reason": "answer"})


async def test_small_files_are_counted(sqlite: str) -> None:
    app = ChatApp(shop_agent(), identify, origins=[ORIGIN], database=sqlite)
    async with client_of(app) as client:
        await client.post("/files", content=b"", headers=TEXT)
        row = "INSERT INTO handrail_file SELECT principal, :id, name, kind, 0, 0, '' FROM "
        steps = [(f"{row}handrail_file LIMIT 1", [{"id": str(n)} for n in range(MAX_FILES - 2)])]
        await app._store.database.transact(steps, 0)  # noqa: SLF001  to save time
        codes = [
            (await client.post("/files", content=b"", headers=TEXT)).status_code for _ in range(2)
        ]

    assert codes == [201, 507]
