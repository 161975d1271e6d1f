"""Counted work of the agent loop: runs with scripted models, and a bare gather of their calls.

Runs under valgrind (see agent.py), which starts it with the path of the compiled shim.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from counted import ARGS, add, count
from handrail import READ, Call, Executor, Text, Toolset, tool
from handrail.agent import Agent, RunState, dump_state
from handrail.messages import Prompt, Reply, Request
from handrail.testing import ScriptedModel

TOOLS = Toolset(tool(effect=READ)(add))
END = Reply((Text("done"),))


def script(calls: int, *, stream: bool = False) -> ScriptedModel:
    """A model that asks for so many calls at once, and then answers."""
    asked = tuple(Call("add", ARGS["add"], f"c{n}") for n in range(calls))
    return ScriptedModel(*([Reply(asked, "calls")] if calls else []), END, stream=stream)


async def gather(calls: int) -> None:
    await asyncio.gather(*[add(1, 2) for _ in range(calls)])


async def model_alone(model: ScriptedModel, request: Request) -> None:
    model.requests.clear()
    for _ in range(2):
        replying: Any = model(request)
        if isinstance(replying, AsyncIterator):
            async for _ in replying:
                pass
        else:
            await replying


async def run(agent: Agent[None], model: ScriptedModel) -> None:
    model.requests.clear()
    done = await agent.run("go")
    assert done.stop_reason == "answer"


async def save(state: RunState) -> None:
    dump_state(state)


async def main() -> None:
    async with Executor(TOOLS) as executor:
        one, streaming = script(1), script(1, stream=True)
        request = Request((Prompt.of("go"),), executor.tools)
        await count("model", lambda: model_alone(one, request))
        await count("streaming model", lambda: model_alone(streaming, request))
        for n in (1, 10, 100):
            await count(f"gather {n}", lambda n=n: gather(n))
        for n in (0, 1, 10, 100):
            model = script(n)
            agent = Agent(model, executor)
            await count(f"run {n}", lambda agent=agent, model=model: run(agent, model))
        for kind, agent, model in (
            ("streamed 1", Agent(streaming, executor), streaming),
            ("saved 1", Agent(one, executor, save=save), one),
            ("own 1", Agent(one, TOOLS), one),
        ):
            await count(kind, lambda agent=agent, model=model: run(agent, model))


if __name__ == "__main__":
    asyncio.run(main())
