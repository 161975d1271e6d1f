"""A worker as a process: health, signals, the command, and the files that deploy it."""

from __future__ import annotations

import configparser
import os
import shlex
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from handrail import Text
from handrail.agent import Agent
from handrail.cli._tree import run
from handrail.messages import Reply, Request
from handrail.runs.durable import DurableRuns, DurableWorker
from runs.durable.shop import make_model

DEPLOY = Path(__file__).parents[3] / "deploy"
PROGRAM = """
import os, signal
from handrail.agent import Agent
from handrail.messages import Reply
from handrail import Text
from handrail.runs.durable import DurableRuns

async def model(request):
    os.kill(os.getpid(), signal.SIGTERM)
    return Reply((Text("Hello."),))

runs = DurableRuns("runs.db", {"greeter": Agent(model)}, poll=0.02)
number = 5
"""


@asynccontextmanager
async def serving(path: Path) -> AsyncGenerator[tuple[DurableWorker, int]]:
    runs = DurableRuns(str(path), {"a": Agent(make_model(()))}, poll=0.02)
    started = anyio.Event()
    seen: list[Any] = []

    def on_start(worker: DurableWorker, port: int) -> None:
        seen.extend((worker, port))
        started.set()

    async with anyio.create_task_group() as group:

        async def serve() -> None:
            await runs.serve(health=("127.0.0.1", 0), on_start=on_start, interval=0.02)

        group.start_soon(serve)
        await started.wait()
        yield seen[0], seen[1]
        os.kill(os.getpid(), signal.SIGTERM)


async def ask(port: int, path: str) -> str:
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        return (await stream.receive()).decode()


async def test_a_worker_runs_without_health_until_it_is_stopped(sqlite: str) -> None:
    async def model(_request: Request) -> Reply:
        while signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # noqa: ASYNC110
            await anyio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        return Reply((Text("Hello."),))

    runs = DurableRuns(sqlite, {"a": Agent(model)}, poll=0.02)
    async with runs:
        run = await runs.start("a", "Go.")
    with anyio.fail_after(30):
        await runs.serve(interval=0.02)
    async with runs:
        ended = await runs.get(run)

    assert ended.status == "done"


async def test_an_orchestrator_can_ask_a_worker(sqlite: str) -> None:
    async with serving(Path(sqlite)) as (worker, port):
        with anyio.fail_after(20):
            while not worker.is_ready:  # noqa: ASYNC110  it looks into the database
                await anyio.sleep(0.02)
        answers = [await ask(port, path) for path in ("/healthz", "/readyz", "/other")]
        worker._worker._segments.is_draining = True  # noqa: SLF001  as after SIGTERM
        answers.append(await ask(port, "/readyz"))
        async with await anyio.connect_tcp("127.0.0.1", port):
            pass  # a client that leaves

    assert [answer.split("\r\n")[0] for answer in answers] == [
        "HTTP/1.1 200 OK",
        "HTTP/1.1 200 OK",
        "HTTP/1.1 404 Not Found",
        "HTTP/1.1 503 Service Unavailable",
    ]
    assert [answer.split("\r\n")[-1] for answer in answers] == [
        "alive",
        "ready",
        "not found",
        "not ready",
    ]


def worker_command(folder: Path, *arguments: str) -> int:
    return run(["worker", *arguments, "--workspace", str(folder)], "0")


@pytest.mark.parametrize("health", [(), ("--health", "127.0.0.1:0")])
def test_the_command_works_until_it_is_stopped(
    sqlite: str,
    health: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder = Path(sqlite).parent
    name = f"shop{len(health)}"
    (folder / f"{name}.py").write_text(PROGRAM, encoding="utf-8")
    monkeypatch.chdir(folder)

    async def start() -> None:
        async with DurableRuns(sqlite, {"greeter": Agent(make_model(()))}) as runs:
            await runs.start("greeter", "Hello?", run_id="r")

    async def read() -> str:
        async with DurableRuns(sqlite, {}) as runs:
            return (await runs.get("r")).text

    anyio.run(start)
    code = worker_command(folder, f"{name}:runs", *health)
    said = capfd.readouterr().out

    assert (code, anyio.run(read)) == (0, "Hello.")
    assert ("is running, health on port" in said, "is running" in said) == (bool(health), True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere:runs",), "cannot load 'nowhere:runs'"),
        (("shop:other",), "cannot load 'shop:other'"),
        (("shop:number",), "'shop:number' is a int, not DurableRuns"),
        (("shop:runs", "--health", "8080"), "--health '8080' is not HOST:PORT"),
    ],
)
def test_the_command_says_what_is_wrong(  # noqa: PLR0917
    tmp_path: Path,
    arguments: tuple[str, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "shop.py").write_text(PROGRAM, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "shop", raising=False)

    assert worker_command(tmp_path, *arguments) == 2
    assert message in capfd.readouterr().err


def test_the_files_that_deploy_workers_name_the_command_and_its_health() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / "handrail-worker@.service", encoding="utf-8")
    worker = compose["services"]["worker"]
    start = (DEPLOY / "start").read_text(encoding="utf-8")
    started = shlex.split(unit["Service"]["ExecStart"])

    assert {"database", "worker"} <= compose["services"].keys()
    assert worker["depends_on"] == {"database": {"condition": "service_healthy"}}
    assert worker["command"] == ["worker"]
    assert 'exec handrail worker "${RUNS:-app:runs}" --health 0.0.0.0:8080' in start
    assert started[1:] == ["worker", "shop:runs", "--health", "127.0.0.1:808%i"]
    assert (unit["Service"]["KillSignal"], unit["Service"]["Restart"]) == ("SIGTERM", "always")
