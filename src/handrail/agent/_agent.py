"""Agent: a model and the tools that it may call."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic

from handrail import READ, Context, Executor, Registry, Tool, ToolFailed, Toolset, tool
from handrail.agent._limits import Limits
from handrail.agent._run import Run
from handrail.agent._settings import OnEvent, RunResult, RunSettings, Save
from handrail.agent._state import RunState
from handrail.agent._typed_answer import FinalAnswer
from handrail.messages import Content, Model, Prompt
from handrail.permissions import Answer

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # whose default all checkers know

    T = TypeVar("T", default=None)
else:
    from typing import TypeVar

    T = TypeVar("T")
_NO_ANSWERS: Mapping[str, Answer] = MappingProxyType({})
_NEW_STATE = RunState()
_DEFAULT_LIMITS = Limits()


class Agent(Generic[T]):
    """Lets a model call tools until it has an answer.

    Args:
        model: A function from a request to a reply, or to a stream that ends with the reply.
        tools: The tools that the model may call. An Executor has its own policy, approver and
            hooks, and you close it. For a Toolset or a Registry, each run creates an Executor.
        system: The system prompt.
        limits: Limits of a run: turns, calls, tokens and seconds.
        output: The type of the final answer. By default, the answer is the model's last text.
        save: Saves the state after each step, before the next one starts.
        max_tokens: Maximum tokens of one reply.
        retries: How often in a row the model is asked again after a reply that is empty, truncated
            or, with ``output``, not a valid answer.
    """

    def __init__(  # noqa: PLR0913  each is an option with a default
        self,
        model: Model,
        tools: Executor | Toolset | Registry,
        *,
        system: str = "",
        limits: Limits = _DEFAULT_LIMITS,
        output: type[T] | None = None,
        save: Save | None = None,
        max_tokens: int | None = None,
        retries: int = 2,
    ) -> None:
        self._tools = tools
        self._settings = RunSettings(
            model=model,
            system=system,
            limits=limits,
            final=None if output is None else FinalAnswer(output),
            save=save,
            max_tokens=max_tokens,
            retries=retries,
        )

    def run(self, *prompt: str | Content, on_event: OnEvent | None = None) -> Run[T]:
        """Start a run with a prompt. Await the returned Run to get its RunResult."""
        return self._begin(_NEW_STATE, _NO_ANSWERS, on_event, Prompt.of(*prompt))

    def resume(
        self,
        state: RunState,
        *prompt: str | Content,
        answers: Mapping[str, Answer] = _NO_ANSWERS,
        on_event: OnEvent | None = None,
    ) -> Run[T]:
        """Resume a run from a state, optionally with another prompt.

        ``answers`` maps ``Pending.id`` to an answer. Calls without an answer stay pending.
        """
        start = state.add_prompt(*prompt) if prompt else state
        return self._begin(start, answers, on_event, None)

    def _begin(
        self,
        state: RunState,
        answers: Mapping[str, Answer],
        on_event: OnEvent | None,
        prompt: Prompt | None,
    ) -> Run[T]:
        own = not isinstance(self._tools, Executor)
        executor = self._tools if isinstance(self._tools, Executor) else Executor(self._tools)
        return Run(
            self._settings,
            executor,
            state,
            prompt=prompt,
            answers=answers,
            own=own,
            on_event=on_event,
        )

    def as_tool(self, name: str, description: str) -> Tool[..., Any]:
        """Return a tool that gives this agent a task and returns its answer as text."""

        async def run_agent(task: str, context: Context) -> str:
            """Do a task.

            Args:
                task: The task, with all necessary context. Nothing else is passed on.
                context: The context of the call.
            """
            start = RunState(run_id=context.idempotency_key)
            done = await self._begin(start, _NO_ANSWERS, None, Prompt.of(task))
            if done.stop_reason != "answer":
                raise ToolFailed(_describe_unfinished(done))
            return done.text

        offered = self._tools.snapshot() if isinstance(self._tools, Registry) else self._tools
        tools = offered.tools if isinstance(offered, Executor) else offered
        effect = max((spec.effect for spec in tools.specs), default=READ)
        return tool(name=name, description=description, effect=effect)(run_agent)


def _describe_unfinished(done: RunResult[Any]) -> str:
    reason = "waiting for approval" if done.stop_reason == "pending" else done.stop_reason
    detail = done.stop_detail.removesuffix(".") or reason
    last_text = f" Its last message: {done.text}" if done.text else ""
    return f"Not finished: {detail}.{last_text}"
