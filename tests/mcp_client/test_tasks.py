"""Long work of a server: its handle is polled, its questions are asked, and it is cancelled with its call."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from handrail import Allow, Call, Executor, Registry, Result
from handrail.approvals import defer
from handrail.events import Progressed
from handrail.mcp import Effects, HttpServer, McpSource, Offer
from handrail.messages import ToolResults
from handrail.permissions import Approvals, Edit
from unframed import UNFRAMED
from virtual_time import Quick

LOST = "The MCP server 'b' does not know this work any more: Task not found."
SERVER = str(Path(__file__).parent / "task_server.py")


class Builder:
    """The server, its clock, and what happened there."""

    def __init__(self, folder: Path) -> None:
        self.clock, self.log = folder / "clock.txt", folder / "log.txt"
        self.clock.write_text("0", encoding="utf-8")
        self.log.touch()
        self.url = ""

    def begin_again(self) -> Builder:
        self.pass_time(0)
        self.log.write_text("", encoding="utf-8")
        return self

    def pass_time(self, seconds: float) -> None:
        replaced = self.clock.with_suffix(".new")
        replaced.write_text(str(seconds), encoding="utf-8")
        replaced.replace(self.clock)

    @property
    def happened(self) -> list[str]:
        """What happened, without repetitions."""
        return list(dict.fromkeys(self.log.read_text(encoding="utf-8").split("\n")[:-1]))

    async def wait_for(self, said: str) -> None:
        with anyio.fail_after(30):
            while said not in self.happened:  # noqa: ASYNC110  no event tells of it
                await anyio.sleep(0.02)


@contextmanager
def serving_tasks(folder: Path) -> Generator[Builder]:
    made = Builder(folder)
    argv = [sys.executable, SERVER, str(made.clock), str(made.log)]
    with subprocess.Popen(  # noqa: S603  a file of ours
        argv, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        try:
            assert process.stdout is not None
            made.url = f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp"
            yield made
        finally:
            process.kill()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Builder]:
    with serving_tasks(tmp_path_factory.mktemp("builder")) as made:
        yield made


@pytest.fixture
def builder(served: Builder) -> Builder:
    return served.begin_again()


@asynccontextmanager
async def building(builder: Builder, *, era: Any = "auto") -> AsyncGenerator[Executor]:
    effects = Effects(writes=("build", "ask", "fail", "lose", "short"))
    source = McpSource(HttpServer(name="b", url=builder.url), offer=Offer(effects=effects), era=era)
    registry, approvals = Registry(), Approvals(approver=defer)
    async with (
        registry.connect(source),
        Executor(
            registry, policy=Quick(lambda _: Allow()), approvals=approvals, hooks=UNFRAMED
        ) as executor,
    ):
        yield executor


def call(tool: str) -> Call:
    return Call(f"mcp__b__{tool}", {}, "c1")


async def test_a_handle_is_polled_until_the_work_has_ended_and_its_progress_is_shown(
    builder: Builder,
) -> None:
    told = list[str]()
    results = list[Result]()
    async with building(builder) as executor:
        turn = executor.turn("t", run="r")

        async def listen() -> None:
            async for event in turn.events():
                if isinstance(event, Progressed):
                    told.append(event.message)
                    builder.pass_time(600)

        async def build() -> None:
            results.append(await turn.run(call("build")))

        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            group.start_soon(build)
            await builder.wait_for("completed build")
            group.cancel_scope.deadline = anyio.current_time() + 30
            while not results:  # noqa: ASYNC110  no event tells of it
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()

    assert (told[0], results) == ("600 s left", [Result("c1", "build done")])
    assert builder.happened == ["began build", "polled build", "completed build"]


async def test_a_question_of_long_work_is_answered_later_and_the_work_goes_on(
    builder: Builder,
) -> None:
    async with building(builder) as executor, anyio.create_task_group() as group:
        saved = list[ToolResults]()

        async def run() -> None:
            turn = executor.turn("t", run="r")
            saved.append(ToolResults((await turn.run(call("ask")),)))

        group.start_soon(run)
        await builder.wait_for("polled ask")
        builder.pass_time(600)
    later = ToolResults(tuple(Result.from_json(one.to_json()) for one in saved[0].results))
    [asked] = later.questions
    async with building(builder) as executor:
        done = await executor.resume(later, {asked.id: Edit({"size": 9})})

    assert asked.question == "The MCP server 'b' asks: Which size?"
    assert done.results == (Result("c1", "ask 9"),)
    assert builder.happened == ["began ask", "polled ask", "completed ask"]


async def test_work_ends_with_its_call(builder: Builder) -> None:
    async with building(builder) as executor, anyio.create_task_group() as group:
        turn = executor.turn("t", run="r")
        group.start_soon(turn.run, call("build"))
        await builder.wait_for("polled build")
        turn.cancel()
        await builder.wait_for("cancelled build")

    assert builder.happened == ["began build", "polled build", "cancelled build"]


@pytest.mark.parametrize(
    ("tool", "kind", "said"),
    [
        (
            "fail",
            "failed",
            "The MCP server 'b' reports: The work of this call failed there. The disk is full.",
        ),
        ("lose", "unknown", f"{LOST} It may have taken effect: check before you call it again."),
    ],
)
async def test_work_that_fails_or_is_forgotten(
    builder: Builder, tool: str, kind: str, said: str
) -> None:
    async with building(builder) as executor, anyio.create_task_group() as group:
        results = list[Result]()

        async def run() -> None:
            results.append(await executor.run(call(tool)))

        group.start_soon(run)
        await builder.wait_for(f"began {tool}")
        builder.pass_time(600)

    failure = results[0].failure
    assert failure is not None
    assert (failure.kind, results[0].text) == (kind, said)


async def test_short_work_and_a_client_without_tasks_get_the_result(builder: Builder) -> None:
    async with building(builder) as executor:
        assert await executor.run(call("short")) == Result("c1", "short")
    async with building(builder, era="legacy") as executor:
        assert await executor.run(call("short")) == Result("c1", "short")
