"""Start and kill workers: a process that forks them, and the judge of what they did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import handrail
from handrail import FailureKind, Result
from handrail.messages import ToolResults
from handrail.runs.durable import DurableRun, DurableRuns
from runs.durable.shop import Ledger

TESTS = Path(__file__).parents[2]


class Forks:
    """Forks workers from one loaded process, and waits for each."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.cpu = 0.0

    def warm(self, url: str) -> None:
        """Prepare for many workers on one database."""
        self._say({"warm": url})

    def run(self, ledger: Path, url: str, run: str, **options: Any) -> bool:
        """Run one worker on a run. Returns whether it was killed."""
        self.begin(ledger, url, run, **options)
        return self.end()

    def begin(self, ledger: Path, url: str, run: str, **options: Any) -> None:
        """Start one worker on a run. Only one at a time."""
        chosen: dict[str, Any] = {
            "agent": "shop",
            "agents": [],
            "deaths": 0,
            "queued": [],
            "bank": 0,
            "drains": False,
            "crash": "",
            "control": "",
            "kill_after": 0,
            "kill_when": "",
            "pause": 0.001,
            "drain": 30.0,
            "grace": 5.0,
            "idle": 10.0,
            "synced": False,
            **options,
        }
        self._say({"ledger": str(ledger), "url": url, "run": run, **chosen})

    def spawn(self, ledger: Path, url: str, **options: Any) -> int:
        """Start a worker that works until it is killed. Returns its process id."""
        self.begin(ledger, url, "", **{"poll": 0.25, "interval": 1.0, **options})
        return int(self._read()["pid"])

    def stop(self, pid: int) -> None:
        """Stop a worker that `spawn` started, and wait until each of its threads has stopped.

        On a loaded machine, they run on for a while after the signal.
        """
        self._say({"stop": pid})
        assert os.WIFSTOPPED(self._read()["code"])

    def reap(self, pid: int) -> int:
        """Wait for the end of a worker that `spawn` started."""
        self._say({"reap": pid})
        return int(self._read()["code"])

    def run_program(self, path: Path, *arguments: str) -> None:
        """Run a program of Python in a process and a folder of its own."""
        self._say({"program": str(path), "arguments": arguments})
        assert self._read() == {"code": 0}

    def _say(self, order: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def end(self) -> bool:
        """Wait for the worker. Returns whether it was killed."""
        said = self._read()
        self.cpu += said["cpu"]
        assert said["code"] in (0, 9), said
        return said["killed"]


@contextmanager
def forking(folder: Path) -> Generator[Forks]:
    """A process that forks workers. It is no part of the coverage: it is killed all the time."""
    library = folder / "synced.so"
    source = Path(__file__).parent / "synced.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)  # noqa: S603, S607
    path = os.pathsep.join([str(Path(handrail.__file__).parents[1]), str(TESTS)])
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")
    }
    with subprocess.Popen(  # noqa: S603  our own script
        [sys.executable, str(Path(__file__).parent / "zygote.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**environment, "PYTHONPATH": path, "LD_PRELOAD": str(library)},
    ) as process:
        yield Forks(process)
        assert process.stdin is not None
        process.stdin.close()


class Verdict(NamedTuple):
    """What the ledger says of a run."""

    doubled: tuple[str, ...] = ()
    """Payments that were made twice."""
    wrong: tuple[str, ...] = ()
    """Calls whose result says something else than the ledger."""
    unknown: int = 0


async def judge(ledger: Path, url: str, run: str, *, zombies: bool = False) -> Verdict:
    """Compare the results of a run with the ledger.

    With zombies, a call that could be settled may be unknown too: another worker may be at it.
    """
    made = Ledger(ledger)
    async with DurableRuns(url, {}) as runs:
        ended = await runs.get(run)
    if (ended.status, ended.text) != ("done", "All done."):
        return Verdict(wrong=(f"{run}: {ended.status} {ended.why}",))
    effects = Counter({line: count for line, count in made.count().items() if f" {run}" in line})
    once = [line for line in effects if line.startswith(("pay", "wire"))]
    calls = list(_results(ended))
    wrong = [
        f"{key}: {result.text}"
        for key, result in calls
        if not _is_right(key, result, effects, zombies=zombies)
    ]
    unknown = [key for key, result in calls if _kind(result) is FailureKind.UNKNOWN]
    return Verdict(tuple(line for line in once if effects[line] > 1), tuple(wrong), len(unknown))


def _results(ended: DurableRun) -> Generator[tuple[str, Result]]:
    messages: Any = () if ended.state is None else ended.state.messages
    turns = [message for message in messages if isinstance(message, ToolResults)]
    for number, turn in enumerate(turns, 1):
        for result in turn.results:
            yield f"{ended.id}/{number}/{result.call_id}", result


def _kind(result: Result) -> FailureKind | None:
    return None if result.failure is None else result.failure.kind


def _is_right(key: str, result: Result, effects: Counter[str], *, zombies: bool) -> bool:
    """A good result has its effect; an unknown one may; a call that can be settled is never unknown."""
    name = key.rpartition("/")[2].partition("-")[0]
    if name == "helper":
        return _kind(result) in (None, FailureKind.UNKNOWN)
    happened = effects[f"{name} {key}"] > 0
    if name in ("pay", "wire" if zombies else "pay") and _kind(result) is FailureKind.UNKNOWN:
        return True
    if zombies and _kind(result) is FailureKind.TRANSIENT:
        return not happened  # the disk was full, and the call was refused
    return result.failure is None and happened
