"""Many people watch many runs while workers are killed and connections are lost."""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest

import handrail
from handrail.runs.durable import DurableRuns

SOAK = os.environ.get("HANDRAIL_PROFILE") == "soak"
TESTS = Path(__file__).parents[2]
TALKER = Path(__file__).parent / "talker.py"


class Crowd(NamedTuple):
    runs: int
    watchers: int
    kills: int
    words: int
    pause: float


CROWD = Crowd(50, 500, 20, 150, 0.2) if SOAK else Crowd(3, 12, 1, 40, 0.05)


class Talkers:
    """Two processes that work, one of which is killed now and then."""

    def __init__(self, url: str) -> None:
        self._command = [sys.executable, str(TALKER), url, str(CROWD.words), str(CROWD.pause)]
        path = os.pathsep.join([str(Path(handrail.__file__).parents[1]), str(TESTS)])
        self._environment = {**os.environ, "PYTHONPATH": path}
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self._processes.append(subprocess.Popen(self._command, env=self._environment))  # noqa: S603

    def kill(self) -> None:
        process = self._processes.pop(0)
        process.kill()
        process.wait()

    def stop(self) -> None:
        while self._processes:
            self.kill()


@contextmanager
def talking(url: str, count: int) -> Generator[Talkers]:
    talkers = Talkers(url)
    for _ in range(count):
        talkers.start()
    try:
        yield talkers
    finally:
        talkers.stop()


class Watcher:
    """A page: it shows text, loses its connection now and then, and comes back."""

    def __init__(self, runs: DurableRuns, run: str, luck: random.Random) -> None:
        self._runs = runs
        self._run = run
        self._luck = luck
        self.shown = ""
        self.after = ""
        self.numbers: list[int] = []
        self.delays: list[float] = []
        self.replaced = 0

    async def watch(self) -> None:
        while not await self._watch_until_lost():
            pass

    async def _watch_until_lost(self) -> bool:
        left = self._luck.randint(5, 200)
        async with aclosing(self._runs.watch(self._run, after=self.after)) as updates:
            async for update in updates:
                self.after = update.id
                if update.fields["event"] == "delta":
                    self.shown += update.fields["text"]
                    said = float(update.fields["text"].split()[-1].partition("@")[2])
                    self.delays.append(time.time() - said)
                elif update.fields["event"] == "restart":
                    self.shown, self.replaced = "", self.replaced + 1
                else:
                    self.numbers.append(int(update.id.partition("-")[0]))
                left -= 1
                if not left:
                    return False
        return True


def judge(watchers: Sequence[Watcher], text: str) -> list[str]:
    """Return what is wrong with what pages show."""
    wrong = [watcher.shown for watcher in watchers if watcher.shown != text]
    orders = {tuple(watcher.numbers) for watcher in watchers}
    wrong += [str(order) for order in orders if list(order) != sorted(set(order))]
    return wrong + ([] if len(orders) == 1 else [f"{len(orders)} orders"])


@pytest.mark.timeout(1800)
async def test_everyone_ends_with_the_text_of_the_journal(database: str) -> None:
    luck = random.Random(7)  # noqa: S311
    async with DurableRuns(database, {"talker": None}) as runs:  # type: ignore[dict-item]
        names = [await runs.start("talker", "Talk.") for _ in range(CROWD.runs)]
        watchers = [
            Watcher(runs, names[number % len(names)], luck) for number in range(CROWD.watchers)
        ]
        with talking(database, 2) as talkers:
            async with anyio.create_task_group() as group:
                for watcher in watchers:
                    group.start_soon(watcher.watch)
                for _ in range(CROWD.kills):
                    with anyio.move_on_after(60):
                        while not any(len(one.shown) > 300 for one in watchers):  # noqa: ASYNC110
                            await anyio.sleep(0.05)
                    talkers.start()
                    talkers.kill()
                    if SOAK:
                        await anyio.sleep(luck.uniform(1, 3))
        ended = {name: await runs.get(name) for name in names}

    for name, run in ended.items():
        of_run = [one for one in watchers if one._run == name]  # noqa: SLF001
        assert (run.status, judge(of_run, run.text)) == ("done", [])
    if SOAK:  # a few workers can all be killed between two replies
        assert any(one.replaced for one in watchers)
    delays = sorted(delay for one in watchers for delay in one.delays)
    half, most = statistics.median(delays), delays[len(delays) * 99 // 100]
    print(f"{len(delays)} deltas: p50 {half:.3f} s, p99 {most:.3f} s")  # noqa: T201


def test_the_judge_finds_a_lost_a_doubled_and_a_misplaced_event() -> None:
    def page(shown: str, *numbers: int) -> Watcher:
        watcher = Watcher(None, "r", random.Random(1))  # type: ignore[arg-type]  # noqa: S311
        watcher.shown, watcher.numbers = shown, list(numbers)
        return watcher

    good = page("a b ", 1, 2, 3)
    assert judge([good, good], "a b ") == []
    bad = [
        page("a ", 1, 2, 3),
        page("a b b ", 1, 2, 3),
        page("a b ", 1, 3, 2),
        page("a b ", 1, 2, 2),
    ]
    assert [judge([good, one], "a b ") != [] for one in bad] == [True] * 4
