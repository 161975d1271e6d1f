"""Runs pay through a bank in another process, while everything around them fails.

`HANDRAIL_KILLS` says how many workers are killed on each database, in parts of at most 500. With
`-s`, a part prints its counts after each 50 kills. `SIGTERM` ends the kills early: its runs end, it
prints its counts, and it fails, because kills are missing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from math import ceil
from pathlib import Path
from threading import Event

import anyio
import pytest
from anyio import to_thread

import handrail
from handrail.runs import open_runs
from handrail.runs.chain import verify_all
from handrail.runs.durable import DurableRuns
from handrail.runs.migrating import migrate_tables
from runs.durable.fleet import Fleet, make_client
from runs.durable.shop import Ledger
from runs.durable.workers import TESTS, Forks
from services import Postgres, find_binaries

IN_ALL = int(os.environ.get("HANDRAIL_KILLS", "1000"))
PARTS = ceil(IN_ALL / 500)
KILLS = IN_ALL // PARTS
"""In each part."""
AWAY_SECONDS = 76.0
EXIT_CODES = {0, 75}


class Outage:
    """A database of its own that can be away."""

    def __init__(self, url: str, server: Postgres | None) -> None:
        self.url = url
        self._server = server

    async def happen(self, fleet: Fleet, seconds: float) -> None:
        """Let the server be away. A SQLite file is locked instead."""
        if self._server is None:
            with fleet.tables.lock_file():
                await anyio.sleep(seconds)
        else:
            await to_thread.run_sync(self._server.halt)
            await anyio.sleep(seconds)
            await to_thread.run_sync(self._server.launch)
        fleet.restarts += 1


@pytest.fixture(params=["sqlite", "postgres"])
async def outage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Outage]:
    if request.param == "sqlite":
        url, server = str(tmp_path / "runs.db"), None
    elif find_binaries() is None:
        pytest.skip("needs PostgreSQL: install `postgresql`")
    else:
        server = await to_thread.run_sync(Postgres.start)
        url = server.url
    await to_thread.run_sync(migrate_tables, url)
    yield Outage(url, server)
    if server is not None:
        await to_thread.run_sync(server.stop)


def start(name: str, *arguments: str) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(Path(handrail.__file__).parents[1]), str(TESTS)])
    given = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    return subprocess.Popen(  # noqa: S603  our own script
        [sys.executable, str(Path(__file__).parent / name), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**given, "PYTHONPATH": path},
    )


@contextmanager
def open_bank(ledger: Path) -> Generator[int]:
    """Let a bank keep a ledger. Gives its port."""
    with start("bank.py", str(ledger)) as bank:
        try:
            assert bank.stdout is not None
            yield int(bank.stdout.readline())
        finally:
            bank.kill()


class People:
    """Two people who answer the same requests at the same moment, in processes of their own."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._files = {name: folder / name for name in ("alice", "bob")}
        self._processes = {name: self._start(name) for name in self._files}

    def _start(self, name: str) -> subprocess.Popen[str]:
        return start("people.py", self._url, name, str(self._files[name]))

    def kill(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        process.communicate()

    def replace(self, name: str) -> None:
        """Kill one of them, and start another one with the same name."""
        self.kill(name)
        self._processes[name] = self._start(name)

    def end(self) -> None:
        for name in list(self._processes):
            self.kill(name)

    def count(self) -> Counter[str]:
        """How often an answer to each request was used."""
        return sum((Ledger(path).count() for path in self._files.values()), Counter[str]())


@pytest.fixture
def told_to_end() -> Generator[Event]:
    """What SIGTERM sets, which ends nothing itself."""
    heard = Event()
    before = signal.signal(signal.SIGTERM, lambda *_: heard.set())
    try:
        yield heard
    finally:
        signal.signal(signal.SIGTERM, before)


def check_chains(url: str) -> tuple[int, list[str]]:
    """Return how many runs there are, and those whose chain is broken."""
    with open_runs(url) as store:
        found = dict(verify_all(store))
    return len(found), [run for run, broken in found.items() if broken is not None]


@asynccontextmanager
async def paying(
    forks: Forks, folder: Path, outage: Outage
) -> AsyncGenerator[tuple[Fleet, People, DurableRuns]]:
    """Three workers whose runs pay through a bank, and two people who answer them."""
    ledger = folder / "ledger"
    with open_bank(ledger) as bank:
        options = {"name": "bank", "pause": 0.05, "bank": bank, "queued": ["wire"], "drain": 5.0}
        fleet = Fleet(forks, ledger, outage.url, **options)
        fleet.answers = False
        people = People(outage.url, folder)
        try:
            for _ in range(3):
                fleet.add_worker()
            async with make_client(outage.url, ledger) as runs:
                await fleet.begin(runs)
                yield fleet, people, runs
                await fleet.finish(runs)
        finally:
            people.end()
            fleet.end()


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(PARTS))
async def test_everything_fails_and_each_payment_is_made_once(  # noqa: PLR0917  fixtures
    forks: Forks, tmp_path: Path, outage: Outage, told_to_end: Event, part: int
) -> None:
    began = time.monotonic()
    codes: set[int] = set()
    is_file = not outage.url.startswith("postgresql")
    every: Callable[[int], bool] = lambda count: fleet.kills % count == count - 1  # noqa: E731
    async with paying(forks, tmp_path, outage) as (fleet, people, runs):
        while fleet.kills < KILLS and not told_to_end.is_set():
            await fleet.keep_busy(runs, 6)
            if every(20):
                codes.add(await fleet.end_one(runs))
                people.replace("alice" if fleet.ends % 2 else "bob")
            if every(15):
                await fleet.stop_one(runs)
            if every(10):
                await (fleet.fill_disk(0.5) if is_file else fleet.drop_all())
            if fleet.kills >= KILLS // 2 and not fleet.restarts:
                await outage.happen(fleet, AWAY_SECONDS)
            await fleet.kill_one(runs)
            if not fleet.kills % 50:
                print(f"\npart {part}: {fleet.summary}", flush=True)  # noqa: T201  a long run
        rate = fleet.kills / (time.monotonic() - began) * 60
    chains, broken = await to_thread.run_sync(check_chains, outage.url)
    used = people.count()
    print(  # noqa: T201  the summary of a long run
        f"\n{fleet.summary}\n{rate:.0f} kills in a minute, {fleet.ends} ended by SIGTERM, "
        f"{fleet.drops} times no connection or no disk, {len(used)} answers of two people, "
        f"{chains} chains"
    )

    assert (fleet.summary.doubled, fleet.summary.wrong, broken) == ((), (), [])
    assert (fleet.kills, fleet.restarts, chains) == (KILLS, 1, fleet.summary.runs)
    assert codes <= EXIT_CODES
    assert set(used.values()) == {1}
