"""The whole state of a run: one value that can be written down at any moment, and gone on from."""

from __future__ import annotations

from typing import Any, NamedTuple

from handrail import READ, Call, Kind, Result, Tool
from handrail.judgement import Pending
from handrail.messages import NOTHING_USED, Cut, Message, Prompt, Reply, Results, Usage


class State(NamedTuple):
    """What was said, what became of it, and what waits for an answer.

    A tuple, as a Result is: every run makes one, and each time it is written down another.
    """

    messages: tuple[Message, ...] = ()
    waiting: tuple[Result, ...] = ()
    """One for each call of the last reply, while some of them are pending; empty otherwise."""
    inbox: tuple[Prompt, ...] = ()
    """What was said meanwhile: the model hears it with its next turn."""
    usage: Usage = NOTHING_USED
    turns: int = 0
    calls: int = 0

    @property
    def pending(self) -> tuple[Pending, ...]:
        """The questions that are open."""
        return tuple(one.pending for one in self.waiting if one.pending is not None)

    @property
    def open(self) -> tuple[Call | Cut, ...]:
        """The calls of the last reply that have no result yet."""
        last = self.messages[-1] if self.messages else None
        if not isinstance(last, Reply) or self.waiting:
            return ()
        return requests(last)

    def transcript(self) -> tuple[Message, ...]:
        """The messages as every provider takes them: one result for each call in any case."""
        if self.waiting:
            return (*self.messages, Results(self.waiting))
        if not self.open:
            return self.messages
        return (*self.messages, Results(tuple(lost(one) for one in self.open)))


def requests(reply: Reply) -> tuple[Call | Cut, ...]:
    """What a reply asks for, complete or not, in its order."""
    return tuple([part for part in reply.parts if type(part) is Call or type(part) is Cut])


def repeatable(tool: Tool[..., Any] | None) -> bool:
    """Whether a call of a tool may be made again: it only reads, or says that it may."""
    return tool is None or tool.spec.effect == READ or tool.spec.idempotent


def lost(request: Call | Cut) -> Result:
    """The result of a call that nobody knows the end of."""
    if isinstance(request, Cut):
        return Result.fail(request.id, Kind.BAD_ARGS, _CUT)
    return Result.fail(request.id, Kind.UNKNOWN, _LOST)


def too_many(call: Call) -> Result:
    """The result of a call over the limit."""
    return Result.fail(call.id, Kind.DENIED, _TOO_MANY)


def not_begun(call: Call) -> Result:
    """The result of a call that an interruption came before."""
    return Result.fail(call.id, Kind.CANCELLED, _NOT_BEGUN)


_TOO_MANY = "The limit of calls is reached. Nothing was run. Answer with what you have."
_NOT_BEGUN = "The run was interrupted before this call was started. Nothing was run."
_CUT = (
    "The call was cut off before its arguments were complete, since the reply had become too long. "
    "Nothing was run. Call again with less text at a time."
)
_LOST = (
    "The run was interrupted while this call was under way. It is not known whether it had its "
    "effect: check that first, and do not simply call it again."
)
