"""Forks workers from one loaded process: `python zygote.py`, one JSON line per worker.

A worker starts or joins a run, answers its questions, and ends when the run has ended. It is killed
at a named point, or after some seconds. One without a run works until it is killed; its line of
output has its process id at once.

A line with `warm` runs something here, before the forks: they then have what SQLAlchemy and DBOS
prepare once for each database, which is half of the work of a worker that soon dies.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import anyio

import crash_points
from forked import measure_copies
from handrail import Allow
from handrail.runs._durable import once, recorder, segments  # once for all forks
from handrail.runs._engine import dbos_connections, dbos_engine, workflows
from handrail.runs._serving import worker
from handrail.runs._store import postgres, sqlite
from handrail.runs.durable import CallQueue, DurableRuns
from runs.durable.poison import make_poison_agents
from runs.durable.programs import make_program_agents
from runs.durable.shop import Ledger, call_once, make_agent
from runs.durable.slow import make_slow_agents

POLL = 0.03
LOADED = (dbos_engine, segments, worker)
LEDGER = Ledger(Path(os.devnull))
AGENTS = {
    "shop": make_agent(LEDGER),
    "pay": make_agent(LEDGER, call_once("pay")),
    "wire": make_agent(LEDGER, call_once("wire")),
    **make_slow_agents(LEDGER),
    **make_poison_agents(LEDGER),
    **make_program_agents(LEDGER),
}
SET_UP = sqlite.set_up
WARM: dict[tuple[str, float], DurableRuns] = {}
DEATHS = 1_000
"""Tests kill the workers of a run more often than any operator would see."""


def find_runs(url: str, poll: float) -> DurableRuns:
    return WARM.get((url, poll)) or DurableRuns(url, AGENTS, poll=poll, max_deaths=DEATHS)


async def work(order: dict[str, Any]) -> None:
    runs = find_runs(order["url"], POLL)
    async with runs.work(interval=0.1):
        run_id = await runs.start(order["agent"], "Do it.", run_id=order["run"])
        with anyio.fail_after(120):
            while (run := await runs.get(run_id)).status in {"queued", "running", "waiting"}:
                for pending in await runs.inbox() if run.status == "waiting" else ():
                    if pending.run_id.partition("/")[0] == run_id:
                        await runs.answer(pending.id, Allow())
                await anyio.sleep(POLL)
        if not order["drains"]:
            os._exit(0)


def warm(url: str) -> None:
    """Run once, without an effect. No thread is left, and no connection."""
    WARM[url, POLL] = DurableRuns(url, AGENTS, poll=POLL, max_deaths=DEATHS)
    anyio.run(work, {"url": url, "run": f"warm{len(WARM)}", "agent": "shop", "drains": True})
    for thread in set(threading.enumerate()) - {threading.main_thread()}:
        thread.join()  # a fork has only the one that forks


async def serve(order: dict[str, Any]) -> None:
    runs = find_runs(order["url"], order["poll"])
    if order["agents"] or order["deaths"] or order["queued"]:
        runs = DurableRuns(
            order["url"],
            {key: AGENTS[key] for key in order["agents"] or AGENTS},
            poll=order["poll"],
            max_deaths=order["deaths"] or DEATHS,
            queues={"post": CallQueue(tools=order["queued"])},
        )
    await runs.serve(interval=order["interval"], drain_seconds=order["drain"])


def spoil(control: str) -> None:
    """Take a guard away, for a test that must find that."""
    if control == "no row":
        recorder.SegmentRecorder._run_once = _run_again  # type: ignore[method-assign]  # noqa: SLF001
    if control == "no reads":
        once.Once._add = _keep_result  # type: ignore[method-assign]  # noqa: SLF001
    if control == "no suspects":
        workflows.SUSPECT_DEATHS = DEATHS
    if control == "early release":
        worker.Worker._stop = _release_early  # type: ignore[method-assign]  # noqa: SLF001
    if control == "normal sync":
        sqlite.set_up = dbos_connections.set_up = _sync_less


def child(order: dict[str, Any]) -> None:
    if "program" in order:
        path = Path(order["program"])
        os.chdir(path.parent)
        sys.argv = [path.name, *order["arguments"]]
        runpy.run_path(path.name, run_name="__main__")
        os._exit(0)
    if order["crash"]:
        crash_points.install(order["crash"])
    spoil(order["control"])
    if order["synced"]:
        os.environ["HANDRAIL_SYNCED"] = order["url"]
    worker.GRACE_SECONDS = order["grace"]
    postgres.IDLE_SECONDS = order["idle"]
    LEDGER.path, LEDGER.pause = Path(order["ledger"]), order["pause"]
    LEDGER.bank = order["bank"]
    anyio.run(work if order["run"] else serve, order)
    os._exit(0)


async def _run_again(_self: object, _call: object, run: Any) -> Any:
    return await run()


async def _keep_result(_self: object, _call: object, result: Any) -> Any:
    return result


async def _release_early(self: Any, seconds: float, _end: object) -> None:
    self._segments.is_draining = True
    await self._engine.drain(seconds)
    await anyio.to_thread.run_sync(self._lock.release)


def _sync_less(connection: Any) -> None:
    SET_UP(connection)
    connection.execute("PRAGMA synchronous=NORMAL")


def fork(order: dict[str, Any]) -> int:
    pid = os.fork()
    if not pid:
        try:
            child(order)
        finally:
            os._exit(1)
    return pid


def watch(pid: int, order: dict[str, Any]) -> dict[str, Any]:
    """Kill a worker if its order says when, and wait for its end."""
    if order["kill_after"]:
        time.sleep(order["kill_after"])
    ledger = Ledger(Path(order["ledger"]))
    while order["kill_when"] and order["kill_when"] not in ledger.count():
        time.sleep(0.01)
    if order["kill_after"] or order["kill_when"]:
        os.kill(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    spent = usage.ru_utime + usage.ru_stime
    return {"killed": os.WIFSIGNALED(status), "code": status, "cpu": spent}


def obey(order: dict[str, Any]) -> dict[str, Any] | None:
    if "warm" in order:
        warm(order["warm"])
        return None
    if "stop" in order:
        os.kill(order["stop"], signal.SIGSTOP)
        return {"code": os.waitpid(order["stop"], os.WUNTRACED)[1]}
    if "reap" in order:
        return {"code": os.waitpid(order["reap"], 0)[1]}
    pid = fork(order)
    if "program" in order:
        return {"code": os.waitpid(pid, 0)[1]}
    return watch(pid, order) if order["run"] else {"pid": pid}


def main() -> None:
    measure_copies()
    for line in sys.stdin:
        said = obey(json.loads(line))
        if said is not None:
            print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
