"""Many people watch many runs while workers are killed and connections are lost."""

from __future__ import annotations

import os
import random
import statistics

import anyio
import pytest

from handrail.messages import Reply
from handrail.runs.durable import DurableRun, DurableRuns
from runs.durable.crowd import Crowd, Watcher, judge, talking

SOAK = os.environ.get("HANDRAIL_PROFILE") == "soak"
CROWD = (
    Crowd(runs=50, watchers=500, kills=20, workers=4, slots=15, words=20, pause=0.2, replies=16)
    if SOAK
    else Crowd(runs=3, watchers=12, kills=1, workers=2, slots=100, words=20, pause=0.05, replies=2)
)


def text_of(run: DurableRun) -> str:
    """The text of all replies, as the journal has it."""
    assert run.state is not None
    return "".join(one.text for one in run.state.transcript() if isinstance(one, Reply))


@pytest.mark.timeout(1400)
async def test_everyone_ends_with_the_text_of_the_journal(database: str) -> None:
    luck = random.Random(7)  # noqa: S311
    async with DurableRuns(database, {"talker": None}) as runs:  # type: ignore[dict-item]
        names = [await runs.start("talker", "Talk.") for _ in range(CROWD.runs)]
        watchers = [
            Watcher(runs, names[number % len(names)], luck) for number in range(CROWD.watchers)
        ]
        with talking(database, CROWD) as talkers:
            async with anyio.create_task_group() as group:
                for watcher in watchers:
                    group.start_soon(watcher.watch)
                for _ in range(CROWD.kills):
                    with anyio.move_on_after(60):
                        while not any(len(one.shown) > 100 for one in watchers):  # noqa: ASYNC110
                            await anyio.sleep(0.05)
                    talkers.start()
                    talkers.kill()
                    if SOAK:
                        await anyio.sleep(luck.uniform(2, 4))
        ended = {name: await runs.get(name) for name in names}

    for name, run in ended.items():
        of_run = [one for one in watchers if one.run == name]
        assert (run.status, judge(of_run, text_of(run))) == ("done", [])
    if SOAK:  # a few workers can all be killed between two replies
        assert any(one.replaced for one in watchers)
    delays = sorted(delay for one in watchers for delay in one.delays)
    half, most = statistics.median(delays), delays[len(delays) * 99 // 100]
    replaced = sum(one.replaced for one in watchers)
    print(f"{len(delays)} deltas, {replaced} restarts: p50 {half:.3f} s, p99 {most:.3f} s")  # noqa: T201


def test_the_judge_finds_a_lost_a_doubled_and_a_misplaced_event() -> None:
    def page(shown: str, *numbers: int) -> Watcher:
        watcher = Watcher(None, "r", random.Random(1))  # noqa: S311
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
