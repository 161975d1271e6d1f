"""Time from a model's delta to everyone who watches: `python bench/watchers.py postgres|sqlite|URL`.

One worker runs N runs (`--runs`, 10), each watched by M readers in another process (`--each`, 10).
A model says a word in every 0.2 seconds, and each word says when it was said.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio

from handrail.runs.durable import DurableRuns

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from runs.durable.crowd import Crowd, Watcher, talking
from services import Postgres


@contextmanager
def opened(kind: str) -> Generator[str]:
    """Yield a database's address."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"{folder}/runs.db"
    elif kind == "postgres":
        server = Postgres.start()
        try:
            yield server.url
        finally:
            server.stop()
    else:
        yield kind


async def measure(url: str, crowd: Crowd) -> list[float]:
    """Return each watcher's delay of each delta."""
    luck = random.Random(7)
    async with DurableRuns(url, {"talker": None}) as runs:  # type: ignore[dict-item]
        names = [await runs.start("talker", "Talk.") for _ in range(crowd.runs)]
        several = [Watcher(runs, names[n % len(names)], luck) for n in range(crowd.watchers)]
        with talking(url, crowd):
            async with anyio.create_task_group() as group:
                for watcher in several:
                    group.start_soon(watcher.watch)
    return sorted(delay for one in several for delay in one.delays)


def main() -> None:
    """Print the delays, and how busy the machine was."""
    parser = argparse.ArgumentParser()
    parser.add_argument("database")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--each", type=int, default=10)
    asked = parser.parse_args()
    watchers = asked.runs * asked.each
    shape = {"kills": 0, "workers": 1, "slots": 100, "words": 50, "pause": 0.2, "replies": 2}
    crowd = Crowd(runs=asked.runs, watchers=watchers, **shape)
    with opened(asked.database) as url:
        delays = anyio.run(measure, url, crowd)
    half, most = statistics.median(delays), delays[len(delays) * 99 // 100]
    print(f"{watchers} watchers of {asked.runs} runs, {len(delays)} deltas received")
    print(f"from delta to watcher: p50 {half:.3f} s (goal 0.1), p99 {most:.3f} s")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
