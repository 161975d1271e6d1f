"""Many streams, silent clients and hostile text: one reader of the journal, and pages that load."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from console.browser import serving
from console.crowd import crowded, read_event, read_status, requesting
from console.scenes import make_console
from console.test_hostile import HOSTILE, PLAIN, findings, make_file, read_page
from console.test_live import read_events, streaming
from console.visits import make_pending, park
from handrail.console._stream import OF_CALLS
from handrail.runs import RunRecord, open_runs
from handrail.runs._reading.records import Records

SOAK = os.environ.get("HANDRAIL_PROFILE") == "soak"
STREAMS = 1_000 if SOAK else 30
SILENT = 100 if SOAK else 30
RUNS = 10


@pytest.mark.timeout(1_800)
async def test_many_streams_share_one_reader_and_little_memory(tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    journal = open_runs(file)
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

    assert readers <= at_the_end <= 3
    assert grown < 64
    assert not SOAK or delays[-1] < 1


LIMIT = 1_024 if SOAK else 150
HIGH = 4_096


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(
    ("hard", "expected"),
    [(LIMIT, LIMIT * 2 // 3), (HIGH, min(1_000, LIMIT))],
    ids=["cannot be raised", "can be raised"],
)
async def test_more_streams_than_open_files_are_refused_and_pages_still_load(
    tmp_path: Path, hard: int, expected: int
) -> None:
    file = tmp_path / "journal.db"
    park(open_runs(file), make_pending("r1"))
    found, texts = Counter[int](), list[bytes]()
    with crowded(file, files=(LIMIT, hard)) as server:
        async with AsyncExitStack() as opened:
            for _ in range(LIMIT):
                path = "/stream?page=/runs/r1"
                stream = await opened.enter_async_context(requesting(server.port, path))
                reader = BufferedByteReceiveStream(stream)
                status = await read_status(reader)
                found[status] += 1
                if status == 200:
                    await read_event(reader)
                elif not texts:
                    texts.append(await reader.receive_until(b"</html>", 100_000))
            async with requesting(server.port, "/runs/r1") as page:
                loaded = await read_status(BufferedByteReceiveStream(page))
        async with requesting(server.port, "/stream?page=/runs/r1") as stream:
            again = await read_status(BufferedByteReceiveStream(stream))
    print(f"{LIMIT} of {hard} files: {dict(found)}")  # noqa: T201

    assert found == Counter({200: expected, 503: LIMIT - expected})
    assert [b"Not live now" in one for one in texts] == [True] * (expected < LIMIT)
    assert (loaded, again) == (200, 200)


def read_until(streams: list[Iterator[tuple[int, str]]], text: str) -> None:
    """Read streams until each has shown a text."""
    for one in streams:
        while text not in next(one)[1]:
            pass


PEOPLE = 20 if SOAK else 2
EVENTS = 200 if SOAK else 5


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("kinds", [OF_CALLS, frozenset[str]()], ids=["few", "the control"])
def test_an_inbox_is_read_again_only_if_it_can_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kinds: frozenset[str]
) -> None:
    monkeypatch.setattr("handrail.console._stream.OF_CALLS", kinds)
    monkeypatch.setattr("handrail.console._stream.LIST_SECONDS", 600.0)
    monkeypatch.setattr("handrail.console._stream.GAP_SECONDS", 0.01)
    monkeypatch.setattr("handrail.console._stream.MAX_WAKES", 1_000)
    file, reads = tmp_path / "journal.db", list[int]()
    read = Records.inbox

    def count(records: Records, **options: Any) -> Any:
        reads.append(1)
        return read(records, **options)

    journal = open_runs(file)
    park(journal, make_pending("r1"))
    monkeypatch.setattr(Records, "inbox", count)
    with serving(partial(make_console, file)) as (url, _), ExitStack() as opened:
        streams = [
            read_events(opened.enter_context(streaming(url, "/inbox", **name)).iter_lines())
            for name in [{"x-forwarded-user": f"p{number}"} for number in range(PEOPLE)] * 5
        ]
        turns = read_events(opened.enter_context(streaming(url, "/runs/r1")).iter_lines())
        read_until([turns], "<b>1</b><span>call<")
        park(journal, make_pending("r2"))  # from here on, an inbox was read recently
        read_until(streams, "Waiting for you · 2")
        before = len(reads)
        for number in range(EVENTS):
            call = {"at": 1.8e9, "call_id": f"n{number}"}
            RunRecord(journal, "r1").note([{**call, "event": "requested", "tool": "x", "args": {}}])
            read_until([turns], f"<b>{number + 2}</b><span>calls<")
        quiet = len(reads) - before
        park(journal, make_pending("r3"))
        read_until(streams, "Waiting for you · 3")
    print(f"{5 * PEOPLE} streams of {PEOPLE} people, {EVENTS} events: {quiet} reads of an inbox")  # noqa: T201

    assert (quiet <= PEOPLE) == (kinds == OF_CALLS)


async def test_clients_that_say_or_read_nothing_block_no_one(tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    park(open_runs(file), make_pending("r1"))
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
