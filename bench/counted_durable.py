"""Turns of durable runs and bare steps of DBOS, in one process and by turns: CPU and statements."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer
from sqlalchemy import Engine, event

from handrail import READ, WRITE, Access, Call, Text, tool
from handrail.agent import Agent, Limits
from handrail.messages import Reply, Request, ToolResults
from handrail.runs._engine.dbos_engine import make_engine
from handrail.runs._store.database import Database
from handrail.runs.durable import DurableRuns

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from runs.durable.statements import LISTENERS, watching

TURNS, ROUNDS, RUNS = 20, 3, 40
WARM = 3
POLL = 0.2
STATEMENTS = {"count": 0}


class Mark(NamedTuple):
    cpu: float
    wall: float
    statements: int

    @classmethod
    def now(cls) -> Mark:
        return cls(time.process_time(), time.perf_counter(), STATEMENTS["count"])


def count(*_: Any) -> None:
    """Count a statement, unless a thread of the engine looks for work."""
    if not threading.current_thread().name.startswith(("queue", "Thread-")):
        STATEMENTS["count"] += 1


@tool(effect=READ)
async def look(place: int) -> str:
    """Look at a place."""
    return f"saw {place}"


@tool(effect=WRITE, touches=lambda amount: Access(WRITE, f"account:{amount}"))
async def pay(amount: int) -> str:
    """Pay to an account."""
    return f"paid {amount}"


@tool(effect=WRITE, touches=lambda **_: Access(WRITE, "account:all"))
async def queue_up(amount: int) -> str:
    """Pay to the one account: one after the other."""
    return f"paid {amount}"


MARKS: dict[str, list[Mark]] = {}
KINDS = {
    "read 1": [("look", {"place": 0})],
    "read 10": [("look", {"place": n}) for n in range(10)],
    "pay 1": [("pay", {"amount": 0})],
    "pay 10": [("pay", {"amount": n}) for n in range(10)],
    "in order 10": [("queue_up", {"amount": n}) for n in range(10)],
}


async def model(request: Request) -> Reply:
    """Call what the prompt names, so many times."""
    kind, turns = request.messages[0].parts[0].text.split(":")  # type: ignore[union-attr]
    done = sum(isinstance(message, ToolResults) for message in request.messages)
    MARKS.setdefault(kind, []).append(Mark.now())
    if done >= int(turns):
        return Reply((Text("done"),))
    return Reply(tuple(Call(name, args, f"{i}") for i, (name, args) in enumerate(KINDS[kind])))


AGENT = Agent(model, [look, pay, queue_up], limits=Limits(turns=TURNS + 2))


async def step() -> str:
    return '{"text": "a reply or a result of a tool"}'


async def bare_steps(kind: str, turns: int) -> str:
    for _ in range(turns + 1):
        MARKS.setdefault(kind, []).append(Mark.now())
        await DBOS.run_step_async({"name": "model"}, step)
        await DBOS.run_step_async({"name": "tool"}, step)
    return "done"


async def naive(kind: str, turns: int) -> str:
    """The mini-run as one writes it first: every call is a step."""
    for _ in range(turns):
        await DBOS.run_step_async({"name": "model"}, step)
        await asyncio.gather(*(DBOS.run_step_async({"name": "tool"}, step) for _ in range(10)))
    await DBOS.run_step_async({"name": "model"}, step)
    return kind


def per_turn(marks: list[Mark]) -> Mark:
    first, last = marks[WARM], marks[-1]
    turns = len(marks) - 1 - WARM
    return Mark(*((b - a) / turns for a, b in zip(first, last, strict=True)))


def median(many: list[Mark]) -> Mark:
    return Mark(*(statistics.median(column) for column in zip(*many, strict=True)))


async def measure(runs: DurableRuns, steps: Callable[..., Any]) -> dict[str, Mark]:
    """Every kind, by turns."""
    seen: dict[str, list[Mark]] = {}
    for _ in range(ROUNDS):
        for kind in KINDS:
            MARKS.clear()
            run = await runs.start("a", f"{kind}:{TURNS}")
            await wait_for(kind)
            seen.setdefault(kind, []).append(per_turn(MARKS[kind]))
            await runs.wait(run)
            MARKS.clear()
            await AGENT.run(f"{kind}:{TURNS}")
            seen.setdefault(f"{kind}, plain", []).append(per_turn(MARKS[kind]))
        MARKS.clear()
        handle = await DBOS.start_workflow_async(steps, "bare", TURNS)
        await handle.get_result()
        seen.setdefault("bare", []).append(per_turn(MARKS["bare"]))
    return {kind: median(many) for kind, many in seen.items()}


async def wait_for(kind: str) -> None:
    """Wait without a statement until the model was asked for the last time."""
    while len(MARKS.get(kind, ())) < TURNS + 1:  # noqa: ASYNC110  a look is a statement
        await asyncio.sleep(0.01)


async def measure_runs(runs: DurableRuns, program: Callable[..., Any]) -> dict[str, Mark]:
    """Mini-runs of three turns with ten calls: ours, and the same program with a step per call."""
    ours: list[Mark] = []
    theirs: list[Mark] = []
    for _ in range(ROUNDS):
        before = Mark.now()
        ids = [await runs.start("a", "read 10:3") for _ in range(RUNS)]
        for one in ids:
            await runs.wait(one)
        middle = Mark.now()
        queued = [await DBOS.enqueue_workflow_async("naive", program, "x", 3) for _ in range(RUNS)]
        for handle in queued:
            await handle.get_result(polling_interval_sec=0.02)
        after = Mark.now()
        ours.append(Mark(*((b - a) / RUNS for a, b in zip(before, middle, strict=True))))
        theirs.append(Mark(*((b - a) / RUNS for a, b in zip(middle, after, strict=True))))
    return {"run": median(ours), "naive run": median(theirs)}


def make_config(url: str) -> DBOSConfig:
    """Both use one instance, with the same settings of the database."""
    database = Database(url)
    return DBOSConfig(
        name="handrail",
        system_database_url=database.url,
        system_database_engine=make_engine(database),
        application_version="1",
        executor_id="bench",
        serializer=DBOSPortableJSONSerializer(),
        log_level="ERROR",
    )


async def main(url: str) -> None:
    LISTENERS.append(count)
    event.listen(Engine, "commit", count)
    steps: Any = DBOS.workflow(name="bare")(bare_steps)
    program: Any = DBOS.workflow(name="naive")(naive)
    runs = DurableRuns(url, {"a": AGENT}, poll=POLL, segment_turns=TURNS + 2)
    async with runs:
        DBOS(config=make_config(url))
        DBOS.launch()
    async with runs.work(interval=1.0):
        await DBOS.register_queue_async("naive", worker_concurrency=100, polling_interval_sec=POLL)
        made = await measure(runs, steps)
        made |= await measure_runs(runs, program)
    DBOS.destroy()
    print(json.dumps({kind: mark._asdict() for kind, mark in made.items()}))


if __name__ == "__main__":
    with watching():
        asyncio.run(main(sys.argv[1]))
