"""Our long calls as tasks, with our own client and over the wire."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client.extension import advertise

from handrail import READ, Allow, Call, Context, Executor, Registry, Result, Toolset, tool
from handrail.events import Progressed
from handrail.mcp import Effects, HttpServer, McpSource, Offer
from handrail.mcp._calls.shapes import (
    TASKS,
    CancelTask,
    CreatedTask,
    FoundTask,
    GetTask,
    TaskParams,
    UpdateParams,
    UpdateTask,
)
from handrail.mcp.server import make_server
from mcp_served.served import MODERN, over_http
from unframed import UNFRAMED

pytestmark = pytest.mark.anyio


class Works:
    """A tool that waits until the test lets it end, and one that needs approval meanwhile."""

    def __init__(self) -> None:
        self.go = anyio.Event()
        self.cancelled = anyio.Event()

    def tools(self) -> Toolset:
        @tool(effect=READ)
        async def build(context: Context) -> str:
            """Build."""
            context.progress("half", 0.5)
            try:
                await self.go.wait()
            except anyio.get_cancelled_exc_class():
                self.cancelled.set()
                raise
            return "built"

        @tool(effect=READ)
        async def order(context: Context) -> str:
            """Order."""
            await self.go.wait()
            form = {"type": "object", "properties": {"size": {"type": "integer"}}}
            values = await context.ask("Which size?", form)
            return f"ordered {values}"

        @tool(effect=READ, background=True)
        async def render() -> str:
            """Render."""
            await self.go.wait()
            return "rendered"

        return Toolset(build, order, render)


@asynccontextmanager
async def client_of(
    works: Works, *, knows: bool = True, seconds: float = 0.05
) -> AsyncGenerator[Client]:
    async def answer(_context: Any, _params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"size": 9})

    async with Executor(works.tools(), policy=lambda _: Allow()) as executor:
        server = make_server(executor, task_seconds=seconds)
        extensions = [advertise(TASKS)] if knows else []
        async with Client(
            server, mode=MODERN, extensions=extensions, elicitation_callback=answer
        ) as client:
            yield client


class _Any:
    """Reads a result or a handle."""

    @staticmethod
    def model_validate(sent: dict[str, Any], **how: Any) -> Any:
        kind = CreatedTask if sent.get("resultType") == "task" else types.CallToolResult
        return kind.model_validate(sent, **how)


async def call(client: Client, name: str) -> Any:
    params = types.CallToolRequestParams(name=name, arguments={})
    kind: Any = _Any
    return await client.session.send_request(types.CallToolRequest(params=params), kind)


async def poll(client: Client, task: str, *until: str) -> FoundTask:
    with anyio.fail_after(30):
        while True:
            asked = GetTask(params=TaskParams(task_id=task))
            found = await client.session.send_request(asked, FoundTask)
            if found.status in until:
                return found
            await anyio.sleep(0.02)


async def test_a_long_call_is_a_task_whose_result_comes_later() -> None:
    works = Works()
    async with client_of(works) as client:
        created = await call(client, "build")
        working = await poll(client, created.task_id, "working")
        works.go.set()
        done = await poll(client, created.task_id, "completed")

    assert isinstance(created, CreatedTask)
    assert (working.status_message, done.result) == (
        "half",
        {"content": [{"type": "text", "text": "built"}], "isError": False},
    )


async def test_a_call_in_the_background_is_a_task_at_once() -> None:
    works = Works()
    async with client_of(works, seconds=3600) as client:
        created = await call(client, "render")
        works.go.set()
        done = await poll(client, created.task_id, "completed")
        built = await call(client, "build")  # a control: it waits, and has its result

    assert isinstance(created, CreatedTask)
    assert done.result == {"content": [{"type": "text", "text": "rendered"}], "isError": False}
    assert isinstance(built, types.CallToolResult)


async def test_our_own_client_waits_for_the_task_and_gets_the_result() -> None:
    works, results = Works(), list[Result]()
    told = list[str]()
    made = Executor(works.tools(), policy=lambda _: Allow())
    async with over_http(made, given={"task_seconds": 0.05}) as url:
        server = HttpServer(name="w", url=url, headers={"Authorization": "Bearer t-alice"})
        source = McpSource(server, offer=Offer(effects=Effects(reads=("build",))))
        registry = Registry()
        async with (
            registry.connect(source),
            Executor(registry, policy=lambda _: Allow(), hooks=UNFRAMED) as executor,
        ):
            turn = executor.turn("t", run="r")

            async def listen() -> None:
                async for event in turn.events():
                    if isinstance(event, Progressed):
                        told.append(event.message)
                        works.go.set()

            async with anyio.create_task_group() as group:
                group.start_soon(listen)
                results.append(await turn.run(Call("mcp__w__build", {}, "c1")))
                group.cancel_scope.cancel()

    assert (results, set(told)) == ([Result("c1", "built")], {"half"})


async def test_a_task_asks_and_continues_with_the_answer() -> None:
    works = Works()
    async with client_of(works) as client:
        created = await call(client, "order")
        works.go.set()
        asks = await poll(client, created.task_id, "input_required")
        assert asks.input_requests is not None
        answers = {
            key: types.ElicitResult(action="accept", content={"size": 9})
            for key in asks.input_requests
        }
        params = UpdateParams(task_id=created.task_id, input_responses={**answers, "other": _NO})
        await client.session.send_request(UpdateTask(params=params), types.EmptyResult)
        done = await poll(client, created.task_id, "completed")

    assert done.result is not None
    assert done.result["content"][0]["text"] == "ordered {'size': 9}"


_NO = types.ElicitResult(action="decline")


async def test_a_task_is_cancelled_and_others_do_not_see_it() -> None:
    works = Works()
    async with client_of(works) as client:
        created = await call(client, "build")
        cancel = CancelTask(params=TaskParams(task_id=created.task_id))
        await client.session.send_request(cancel, types.EmptyResult)
        with anyio.fail_after(30):
            await works.cancelled.wait()
        gone = await poll(client, created.task_id, "cancelled")
        with pytest.raises(MCPError, match="There is no such task"):
            await poll(client, "guessed")

    assert gone.result is None


async def test_a_client_without_tasks_waits_and_may_not_ask_for_them() -> None:
    works = Works()
    async with client_of(works, knows=False) as client, anyio.create_task_group() as group:
        results = list[Any]()

        async def build() -> None:
            results.append(await call(client, "build"))

        group.start_soon(build)
        await anyio.sleep(0.2)
        assert results == []
        works.go.set()
        with pytest.raises(MCPError) as refused:
            await poll(client, "x")

    assert refused.value.error.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
    assert results[0].content[0].text == "built"


async def test_a_short_call_of_a_client_with_tasks_is_answered_at_once() -> None:
    works = Works()
    works.go.set()
    async with client_of(works, seconds=30) as client:
        result = await call(client, "build")

    assert result.content[0].text == "built"
