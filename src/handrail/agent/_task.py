"""A tool that gives a sub-agent a task."""

from __future__ import annotations

from typing import Any

from handrail import Executor, Tool
from handrail.agent._agent import Agent
from handrail.agent._loop.limits import Limits
from handrail.messages import Model
from handrail.permissions import Policy

_DEFAULT_LIMITS = Limits()


def task_tool(
    model: Model | str,
    executor: Executor,
    *tools: str,
    policy: Policy | None = None,
    limits: Limits = _DEFAULT_LIMITS,
) -> Tool[..., Any]:
    """Return a tool ``task`` that gives a sub-agent a task, with only the named tools.

    The sub-agent can do what ``executor`` allows, and with ``policy`` what both allow.
    """
    inner = Agent(
        model, executor.restrict(*tools, policy=policy), system=_TASK_SYSTEM, limits=limits
    )
    return inner.as_tool("task", _TASK_DESCRIPTION)


_TASK_SYSTEM = (
    "You work on one task for another agent, which sees only your last message. "
    "Do the task, then answer with everything that the other agent needs, and nothing else."
)
_TASK_DESCRIPTION = (
    "Give a task to a sub-agent with fewer tools, and get its answer. Use it for work whose steps "
    "you do not need to see, such as a search through many files."
)
