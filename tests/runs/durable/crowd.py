"""Many watchers of many runs: the workers, the pages, and what they must show."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import NamedTuple

import handrail
from handrail.runs.durable import DurableRuns

TESTS = Path(__file__).parents[2]
TALKER = Path(__file__).parent / "talker.py"


class Crowd(NamedTuple):
    """How many of each."""

    runs: int
    watchers: int
    kills: int
    workers: int
    slots: int
    """Of one worker: they must not all have the same runs."""
    words: int
    """In one reply."""
    pause: float
    """Seconds between two words."""
    replies: int


class Talkers:
    """Processes that work, one of which is killed now and then."""

    def __init__(self, url: str, crowd: Crowd) -> None:
        numbers = (crowd.slots, crowd.words, crowd.pause, crowd.replies)
        self._command = [sys.executable, str(TALKER), url, *map(str, numbers)]
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
def talking(url: str, crowd: Crowd) -> Generator[Talkers]:
    talkers = Talkers(url, crowd)
    for _ in range(crowd.workers):
        talkers.start()
    try:
        yield talkers
    finally:
        talkers.stop()


class Watcher:
    """A page: it shows text, loses its connection now and then, and comes back."""

    def __init__(self, runs: DurableRuns | None, run: str, luck: random.Random) -> None:
        self._runs = runs
        self.run = run
        self._luck = luck
        self.before = ""
        """The text of complete replies."""
        self.shown = ""
        """The text of the reply under way."""
        self.after = ""
        self.numbers: list[int] = []
        self.delays: list[float] = []
        self.replaced = 0

    @property
    def text(self) -> str:
        return self.before + self.shown

    async def watch(self) -> None:
        while not await self._watch_until_lost():
            pass

    async def _watch_until_lost(self) -> bool:
        assert self._runs is not None
        left = self._luck.randint(5, 200)
        async with aclosing(self._runs.watch(self.run, after=self.after)) as updates:
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
                if update.fields["event"] == "reply":
                    self.before, self.shown = self.text, ""
                left -= 1
                if not left:
                    return False
        return True


def judge(watchers: Sequence[Watcher], text: str) -> list[str]:
    """Return what is wrong with what pages show."""
    wrong = [watcher.text for watcher in watchers if watcher.text != text]
    orders = {tuple(watcher.numbers) for watcher in watchers}
    wrong += [str(order) for order in orders if list(order) != sorted(set(order))]
    return wrong + ([] if len(orders) == 1 else [f"{len(orders)} orders"])
