"""An executor for the calls of a durable run, which its engine makes."""

from __future__ import annotations

import pytest

from handrail import Executor, Hook, Toolset
from handrail.agent import Agent
from handrail.testing import ScriptedModel


def test_an_agent_with_an_executor_has_no_tools_for_an_engine() -> None:
    agent = Agent(ScriptedModel(), Executor(Toolset()))

    with pytest.raises(TypeError, match="A durable run makes its own Executor"):
        agent.make_executor(Hook())
