"""Run settings and results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, cast

from handrail import Context, HandrailError
from handrail.agent._history.compaction import Compaction
from handrail.agent._history.state import RunState
from handrail.agent._loop.budgets import RunBudget
from handrail.agent._loop.events import OnEvent
from handrail.agent._loop.limits import LimitName, Limits, StoppedBy
from handrail.agent._loop.live_runs import LiveRun
from handrail.agent._loop.next_step import NextStep, NoAnswer, answer_text
from handrail.agent._loop.recorder import Recorder
from handrail.agent._loop.spending import Reached
from handrail.agent._loop.typed_answer import FinalAnswer
from handrail.messages import Model, Request
from handrail.permissions import Answer, Pending

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # whose default all checkers know

    T = TypeVar("T", default=str)
else:
    from typing import TypeVar

    T = TypeVar("T")
StopReason: TypeAlias = Literal["answer", "pending", "limit", "interrupted", "stopped"] | NoAnswer
"""Why a run ended: answered, pending approval, at a limit, interrupted, or stopped by a hook; or
without an answer: ``truncated`` at the output limit, ``refused``, ``empty``, or ``invalid`` (no
answer of the output type)."""
Save: TypeAlias = Callable[[RunState], Awaitable[None]]
"""Saves a state. The run awaits it before it continues."""


SystemPrompt: TypeAlias = Callable[[RunState], str | Awaitable[str]]
"""Returns the system prompt when a run starts."""
Prepare: TypeAlias = Callable[[Request], Request | Awaitable[Request]]
"""Returns the request to send in place of the given one, before each turn."""

NO_ANSWERS: Mapping[str, Answer] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """One run's options."""

    answers: Mapping[str, Answer]
    on_event: OnEvent | None
    for_turn: Mapping[str, Any]
    """Options for each turn: who the calls are for, what tools can use, who approves."""
    parent: LiveRun | None
    """The run a sub-agent works for."""
    recorder: Recorder | None = None
    """Records the run for a durable engine."""
    caller: Context[Any] | None = None
    """A sub-agent's: the call that it runs for."""
    budgets: Sequence[RunBudget] = ()
    """What limits its model, for its sub-agents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings(Generic[T]):
    """The settings shared by an agent's runs."""

    model: Model
    system: str | SystemPrompt
    limits: Limits
    final: FinalAnswer[T] | None
    save: Save | None
    max_tokens: int | None
    retries: int
    prepare: Prepare | None
    compaction: Compaction | None
    around: AroundRun | None = None


class RunResult(NamedTuple, Generic[T]):
    """A run's outcome. Pass ``state`` to ``Agent.resume`` to continue it."""

    stop_reason: StopReason
    state: RunState
    output: T | None = None
    """The answer, with the agent's ``output`` type, or the text."""
    stop_detail: str = ""
    """More about the stop reason: the limit reached, the reason of the hook that stopped
    the run, or what the provider says about a refusal."""
    limit: LimitName | None = None
    """The reached limit's name."""

    @property
    def text(self) -> str:
        """The model's last reply as text, since the prompt, with the parts it continues."""
        said = self.state.turns > self.state.before.turns
        return answer_text(self.state.messages) if said else ""

    @property
    def questions(self) -> tuple[Pending, ...]:
        """The requests for a person, including sub-agents' requests."""
        return self.state.questions

    def unwrap(self) -> T:
        """Return the output. Raises Unfinished, which says why, if the run has no answer."""
        if self.stop_reason != "answer":
            raise Unfinished(self)
        return cast("T", self.output)


class Unfinished(HandrailError):
    """A run ended without an answer. ``result`` has its state, to continue it."""

    def __init__(self, result: RunResult[Any]) -> None:
        super().__init__(f"The run has no answer: {describe_end(result)}.")
        self.result = result


def describe_end(result: RunResult[Any]) -> str:
    """Return why a run ended, as a clause."""
    reason = "waiting for approval" if result.stop_reason == "pending" else result.stop_reason
    return result.stop_detail.removesuffix(".") or reason


def make_result(  # noqa: PLR0913, PLR0917  what can end a run
    settings: RunSettings[T],
    state: RunState,
    answer: tuple[T] | None,
    stop_reason: str | None,
    stopped_by: StoppedBy | None,
    limit: Reached | None,
    ended: NextStep | None,
) -> RunResult[T]:
    """Return a run's result, from its state, its typed answer, and what has ended it."""
    output = None if answer is None else answer[0]
    if stop_reason is not None:
        return RunResult("stopped", state, output, stop_reason)
    if state.waiting:
        return RunResult("pending", state)
    if stopped_by == "interrupted" and answer is None:
        return RunResult("interrupted", state)
    if stopped_by is not None and answer is None:
        limit = limit or Reached("seconds", settings.limits.describe("seconds"))
    if limit is not None:
        return RunResult("limit", state, output, limit.detail, limit.name)
    if ended is not None and ended.problem is not None:
        return RunResult(ended.problem, state, stop_detail=ended.detail)
    if settings.final is None:
        output = cast("T", answer_text(state.messages))
    return RunResult("answer", state, output)


NextRun: TypeAlias = Callable[[], Awaitable[RunResult[Any]]]
"""Runs the agent. Await it once."""
AroundRun: TypeAlias = Callable[[RunState, NextRun], Awaitable[RunResult[Any]]]
"""Wraps a run, such as a tracer. Gets the state at its start, and returns the run's result."""
