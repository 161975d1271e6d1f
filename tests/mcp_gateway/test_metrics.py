"""How a gateway is used, for a monitoring system: counts and names, and nothing of the calls."""

from __future__ import annotations

from typing import Any

import anyio
import httpx2
import pytest
from mcp_types import ElicitResult

from handrail import READ, Ask, Toolset, tool
from handrail.mcp.gateway import CallMetrics, with_metrics
from mcp_gateway.gateways import DEAD, client_of, gateway, source, sources, text_of, until
from mcp_served.served import MODERN, Notes, answering, connect, executor, over_http

pytestmark = pytest.mark.anyio
READER = "t-reader"


@tool(effect=READ, name="own_tool")
def own_tool() -> str:
    """Do what the gateway does itself."""
    return "own"


def samples(lines: Any) -> list[str]:
    """The lines that have numbers."""
    return [line for line in lines if not line.startswith("#")]


async def read(url: str, token: str = READER) -> tuple[int, list[str]]:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        response = await http.get(url.replace("/mcp", "/metrics"))
    return response.status_code, response.text.splitlines()


async def test_calls_are_counted_by_server_tool_and_outcome() -> None:
    metrics = CallMetrics()
    given = [source(DEAD), *sources("good")]
    async with gateway(given, own=Toolset(own_tool), hooks=[metrics.hook]) as (upstreams, made):
        await until(lambda: "mcp__good__echo" in made.tools)
        around = lambda app: with_metrics(app, metrics, tokens=[READER], upstreams=upstreams)  # noqa: E731  one line
        async with client_of(made) as client:
            for text in ("secret-text", "more"):
                await client.call_tool("mcp__good__echo", {"text": text})
            await client.call_tool("own_tool", {})
            await client.call_tool("secret-name", {})
            await client.call_tool("own_tool", {"x": 1})
        tools = upstreams.health()[1].tools
        async with over_http(made, around=around) as url:
            status, lines = await read(url)
            refused = [await read(url, "t-alice"), await read(url, "t-")]

    assert status == 200
    assert samples(lines) == [
        'handrail_calls_total{server="",tool="",outcome="bad_args"} 1',
        'handrail_calls_total{server="",tool="",outcome="unknown_tool"} 1',
        'handrail_calls_total{server="",tool="own_tool",outcome="ok"} 1',
        'handrail_calls_total{server="good",tool="echo",outcome="ok"} 2',
        "handrail_questions_open 0",
        'handrail_upstream_up{server="dead"} 0',
        'handrail_upstream_up{server="good"} 1',
        'handrail_upstream_tools{server="dead"} 0',
        f'handrail_upstream_tools{{server="good"}} {tools}',
    ]
    assert refused == [(401, ["This needs a token that may read metrics."])] * 2


@pytest.mark.parametrize("mode", ["legacy", MODERN])
async def test_an_open_question_is_counted_until_it_is_answered(mode: str) -> None:
    metrics, asked, go = CallMetrics(), anyio.Event(), anyio.Event()
    counts: list[str] = []

    async def answer(_context: Any, _params: Any) -> Any:
        asked.set()
        await go.wait()
        return ElicitResult(action="accept")

    made = executor(Notes(), policy=lambda _: Ask("Add it?"), hooks=[metrics.hook])
    around = lambda app: with_metrics(app, metrics, tokens=[READER])  # noqa: E731  one line
    async with over_http(made, around=around, metrics=metrics) as url:
        async with connect(url, mode=mode, elicitation_callback=answer) as client:

            async def call() -> None:
                await client.call_tool("add_note", {"text": "x"})
                counts.extend(samples((await read(url))[1]))

            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(call)
                    await asked.wait()
                    counts.extend(samples((await read(url))[1]))
                    go.set()

    ended = 'handrail_calls_total{server="",tool="add_note",outcome="ok"} 1'
    assert counts == ["handrail_questions_open 1", ended, "handrail_questions_open 0"]


async def test_tools_that_a_search_found_are_counted_by_their_own_names() -> None:
    metrics = CallMetrics()
    async with gateway(sources("good"), defer_over=1, hooks=[metrics.hook]) as (_, made):
        await until(lambda: "mcp__good__echo" in made.tools)
        async with client_of(made) as client:
            wanted = {"name": "mcp__good__echo", "arguments": {"text": "found"}}
            assert text_of(await client.call_tool("call_tool", wanted)) == "found"

    assert 'handrail_calls_total{server="good",tool="echo",outcome="ok"} 1' in metrics.render()


async def test_no_more_names_are_kept_than_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handrail.mcp._server.metrics.MAX_SERIES", 1)
    metrics = CallMetrics()
    async with executor(Notes(), hooks=[metrics.hook]) as made:
        async with client_of(made, elicitation_callback=answering("accept")) as client:
            for name in ("read_note", "drop_notes", "drop_notes", "read_note"):
                await client.call_tool(name, {})

    assert samples(metrics.render()) == [
        'handrail_calls_total{server="",tool="",outcome="denied"} 2',
        'handrail_calls_total{server="",tool="read_note",outcome="ok"} 2',
        "handrail_questions_open 0",
    ]
