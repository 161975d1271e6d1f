"""handrail: the executor for one call, plain and with hooks, a deadline and a listener; a batch; and the agent."""

import asyncio
import functools
from contextlib import asynccontextmanager

from handrail import READ, Call, Executor, Toolset, tool
from handrail.agent import Agent
from handrail.testing import ScriptedModel

import common

DIST = "handrail"
IMPORT = "from handrail import Executor, Toolset, tool"
PATHS = {
    "Executor.run": "one call as JSON text -> the text that the model reads",
    "Executor.run, two hooks, deadline, events": "the same, with a hook on either side and a listener",
    "Executor.run_all": "a batch of calls",
    "Agent.run": "Agent(ScriptedModel, executor).run",
}


def toolset(tools):
    return Toolset(*(tool(effect=READ)(fn) for fn in tools))


def calling(executor):
    def prepare(name, text, args):
        return functools.partial(executor.run, Call(name, text, "c1"))

    return prepare


@asynccontextmanager
async def executors(tools):
    offered = toolset(tools)
    async with (
        Executor(offered) as plain,
        Executor(
            offered, before=[lambda call: call], after=[lambda call, result: result], timeout=10.0
        ) as full,
    ):
        listening = full.events()
        first = asyncio.ensure_future(anext(listening))
        yield {
            "Executor.run": calling(plain),
            "Executor.run, two hooks, deadline, events": calling(full),
        }
        first.cancel()


@asynccontextmanager
async def loops(tools):
    async with Executor(toolset(tools)) as executor:

        @functools.cache
        def built(names):
            return [Call(name, common.ARGS_JSON[name], f"c{n}") for n, name in enumerate(names)]

        @functools.cache
        def scripted(names):
            model = ScriptedModel(built(names), "done") if names else ScriptedModel("done")
            return model, Agent(model, executor)

        async def batch(calls):
            return await executor.run_all(built(tuple(name for name, _ in calls)))

        async def run(calls):
            model, agent = scripted(tuple(name for name, _ in calls))
            model.requests.clear()
            done = await agent.run("go")
            return done.state.messages[2].results if calls else []

        yield {"Executor.run_all": batch, "Agent.run": run}


def register(functions):
    return toolset(functions)


def definitions(registered):
    return [{"name": spec.name, "description": spec.description, "parameters": spec.input_schema} for spec in registered.specs]
