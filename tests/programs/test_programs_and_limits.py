"""Rate limits count the calls of programs, and programs wait for tools that run in the background."""

from __future__ import annotations

import anyio
import pytest

from handrail import READ, Call, Executor, Text, Toolset, tool
from handrail.agent import Agent
from handrail.hooks import rate_limit
from handrail.messages import Reply, Request, ToolResults
from handrail.programs import program_tool
from programs.tools import run


@pytest.fixture
def anyio_backend() -> str:
    """The event loop makes no difference."""
    return "asyncio"


@tool(effect=READ, touches=lambda: (), background=True)
async def render() -> str:
    """Render a scene."""
    await anyio.lowlevel.checkpoint()
    return "rendered"


TOOLS = Toolset(render, program_tool([render]))


async def test_a_rate_limit_rejects_the_calls_of_a_program_beyond_it() -> None:
    code = """
out = []
for _ in range(3):
    try:
        out.append(await render())
    except RuntimeError as error:
        out.append(str(error))
out
"""
    limit = rate_limit(2, seconds=60.0, clock=lambda: 0.0)
    async with Executor(TOOLS, hooks=[limit]) as executor:
        first = await run(executor, code)
        direct = await executor.run(Call("render", {}))
    refused = "[transient] Not run: 'render' is limited to 2 calls in 60 s. Retry in 60 s, and continue with other work"
    assert first.text == f'["rendered", "rendered", "{refused} until then."]'
    assert direct.failure is not None


async def test_a_program_waits_for_a_function_in_the_background() -> None:
    async def model(request: Request) -> Reply:
        last = request.messages[-1]
        if isinstance(last, ToolResults):
            return Reply((Text(last.results[0].text),))
        code = "import asyncio\nawait asyncio.gather(render(), render())"
        return Reply((Call("run_program", {"code": code}, "c1"),))

    done = await Agent(model, TOOLS).run("Go.")

    assert (done.text, done.state.turns) == ('["rendered", "rendered"]', 2)
