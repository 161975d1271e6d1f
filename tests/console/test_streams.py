"""Many streams, silent clients and hostile text: one reader of the journal, and pages that load."""

from __future__ import annotations

import os
import time
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from console.crowd import crowded, read_event, read_status, requesting
from console.test_hostile import HOSTILE, PLAIN, findings, make_file, read_page
from console.visits import make_pending, park
from handrail.runs import SqliteJournal

SOAK = os.environ.get("HANDRAIL_PROFILE") == "soak"
STREAMS = 1_000 if SOAK else 30
SILENT = 100 if SOAK else 30
RUNS = 10


@pytest.mark.timeout(1_800)
async def test_many_streams_share_one_reader_and_little_memory(tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    journal = SqliteJournal(file)
    for number in range(RUNS):
        park(journal, make_pending(f"r{number}"))
    with crowded(file) as server:
        async with AsyncExitStack() as opened:
            async with requesting(server.port, "/runs/r1") as page:
                assert await read_status(BufferedByteReceiveStream(page)) == 200
            idle, readers = server.memory, server.readers
            streams = list[BufferedByteReceiveStream]()
            for number in range(STREAMS):
                path = f"/stream?page=/runs/r{number % RUNS}"
                stream = await opened.enter_async_context(requesting(server.port, path))
                streams.append(BufferedByteReceiveStream(stream))
                assert await read_status(streams[-1]) == 200
                await read_event(streams[-1])
            grown = server.memory - idle
            delays = list[float]()
            for number in range(5 if SOAK else 1):
                began = time.monotonic()
                park(journal, make_pending("r1", f"new{number}"))
                while f'id="turn-{4 + 2 * number}"' not in await read_event(streams[1]):
                    pass
                delays.append(time.monotonic() - began)
            at_the_end = server.readers
    delays.sort()
    print(f"{STREAMS} streams: {grown:.0f} MB; event to page at most {delays[-1]:.2f} s")  # noqa: T201

    assert readers == at_the_end == 1
    assert grown < 64
    assert not SOAK or delays[-1] < 1


async def test_clients_that_say_or_read_nothing_block_no_one(tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    park(SqliteJournal(file), make_pending("r1"))
    with crowded(file) as server, anyio.fail_after(60):
        async with AsyncExitStack() as opened:
            for _ in range(SILENT):
                await opened.enter_async_context(await anyio.connect_tcp("127.0.0.1", server.port))
                half = await anyio.connect_tcp("127.0.0.1", server.port)
                await opened.enter_async_context(half)
                await half.send(b"POST /inbox HTTP/1.1\r\nHost: x\r\n")
                path = "/stream?page=/inbox"
                await opened.enter_async_context(requesting(server.port, path))
            async with requesting(server.port, "/inbox") as page:
                found = await read_status(BufferedByteReceiveStream(page))
        async with requesting(server.port, "/stream?page=/inbox") as stream:
            reader = BufferedByteReceiveStream(stream)
            streamed = await read_status(reader), await read_event(reader)

    assert found == streamed[0] == 200
    assert "Waiting for you · 1" in streamed[1]


async def test_a_stream_of_hostile_text_has_the_elements_of_the_template(tmp_path: Path) -> None:
    texts = {"plain": PLAIN, "hostile": " ".join(HOSTILE[:15]), "odd": "a\u202eb p\u0430ypal"}
    shown = dict[str, list[str]]()
    for name, text in texts.items():
        (tmp_path / name).mkdir()
        file = make_file(tmp_path / name, text)
        with crowded(file) as server, anyio.fail_after(60):
            for page in ("/inbox", "/runs", "/runs/r1"):
                async with requesting(server.port, f"/stream?page={page}") as stream:
                    reader = BufferedByteReceiveStream(stream)
                    assert await read_status(reader) == 200
                    shown.setdefault(name, []).append(await read_event(reader))
    known = {one for html in (*shown["plain"], *shown["odd"]) for one in read_page(html).elements}
    found = [
        findings(html, plain, known)
        for html, plain in zip(shown["hostile"], shown["plain"], strict=True)
    ]
    raw = shown["plain"][0].replace("</ul>", f"{HOSTILE[1]}</ul>", 1)

    assert found == [[], [], []]
    assert findings(raw, shown["plain"][0], known) != []  # the control
