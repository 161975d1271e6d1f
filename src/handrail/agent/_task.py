"""Tools that give a sub-agent a task, or a task and a skill to follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from anyio import to_thread

from handrail import Access, Context, Executor, Tool, Toolset, tool
from handrail.agent._agent import Agent
from handrail.agent._loop.limits import Limits
from handrail.agent._skills.skill_tool import literal_type
from handrail.agent._skills.skills import Skills
from handrail.agent._subagent import NO_TIMEOUT
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


def skill_task_tool(
    skills: Skills,
    model: Model | str,
    executor: Executor,
    *tools: str,
    policy: Policy | None = None,
    limits: Limits = _DEFAULT_LIMITS,
) -> Toolset:
    """Return a tool ``skill_task`` that lets a sub-agent follow a skill; no tool without skills.

    The sub-agent is that of ``task_tool``, with only the named tools. Its prompt is the skill's
    text, as the tool ``skill`` returns it, and the task. Name ``skill`` too if it should read the
    skill's other files.
    """
    load = skills.tools.find("skill")
    if load is None:
        return Toolset()
    give = task_tool(model, executor, *tools, policy=policy, limits=limits)
    touches_skill = cast("Callable[..., tuple[Access, ...]]", load.touches)

    def touches(name: str, **_: object) -> tuple[Access, ...]:
        return (*touches_skill(name=name, file=""), Access(give.spec.effect, "*"))

    async def skill_task(name: Any, task: str, context: Context) -> Any:
        """Give a task to a sub-agent that follows a skill, and get its answer.

        Use it for a task that matches a skill's description, if you do not need to see its steps.

        Args:
            name: Name of the skill.
            task: The task, with all necessary context. Nothing else is passed on.
            context: The context of the call.
        """
        text = await to_thread.run_sync(load.fn, name)
        return await give(f"{text}\n\n{task}", context)

    skill_task.__annotations__["name"] = literal_type([skill.name for skill in skills.skills])
    make = tool(effect=give.spec.effect, touches=touches, timeout=NO_TIMEOUT)
    return Toolset(make(skill_task))
