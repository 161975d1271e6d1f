"""A coding agent's tools beside those for files and commands: plans, questions, tasks, programs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

from handrail import READ, Access, Context, Tool, Toolset, tool
from handrail.agent import Agent
from handrail.policy import Mode, Rulebook
from handrail.tools import AnswerQuestion, Workspace, apply_patch, ask_user, todo

Explorer: TypeAlias = Callable[..., Agent[Any]]
"""Makes a sub-agent, with these tools and a system prompt: ``explorer(tools, system=text)``."""
AGENT_TOOLS = ("apply_patch", "ask_user", "finish_plan", "task", "todo")
"""The names of the tools ``add_agent_tools`` adds."""
_EXPLORING = ("glob", "grep", "read")
"""A sub-agent's tools: it changes nothing, and runs no commands."""
_MAX_SECONDS = 24 * 3600.0
_CHANGE = "Change the plan"
_TASK_SYSTEM = (
    "You explore the files of one folder for another agent, which sees only your last message. "
    "Answer with everything that it needs, such as paths and line numbers, and nothing else."
)
_TASK_DESCRIPTION = """\
Let a sub-agent explore the files, and return its answer.

Use it for broad questions whose steps you do not need to see. It can read and search files, not \
change them. Several tasks of one turn run at the same time."""
_FINISH_DESCRIPTION = """\
Ask the user whether to carry out your plan, and return the answer.

Write the whole plan as text first, in the same turn."""


def add_agent_tools(
    tools: Toolset,
    *,
    workspace: Workspace,
    rules: Rulebook,
    explorer: Explorer,
    ask: AnswerQuestion | None = None,
    without: Collection[str] = (),
) -> Toolset:
    """Return the tools, and those only an agent can use.

    A name a tool already has is left to it.

    Args:
        tools: The tools for files, commands and the rest.
        workspace: The folder the agent works on.
        rules: What calls may do. The person who approves a plan sets their mode.
        explorer: Makes the sub-agent for tasks.
        ask: Shows a question and its choices to a person, and returns the answer. Without it,
            the model has no tool to ask.
        without: Tool names to omit.
    """
    exploring = tools.only(*(name for name in _EXPLORING if name in tools))
    more: list[Tool[..., Any]] = [apply_patch(workspace), todo()]
    if len(exploring):
        more.append(_make_task(exploring, workspace, explorer))
    if ask is not None:
        more += [ask_user(ask), _make_finish_plan(rules, ask)]
    added = (one for one in more if one.spec.name not in {*without, *_list_names(tools)})
    return Toolset(*tools, *added)


def add_programs(tools: Toolset) -> Toolset:
    """Return the tools with ``run_program``: it runs Python, with the reading tools as functions.

    These are ``glob``, ``grep`` and ``read``, and what ``handrail.programs.with_programs`` chooses.
    """
    from handrail.programs import with_programs  # an extra

    return with_programs(Toolset(*map(_offer_to_programs, tools)))


def _offer_to_programs(one: Tool[..., Any]) -> Tool[..., Any]:
    spec = one.spec
    if spec.name not in _EXPLORING or spec.effect != READ:
        return one
    return replace(one, spec=replace(spec, metadata={"program": "also", **spec.metadata}))


def _list_names(tools: Toolset) -> Iterator[str]:
    for one in tools:
        yield from (one.spec.name, *one.spec.aliases)


def _make_task(tools: Toolset, workspace: Workspace, explorer: Explorer) -> Tool[..., Any]:
    def touches(**_: object) -> tuple[Access, ...]:
        return workspace.access(READ, ".")

    async def run_task(task: str, context: Context) -> Any:
        """Explore.

        Args:
            task: What to find out, with all necessary context. Nothing else is passed on.
            context: The context of the call.
        """
        agent = explorer(tools, system=_TASK_SYSTEM)
        return await agent.as_tool("task", _TASK_DESCRIPTION)(task, context)

    make = tool(
        name="task",
        description=_TASK_DESCRIPTION,
        effect=READ,
        touches=touches,
        timeout=_MAX_SECONDS,
        tags=workspace.tags,
        synonyms={"prompt": "task"},
    )
    return make(run_task)


def _make_finish_plan(rules: Rulebook, ask: AnswerQuestion) -> Tool[..., Any]:
    """Make a tool for ending the mode ``plan`` once the user approves the plan."""

    def touches(**_: object) -> tuple[Access, ...]:
        return ()

    @tool(
        description=_FINISH_DESCRIPTION,
        effect=READ,
        touches=touches,
        timeout=_MAX_SECONDS,
        exclusive=True,
        instead_of={"exitplanmode": "end a plan", "exit_plan_mode": "end a plan"},
    )
    async def finish_plan() -> str:
        """Ask whether to carry out the plan."""
        modes = [mode for mode in (Mode.EDITS, Mode.ASK) if mode <= rules.ceiling]
        choices = {f"Continue in {mode}": mode for mode in modes}
        said = await ask("Carry out this plan?", (*choices, _CHANGE))
        if said in choices:
            rules.set_mode(choices[said])
            return f"The user approved the plan. The mode is now {choices[said]}: carry it out."
        if said in (None, _CHANGE):
            return "The user wants another plan. End your turn, and wait for what to change."
        return f"The user wants another plan: {said}"

    return finish_plan
