"""A run's complete state: one value, to be saved at any time and resumed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from handrail import READ, Call, Executor, FailureKind, Result, StopRun, Text, Tool
from handrail.agent._history.compaction import Shortened
from handrail.agent._history.given_answers import GivenAnswer, select_answers
from handrail.messages import (
    NO_USAGE,
    Content,
    Message,
    Prompt,
    Reply,
    ToolResults,
    TruncatedCall,
    Usage,
)
from handrail.permissions import Pending

AnyCall: TypeAlias = Call | TruncatedCall
"""A reply's call, complete or not."""


NO_COST = Decimal(0)


class Spent(NamedTuple):
    """Turns, calls, tokens and money a run has used."""

    turns: int = 0
    calls: int = 0
    usage: Usage = NO_USAGE
    cost: Decimal = NO_COST


class EarlyCall(NamedTuple):
    """A call the stream sent and the reply lacks, and its result."""

    call: Call
    result: Result


class BackgroundCall(NamedTuple):
    """A call in the background: the model has read its start, and waits for its result."""

    call: Call
    turn_id: str


class RunState(NamedTuple):
    """A run's messages, its results and its pending calls.

    It is a tuple for speed: every run creates one, and one more each time it is saved.
    """

    messages: tuple[Message, ...] = ()
    waiting: tuple[Result, ...] = ()
    """The last reply's results while some are pending; otherwise empty."""
    inbox: tuple[Prompt, ...] = ()
    """Messages added to the model's next turn."""
    usage: Usage = NO_USAGE
    turns: int = 0
    calls: int = 0
    run_id: str = ""
    """The prefix for all call keys, in any process. A run without an id creates one."""
    before: Spent = Spent()
    """What was used before the last prompt. Limits count from there."""
    discarded: tuple[EarlyCall, ...] = ()
    """Calls that started while a reply was streamed, and that the reply does not have. They only
    read. A model that fails in the middle of a stream leaves them behind."""
    shortened: Shortened = Shortened()
    """Message parts left out of requests."""
    cost: Decimal = NO_COST
    """The tokens' cost. Computed only in runs with a cost limit."""
    answers: tuple[GivenAnswer, ...] = ()
    """Answers that were given and could not be used yet: their calls wait behind other ones."""
    background: tuple[BackgroundCall, ...] = ()
    """Calls in the background. Only a running run's state has some."""

    def add_prompt(self, *parts: str | Content) -> RunState:
        """Return the state with another prompt for the next turn. Limits count from here."""
        return self.count_anew()._replace(inbox=(*self.inbox, Prompt.of(*parts)))

    def count_anew(self) -> RunState:
        """Return the state with limits that count from here."""
        return self._replace(before=self.spent)

    @property
    def spent(self) -> Spent:
        """Everything used so far."""
        return Spent(self.turns, self.calls, self.usage, self.cost)

    @property
    def pending(self) -> tuple[Pending, ...]:
        """The calls waiting for approval, including sub-agents' calls.

        An answered call waiting behind another one is not among them.
        """
        waiting = self.requests
        answered = {given.pending_id for given in select_answers(self.answers, waiting)}
        return tuple([pending for pending in waiting if pending.id not in answered])

    @property
    def questions(self) -> tuple[Pending, ...]:
        """The requests for a person: ``pending`` without calls waiting for another."""
        return tuple([pending for pending in self.pending if pending.kind != "waiting"])

    @property
    def requests(self) -> tuple[Pending, ...]:
        """The calls that have no result yet, answered or not, including those of sub-agents."""
        own = [result.pending for result in self.waiting if result.pending is not None]
        return tuple([request for pending in own for request in pending.requests])

    @property
    def open(self) -> tuple[AnyCall, ...]:
        """The last reply's calls without a result."""
        last = self.messages[-1] if self.messages else None
        if not isinstance(last, Reply) or self.waiting:
            return ()
        return requests(last)

    def transcript(self) -> tuple[Message, ...]:
        """Return the messages with one result for each call, as every provider requires.

        The last ones are those the model has not read: prompts, and results for background calls.
        """
        results = self.waiting or tuple(map(unknown_result, self.open))
        lost = [report_ended(one.call, unknown_result(one.call)) for one in self.background]
        answered = (ToolResults(results),) if results else ()
        return (*self.messages, *answered, *self.inbox, *lost)

    def abandon(self, allowed: Collection[str] = ()) -> RunState:
        """Return the state without open requests, after its process died or the run was cancelled.

        A call that may have begun has an unknown result: its request was allowed, one inside it, or
        one it had to wait for. The others were not started.

        Args:
            allowed: The ids of the requests whose answers were in use.
        """
        waiting = tuple([_abandon(one, allowed) for one in self.waiting])
        messages = self._replace(waiting=waiting).transcript()
        return self._replace(messages=messages, waiting=(), answers=(), inbox=(), background=())


def requests(reply: Reply) -> tuple[AnyCall, ...]:
    """Return a reply's calls, complete or not, in order."""
    return tuple(
        [part for part in reply.parts if type(part) is Call or type(part) is TruncatedCall]
    )


def find_called(call: Call, executor: Executor) -> Tool[..., Any] | None:
    """Return the tool a call runs, also if the model calls it through another one."""
    tool = executor.tools.find(call.name)
    return None if tool is None else executor.tools.find(executor.explain(call).tool) or tool


def is_repeatable(tool: Tool[..., Any] | None) -> bool:
    """Whether a call can be repeated: the tool only reads, or is idempotent."""
    return tool is None or tool.spec.effect == READ or tool.spec.idempotent


def unknown_result(call: AnyCall) -> Result:
    """Return the result for a truncated call, or a call with a lost result."""
    if isinstance(call, TruncatedCall):
        return call.refuse()
    return Result.fail(call.id, FailureKind.UNKNOWN, _RESULT_LOST)


def find_background(calls: Iterable[BackgroundCall], turn_id: str, call_id: str) -> BackgroundCall:
    """Return a call in the background."""
    return next(one for one in calls if (one.turn_id, one.call.id) == (turn_id, call_id))


def report_ended(call: Call, result: Result) -> Prompt:
    """Return an ended background call's result as a message. It is a quote, not the user's word."""
    texts = [part.text for part in result.content if isinstance(part, Text)]
    others = [part for part in result.content if not isinstance(part, Text)]
    head = _ENDED.format(call.id, call.name)
    # each call has had its result, so a late one needs a form all APIs take: decision 162
    return Prompt((Text("\n".join((head, *texts)), quoted=True), *others))


def _abandon(result: Result, allowed: Collection[str]) -> Result:
    """Return the result for a call that waits no more."""
    pending = result.pending
    if pending is None:
        return result
    was_free = pending.kind == "waiting" and bool(allowed)
    is_allowed = any(one.id in allowed for one in (pending, *pending.requests))
    begun = was_free or is_allowed or bool(pending.record)
    return unknown_result(pending.call) if begun else not_started_result(pending.call)


def over_limit_result(call: Call) -> Result:
    """Return the result for a call over the limit."""
    return Result.fail(call.id, FailureKind.CANCELLED, _OVER_LIMIT)


def result_without_run(call: AnyCall, *, is_over_limit: bool, again: bool) -> Result:
    """Return the result for a call not passed to the executor."""
    if isinstance(call, TruncatedCall) or (again and not is_over_limit):
        return unknown_result(call)
    return over_limit_result(call) if is_over_limit else not_started_result(call)


def stopped_result(call: Call, reason: str) -> Result:
    """Return the result for a call not started because a hook ended the run."""
    return Result.fail(call.id, FailureKind.CANCELLED, StopRun.describe(reason))


def not_started_result(call: Call) -> Result:
    """Return the result for a call not started because the run was interrupted."""
    return Result.fail(call.id, FailureKind.CANCELLED, _NOT_STARTED)


_ENDED = (
    "[The background call {!r} of {} has ended. This is its result, and no message from the user:]"
)
_OVER_LIMIT = "Not run: a limit of the run is reached. Answer with what you have."
_NOT_STARTED = "Not run: the run was interrupted before this call started."
_RESULT_LOST = (
    "Interrupted: the result of this call was lost. "
    "It may have taken effect: check before you call it again."
)
