"""Many people watch chats over HTTP while workers and web processes are killed."""

from __future__ import annotations

import json
import os
import random
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from handrail.messages import Reply
from handrail.runs.durable import DurableRuns
from handrail.web.conversations import Conversations
from runs.durable.crowd import Crowd, Talkers, judge, talking
from web.chats import as_person

PROGRAM = Path(__file__).parent / "crowd_program.py"
SOAK = os.environ.get("HANDRAIL_PROFILE") == "soak"
CROWD = (
    Crowd(runs=50, watchers=500, kills=20, workers=4, slots=15, words=5, pause=1.0, replies=8)
    if SOAK
    else Crowd(runs=2, watchers=8, kills=1, workers=1, slots=100, words=20, pause=0.1, replies=2)
)
"""A reply is short beside the time between two kills: runs whose workers die again run alone."""
WEB = 2
"""Web processes. Two of five kills are theirs."""
PAUSE_SECONDS = 3.0
"""Between two kills of many."""
MAX_LINE = 1_000_000
LOST = (OSError, anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError)


class Servers:
    """Web processes, one of which is killed now and then, and starts again at its port."""

    def __init__(self, database: str) -> None:
        with (
            socket.create_server(("127.0.0.1", 0)) as one,
            socket.create_server(("127.0.0.1", 0)) as two,
        ):
            self.ports = [server.getsockname()[1] for server in (one, two)]
        self._database = database
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, port: int) -> None:
        command = [sys.executable, str(PROGRAM), self._database, str(port)]
        path = {**os.environ, "PYTHONPATH": str(PROGRAM.parents[1])}
        self._processes[port] = subprocess.Popen(command, env=path)  # noqa: S603

    def kill(self, port: int) -> None:
        self._processes[port].kill()
        self._processes.pop(port).wait()


@contextmanager
def serving(database: str) -> Generator[Servers]:
    servers = Servers(database)
    for port in servers.ports:
        servers.start(port)
    try:
        yield servers
    finally:
        for port in servers.ports:
            servers.kill(port)


class Page:
    """A browser: it shows text, loses its connection, and comes back with the last id it has."""

    def __init__(self, ports: list[int], person: str, luck: random.Random) -> None:
        self._ports = ports
        self.person = person
        self._luck = luck
        self.before = self.shown = self.last = ""
        self.numbers: list[int] = []
        self.delays: list[float] = []
        self.replaced = self.lost = 0

    @property
    def text(self) -> str:
        return self.before + self.shown

    async def watch(self) -> None:
        while True:
            with suppress(*LOST):
                async for event, data, id_ in self._read():
                    self._show(event, data, id_)
                    if event == "end":
                        return
            self.lost += 1
            await anyio.sleep(self._luck.uniform(0.1, 0.5))

    async def _read(self) -> AsyncGenerator[tuple[str, Any, str]]:
        headers = {"authorization": f"Bearer {self.person}", "last-event-id": self.last}
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        head = f"GET /conversations/k/events HTTP/1.0\r\n{lines}\r\n"
        async with await anyio.connect_tcp("127.0.0.1", self._luck.choice(self._ports)) as stream:
            await stream.send(head.encode())
            lines = BufferedByteReceiveStream(stream)
            status = await lines.receive_until(b"\r\n\r\n", MAX_LINE)
            assert b" 200 " in status, status
            while True:
                block = (await lines.receive_until(b"\n\n", MAX_LINE)).decode()
                fields = dict(one.partition(": ")[::2] for one in block.split("\n"))
                if "data" in fields:
                    yield fields["event"], json.loads(fields["data"]), fields.get("id", "")

    def _show(self, event: str, data: Any, id_: str) -> None:
        self.last = id_ or self.last
        if event == "text":
            self.shown += data["text"]
            said = float(data["text"].split()[-1].partition("@")[2])
            self.delays.append(time.time() - said)
        elif event == "restart":
            self.shown, self.replaced = "", self.replaced + 1
        elif event != "begin":
            self.numbers.append(int(id_.partition(":")[2].partition("-")[0]))
        if event == "reply":
            self.before, self.shown = self.text, ""


async def begin(port: int, people: list[str]) -> None:
    """Send each person's message, as soon as the server is there."""
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except ConnectionRefusedError:
            await anyio.sleep(0.05)
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        for person in people:
            body, headers = {"text": "Talk.", "conversation": "k"}, as_person(person)
            async with client.stream("POST", "/chat", json=body, headers=headers) as response:
                assert response.status_code == 200, await response.aread()


async def kill_some(servers: Servers, talkers: Talkers, pages: list[Page]) -> None:
    with anyio.move_on_after(60):
        while not any(page.shown for page in pages):  # noqa: ASYNC110  workers must begin
            await anyio.sleep(0.05)
    for number in range(CROWD.kills):
        if SOAK:
            await anyio.sleep(PAUSE_SECONDS)
        if number % 5 < WEB:
            port = servers.ports[number % 5]
            servers.kill(port)
            servers.start(port)
        if number % 5 >= WEB or not SOAK:
            talkers.start()
            talkers.kill()


@pytest.mark.soak
@pytest.mark.parametrize("database", ["postgres", "sqlite"], indirect=True)
@pytest.mark.timeout(1_400)
async def test_every_page_ends_with_the_text_of_the_journal(database: str) -> None:
    luck = random.Random(7)  # noqa: S311
    people = [f"ada{number}" for number in range(CROWD.runs)]
    with serving(database) as servers, talking(database, CROWD) as talkers:
        await begin(servers.ports[0], people)
        pages = [Page(servers.ports, people[n % len(people)], luck) for n in range(CROWD.watchers)]
        async with anyio.create_task_group() as group:
            group.start_soon(kill_some, servers, talkers, pages)
            for page in pages:
                group.start_soon(page.watch)
    wrong: list[str] = []
    async with DurableRuns(database, {"talker": None}) as runs:  # type: ignore[dict-item]
        heads = Conversations(runs.store)
        for person in people:
            run = await runs.get((await heads.head(person, "k")).run)
            assert run.state is not None
            said = [one.text for one in run.state.transcript() if isinstance(one, Reply)]
            wrong += judge([one for one in pages if one.person == person], "".join(said))  # type: ignore[misc]
    delays = sorted(delay for one in pages for delay in one.delays)
    half, most = statistics.median(delays), delays[len(delays) * 99 // 100]
    about = f"{sum(one.lost for one in pages)} reconnections, {sum(one.replaced for one in pages)} restarts"
    load = f"load average {os.getloadavg()[0]:.1f}"
    print(f"{len(delays)} pieces, {about}: p50 {half:.3f} s, p99 {most:.3f} s, {load}")  # noqa: T201

    assert wrong == []
    assert any(one.replaced for one in pages)
