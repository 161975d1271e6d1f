"""A worker of `bench/scale.py`: durable runs, or bare DBOS workflows with as many steps.

It says when it is ready, works after a line of input, and after the next one is idle. With
`answers`, it works until its input ends, and says when each approved call ran.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer
from sqlalchemy import Engine, event

from handrail import READ, Ask, Call, Context, Text, tool
from handrail.agent import Agent
from handrail.messages import Reply, Request
from handrail.runs._engine.dbos_connections import make_engine
from handrail.runs._store.database import Database
from handrail.runs.durable import DurableRuns

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from runs.durable.statements import LISTENERS, watching

TURNS, CALLS, STEPS, SLOTS, POLL = 3, 3, 7, 50, 0.25
STATEMENTS = {"count": 0}
STEP = json.dumps({"parts": [{"text": "a reply, or the results of a turn" * 8}]})
QUEUE = "bare"


@tool(effect=READ)
async def look(number: int) -> str:
    """Look at a shelf."""
    return f"saw {number}"


async def model(request: Request) -> Reply:
    turn = sum(isinstance(message, Reply) for message in request.messages)
    if turn == TURNS:
        return Reply((Text("Done."),))
    return Reply(tuple(Call("look", {"number": n}, f"c{turn}-{n}") for n in range(CALLS)))


@tool
async def pay(context: Context) -> str:
    """Pay."""
    print(context.run_id, time.monotonic(), flush=True)
    return "paid"


async def ask_once(request: Request) -> Reply:
    if any(isinstance(message, Reply) for message in request.messages):
        return Reply((Text("Done."),))
    return Reply((Call("pay", {}, "c"),))


def make_runs(address: str) -> DurableRuns:
    paying = Agent(ask_once, [pay], policy=lambda _: Ask("Pay?"))
    return DurableRuns(address, {"bench": Agent(model, [look]), "pay": paying}, poll=POLL)


async def step() -> str:
    return STEP


async def bare(_text: str) -> str:
    for _ in range(STEPS):
        await DBOS.run_step_async({"name": "step"}, step)
    return STEP


class Mark(NamedTuple):
    cpu: float
    statements: float

    @classmethod
    def now(cls) -> Mark:
        return cls(time.process_time(), STATEMENTS["count"])

    def until(self, later: Mark, parts: float) -> Mark:
        return Mark(*((b - a) / parts for a, b in zip(self, later, strict=True)))


async def work(program: str, address: str, idle: float) -> None:
    runs = make_runs(address)
    if program == "answers":
        async with runs.work(slots=SLOTS):
            while await read_line():
                pass
        return
    async with runs:
        print("ready", flush=True)
        await read_line()
        if program == "handrail":
            async with runs.work(slots=SLOTS):
                await report(idle)
            return
        DBOS.workflow(name="bare")(bare)
        DBOS(config=make_config(address))
        DBOS.listen_queues([QUEUE])
        DBOS.launch()
        await DBOS.register_queue_async(QUEUE, worker_concurrency=SLOTS, polling_interval_sec=POLL)
        await report(idle)
        DBOS.destroy()


async def report(idle: float) -> None:
    marks = [Mark.now()]
    await read_line()
    marks.append(Mark.now())
    await asyncio.sleep(idle)
    marks.append(Mark.now())
    print(json.dumps([marks[0].until(marks[1], 1), marks[1].until(marks[2], idle)]), flush=True)


async def read_line() -> str:
    return await asyncio.to_thread(sys.stdin.readline)


def make_config(address: str) -> DBOSConfig:
    database = Database(address)
    return DBOSConfig(
        name="bare",
        system_database_url=database.url,
        system_database_engine=make_engine(database),
        application_version="1",
        executor_id=str(os.getpid()),
        serializer=DBOSPortableJSONSerializer(),
        log_level="ERROR",
    )


@contextmanager
def counting() -> Generator[None]:
    """Count the statements and commits of this process."""
    LISTENERS.append(count)
    event.listen(Engine, "commit", count)
    with watching():
        yield


def count(*_: Any) -> None:
    STATEMENTS["count"] += 1


if __name__ == "__main__":
    with counting():
        asyncio.run(work(sys.argv[1], sys.argv[2], float(sys.argv[3])))
