"""Durable runs per second with 1, 2 and 4 workers: `python bench/scale.py sqlite|URL [RUNS]`.

A run has three turns of three READ calls and an answer, and its model answers at once. CPU time is
that of the workers, and of PostgreSQL. On a shared machine, trust it more than the time.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from handrail import READ, Call, Text, tool
from handrail.agent import Agent
from handrail.messages import Reply, Request
from handrail.runs.durable import DurableRuns, DurableWorker

TURNS, CALLS, SLOTS = 3, 3, 50
TICKS = os.sysconf("SC_CLK_TCK")


@tool(effect=READ)
async def look(number: int) -> str:
    """Look at a shelf."""
    return f"saw {number}"


async def model(request: Request) -> Reply:
    turn = sum(isinstance(message, Reply) for message in request.messages)
    if turn == TURNS:
        return Reply((Text("Done."),))
    return Reply(tuple(Call("look", {"number": n}, f"c{turn}-{n}") for n in range(CALLS)))


def make_runs(address: str) -> DurableRuns:
    return DurableRuns(address, {"bench": Agent(model, [look])}, poll=0.05)


def spent(pids: Iterable[int]) -> float:
    """Return the CPU seconds of processes and of their children that have ended."""
    total = 0
    for pid in pids:
        if not Path(f"/proc/{pid}").exists():
            continue
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        total += sum(map(int, fields[11:15]))
    return total / TICKS


def find_server(address: str) -> list[int]:
    """Return the processes of a PostgreSQL on this machine, by its port."""
    port = address.rpartition("/")[0].rpartition(":")[2]
    processes: dict[int, tuple[int, str]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_text(encoding="utf-8").replace("\0", " ")
            fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        processes[int(folder.name)] = int(fields[1]), command
    parents = {pid for pid, (_, command) in processes.items() if f"postgres -p {port}" in command}
    parents |= {pid for pid, (_, command) in processes.items() if f" -p {port} " in command}
    return [pid for pid, (parent, _) in processes.items() if pid in parents or parent in parents]


async def measure(address: str, workers: int, count: int) -> str:
    runs = make_runs(address)
    async with runs:
        pass  # the tables
    command = [sys.executable, __file__, "worker", address]
    several = [
        subprocess.Popen(  # noqa: ASYNC220  short
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        for _ in range(workers)
    ]
    for worker in several:
        assert worker.stdout is not None
        await asyncio.to_thread(worker.stdout.readline)
    pids = [worker.pid for worker in several]
    server = find_server(address) if address.startswith("postgresql") else []
    before, of_server = spent(pids), spent(server)
    async with runs:
        began = time.monotonic()
        for number in range(count):
            await runs.start("bench", "Go.", run_id=f"{workers}-{number}")
        while len(await runs.list("done", limit=count)) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        seconds = time.monotonic() - began
    cpu = (spent(pids) - before) / count * 1000
    server = find_server(address) if server else []
    database = (spent(server) - of_server) / count * 1000
    for worker in several:
        worker.terminate()
        worker.wait()
    return f"| {workers} | {count / seconds:.1f} | {cpu:.0f} ms | {database:.0f} ms |"


def main(kind: str, count: int) -> None:
    print("| workers | runs per second | CPU of workers per run | CPU of the server per run |")
    for workers in (1, 2, 4):
        if kind == "sqlite":
            with tempfile.TemporaryDirectory() as folder:
                print(asyncio.run(measure(f"{folder}/runs.db", workers, count)), flush=True)
        else:
            base = kind.rpartition("/")[0]
            print(asyncio.run(measure(f"{base}/scale{workers}", workers, count)), flush=True)


def say(_worker: DurableWorker, _port: int) -> None:
    print("ready", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        asyncio.run(make_runs(sys.argv[2]).serve(slots=SLOTS, on_start=say))
    else:
        main(sys.argv[1], int(sys.argv[2]) if sys.argv[2:] else 100)
