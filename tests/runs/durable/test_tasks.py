"""Ten minutes of work at an MCP server: our process is killed twice, and the work is begun once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import anyio
import pytest

from handrail.runs.durable import DurableRun, DurableRuns
from mcp_client.test_tasks import Builder, serving_tasks
from runs.durable.workers import Forks

WORKER = """
import sys

import anyio

from handrail import Allow, Call, Registry, Text
from handrail.agent import Agent
from handrail.mcp import Effects, HttpServer, McpSource, Offer
from handrail.messages import Reply
from handrail.runs.durable import DurableRuns

URL, EFFECT = sys.argv[1:]


async def model(request):
    if len(request.messages) > 1:
        yield Text(request.messages[-1].results[0].text)
        yield Reply((Text(request.messages[-1].results[0].text),))
        return
    yield Reply((Call("mcp__b__build", {}, "c1"),))


async def main():
    effects = Effects(**{EFFECT: ("build",)})
    offer = Offer(effects=effects, timeout=3600)
    registry = Registry()
    async with registry.connect(McpSource(HttpServer(name="b", url=URL), offer=offer)):
        agent = Agent(model, registry, policy=lambda call: Allow())
        runs = DurableRuns("runs.db", {"b": agent}, poll=0.05)
        async with runs.work(interval=0.1):
            await runs.start("b", "Build.", run_id="r")
            await runs.wait("r", seconds=60)


anyio.run(main)
"""


JOB = """
import os
from pathlib import Path

import anyio

from handrail import Call, Context, Effect, Text, Tool, tool
from handrail.agent import Agent
from handrail.messages import Reply
from handrail.runs.durable import DurableRuns


def note(said: str) -> int:
    with Path("log.txt").open("a", encoding="utf-8") as log:
        log.write(f"{said}\\n")
    return len(Path("log.txt").read_text(encoding="utf-8").split())


def make(effect: Effect) -> Tool:
    @tool(name=effect.name.lower(), effect=effect)
    async def build(context: Context) -> str:
        "Build."
        job = context.record
        if not job:
            note("began")
            job = f"job {effect.name}"
            assert await context.store_record(job)
        if note("ran") < 4 * (1 + list(Effect).index(effect)) - 1:
            os._exit(0)
        note("done")
        return f"{job} done"

    return build


async def model(request):
    done = [one.results[0].text for one in request.messages[2::2]]
    if len(done) == 3:
        yield Reply((Text(", ".join(done)),))
    else:
        yield Reply((Call(list(Effect)[len(done)].name.lower(), {}, f"c{len(done)}"),))


async def main():
    agent = Agent(model, [make(one) for one in Effect])
    runs = DurableRuns("runs.db", {"a": agent}, poll=0.05)
    async with runs.work(interval=0.1):
        await runs.start("a", "Build.", run_id="r")
        await runs.wait("r", seconds=60)


anyio.run(main)
"""


def test_a_call_that_stored_a_record_continues_from_it(sqlite: str, forks: Forks) -> None:
    folder = Path(sqlite).parent
    (folder / "job.py").write_text(JOB, encoding="utf-8")

    async def read() -> DurableRun:
        async with DurableRuns(sqlite, {}) as runs:
            return await runs.get("r")

    for _ in range(4):
        forks.run_program(folder / "job.py")

    run = anyio.run(read)
    assert (run.status, run.text) == ("done", "job READ done, job WRITE done, job DESTROY done")
    happened = (folder / "log.txt").read_text(encoding="utf-8").split()
    assert happened == ["began", "ran", "ran", "done"] * 3


def begin(folder: Path, builder: Builder, effect: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "worker.py", builder.url, effect]
    return subprocess.Popen(argv, cwd=folder, env=os.environ)  # noqa: S603  a file of ours


def count(builder: Builder) -> Counter[str]:
    return Counter(builder.log.read_text(encoding="utf-8").split("\n")[:-1])


@pytest.mark.soak
@pytest.mark.parametrize("effect", ["writes", "reads"])
def test_work_of_ten_minutes_is_begun_once_although_our_process_is_killed_twice(
    sqlite: str, effect: str
) -> None:
    folder = Path(sqlite).parent
    (folder / "worker.py").write_text(WORKER, encoding="utf-8")

    async def kill_after_a_poll(builder: Builder) -> None:
        before = count(builder)["polled build"]
        with begin(folder, builder, effect) as worker:
            with anyio.fail_after(60):
                while count(builder)["polled build"] == before:  # noqa: ASYNC110  no event tells
                    await anyio.sleep(0.02)
            worker.kill()

    async def read() -> DurableRun:
        async with DurableRuns(sqlite, {}) as runs:
            return await runs.get("r")

    with serving_tasks(folder) as builder:
        for passed in (200, 400):
            anyio.run(kill_after_a_poll, builder)
            builder.pass_time(passed)
        builder.pass_time(600)
        with begin(folder, builder, effect) as worker:
            assert worker.wait(60) == 0

    happened = count(builder)
    run = anyio.run(read)
    assert (run.status, run.text) == ("done", "build done")
    assert (happened["began build"], happened["completed build"]) == (1, 1)
    assert happened["polled build"] >= 3
