"""Calls in the background of a durable run: the process is killed, and no effect happens twice."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import anyio

from handrail.messages import Prompt, Text
from handrail.runs.durable import DurableRun, DurableRuns
from handrail.runs.store import open_runs

WORKER = """
import os
import signal
from pathlib import Path

import anyio

from handrail import READ, WRITE, Access, Call, Context, Text, tool
from handrail.agent import Agent
from handrail.messages import Prompt, Reply
from handrail.runs.durable import DurableRuns


def note(said: str) -> bool:
    with Path("log.txt").open("a", encoding="utf-8") as log:
        log.write(f"{said}\\n")
    return Path("log.txt").read_text(encoding="utf-8").split().count("died") > 0


def at(name: str):
    return lambda: Access(WRITE, f"shop:{name}")


@tool(background=True, touches=at("pay"))
async def pay() -> str:
    "Pay."
    note("pay")
    await anyio.sleep_forever()


@tool(background=True, touches=at("send"), verify=lambda **_: "sent before")
async def send() -> str:
    "Send."
    note("send")
    await anyio.sleep_forever()


@tool(background=True, touches=at("build"))
async def build(context: Context) -> str:
    "Build."
    if context.record:
        return f"built as {context.record}"
    note("build")
    await context.store_record("job 7")
    await anyio.sleep_forever()


@tool(background=True, effect=READ, touches=lambda: Access(READ, "shop:list"))
async def count() -> str:
    "Count."
    if note("count"):
        return "7"
    await anyio.sleep_forever()


@tool(background=True, touches=at("post"))
async def post(context: Context) -> str:
    "Post."
    note("post")
    await checked.wait()
    return "posted"


checked = anyio.Event()


@tool(effect=READ, touches=lambda: Access(READ, "shop:door"))
async def check() -> str:
    "Check."
    checked.set()
    return "ok"


@tool(effect=READ, touches=lambda: Access(READ, "shop:end"))
async def end() -> str:
    "End the process, the first time."
    log = Path("log.txt").read_text(encoding="utf-8").split()
    if "died" not in log:
        note("died")
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


TURNS = [["pay", "send", "build", "count", "post"], ["check"], ["end"]]


async def model(request):
    turn = sum(isinstance(one, Reply) for one in request.messages)
    if turn < len(TURNS):
        yield Reply(tuple(Call(name, {}, name) for name in TURNS[turn]))
        return
    yield Reply((Text("I have read it."),))


async def main():
    agent = Agent(model, [pay, send, build, count, post, check, end])
    runs = DurableRuns("runs.db", {"shop": agent}, poll=0.05)
    async with runs.work(interval=0.1):
        await runs.start("shop", "Open the shop.", run_id="r")
        await runs.wait("r", seconds=60)


anyio.run(main)
"""
MAY_HAVE_RUN = (
    "The process died while this call ran, and its result was lost. It may have taken effect: "
    "check before you call it again."
)
TOLD = {
    "pay": MAY_HAVE_RUN,
    "send": "sent before",
    "build": "built as job 7",
    "count": "7",
    "post": "posted",
}


def told(run: DurableRun) -> dict[str, str]:
    """The results that the model has read in messages, by call."""
    assert run.state is not None
    texts = [
        part.text
        for message in run.state.messages[1:]
        if isinstance(message, Prompt)
        for part in message.parts
        if isinstance(part, Text)
    ]
    return {text.split("'")[1]: text.partition("\n")[2] for text in texts}


def test_a_killed_process_loses_no_background_call(sqlite: str) -> None:
    folder = Path(sqlite).parent
    (folder / "worker.py").write_text(WORKER, encoding="utf-8")
    ended = [
        subprocess.run(
            [sys.executable, "worker.py"], cwd=folder, check=False, timeout=60
        ).returncode
        for _ in range(2)
    ]

    async def read() -> DurableRun:
        async with DurableRuns(sqlite, {}) as runs:
            return await runs.get("r")

    run = anyio.run(read)
    log = (folder / "log.txt").read_text(encoding="utf-8").split()
    assert (ended, run.status) == ([-signal.SIGKILL, 0], "done")
    assert told(run) == TOLD
    once = ("pay", "send", "build", "post")
    assert {name: log.count(name) for name in once} == dict.fromkeys(once, 1)
    with open_runs(sqlite) as store:
        ended_calls = [one.content["call_id"] for one in store.read("r") if one.kind == "finished"]
    assert sorted(ended_calls) == sorted([*TOLD, "check", "end"])
