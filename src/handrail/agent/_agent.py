"""Agent: a model and the tools that it may use."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from handrail import READ, Executor, Registry, Tool, ToolFailed, Toolset, tool
from handrail.agent._final import Final
from handrail.agent._limits import Limits
from handrail.agent._plan import Done, Plan, Save, Watch
from handrail.agent._run import Run
from handrail.agent._state import State
from handrail.judgement import Answer
from handrail.messages import Content, Model, Prompt

T = TypeVar("T")
_NO_ANSWERS: Mapping[str, Answer] = MappingProxyType({})
_NOTHING_YET = State()


class Agent(Generic[T]):
    """Lets a model use tools until it has an answer.

    Args:
        model: What replies: a function from a request to a reply, or to the pieces of one.
        tools: What the model may use. An Executor brings its own policy, approver and hooks, and is
            closed by whoever opened it; around a Toolset or a Registry one is made for each run.
        system: What the model is told before all else.
        limits: What ends a run early.
        output: The type of the final answer; without it, what the model says last is the answer.
        save: Writes down the state after each step, before the next one begins.
        max_tokens: Of one reply.
    """

    def __init__(  # noqa: PLR0913  each is an option with a default
        self,
        model: Model,
        tools: Executor | Toolset | Registry,
        *,
        system: str = "",
        limits: Limits = Limits(),  # noqa: B008  a frozen value
        output: type[T] | None = None,
        save: Save | None = None,
        max_tokens: int | None = None,
    ) -> None:
        self._tools = tools
        self._plan = Plan(
            model=model,
            system=system,
            limits=limits,
            final=None if output is None else Final(output),
            save=save,
            max_tokens=max_tokens,
        )

    def run(self, *prompt: str | Content, watch: Watch | None = None) -> Run[T]:
        """Begin with a prompt. Await what this gives."""
        return self._begun(_NOTHING_YET, _NO_ANSWERS, watch, Prompt.of(*prompt))

    def resume(
        self,
        state: State,
        *prompt: str | Content,
        answers: Mapping[str, Answer] = _NO_ANSWERS,
        watch: Watch | None = None,
    ) -> Run[T]:
        """Go on from a state: with answers to what is pending, with another prompt, or as it is."""
        run = self._begun(state, answers, watch, None)
        if prompt:
            run.say(*prompt)
        return run

    def _begun(
        self,
        state: State,
        answers: Mapping[str, Answer],
        watch: Watch | None,
        prompt: Prompt | None,
    ) -> Run[T]:
        own = not isinstance(self._tools, Executor)
        executor = self._tools if isinstance(self._tools, Executor) else Executor(self._tools)
        return Run(
            self._plan, executor, state, prompt=prompt, answers=answers, own=own, watch=watch
        )

    def as_tool(self, name: str, description: str) -> Tool[..., Any]:
        """This agent as a tool of another: it is given a task, and answers in words."""

        async def run_agent(task: str) -> str:
            """Do a task.

            Args:
                task: All that there is to know about it: nothing else is passed on.
            """
            done = await self.run(task)
            if done.stop != "answer":
                raise ToolFailed(_told(done))
            return done.text

        offered = self._tools.snapshot() if isinstance(self._tools, Registry) else self._tools
        tools = offered.tools if isinstance(offered, Executor) else offered
        effect = max((one.effect for one in tools.specs), default=READ)
        return tool(name=name, description=description, effect=effect)(run_agent)


def _told(done: Done[Any]) -> str:
    why = done.why or f"it is {done.stop}"
    said = f" What it said last: {done.text}" if done.text else ""
    return f"The task was not finished: {why}.{said}"
