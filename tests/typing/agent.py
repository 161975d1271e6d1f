"""What type checkers must see of agents. mypy and pyright read this file; it is never run."""

from __future__ import annotations

from typing import assert_type

from handrail import Toolset
from handrail.agent import Agent, RunResult
from handrail.testing import ScriptedModel


async def run() -> None:
    model = ScriptedModel("Done.")
    agent = Agent(model, Toolset())
    assert_type(agent, Agent[str])
    assert_type(await agent.run("Begin."), RunResult[str])
    typed = Agent(model, Toolset(), output=int)
    assert_type((await typed.run("Begin.")).output, int | None)
