"""Decide what follows a reply without calls: the run's end, or another request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from handrail.messages import Message, Prompt, Reply, Stop

NoAnswer: TypeAlias = Literal["truncated", "refused", "empty", "invalid"]
"""Why a reply is not an answer."""


class NextStep(NamedTuple):
    """The step after a reply without calls."""

    problem: NoAnswer | None = None
    """Why the reply is not an answer; None if it is one."""
    prompt: str | None = None
    """A message for asking the model again; None if hopeless."""
    detail: str = ""
    """A problem description."""


ANSWERED = NextStep()
_FINAL: Mapping[Stop, tuple[NoAnswer, str]] = {
    "refused": ("refused", "the model refused to answer"),
    "overflow": ("truncated", "the context window is full"),
    "unsupported": ("empty", "the model sent a request that is not supported"),
}
"""Replies after which the model is not asked again: the problem, and its usual description."""
_INVALID = NextStep("invalid", detail="the model gave no valid final answer")
_TRUNCATED = NextStep("truncated", detail="every reply reached the output limit")


def find_next_step(reply: Reply) -> NextStep:
    """Return the step after a complete reply without calls."""
    detail = reply.stop_detail
    match reply.stop:
        case "refused" | "overflow" | "unsupported":
            problem, usual = _FINAL[reply.stop]
            return NextStep(problem, detail=detail or usual)
        case "length":
            prompt = CONTINUE if reply.text else _THOUGHT_TOO_LONG
            return NextStep("truncated", prompt, "the reply reached the output limit")
        case "malformed":
            said = detail or "the model sent an invalid tool call"
            return NextStep("empty", f"{_MALFORMED} {said}", said)
        case _ if reply.text.strip():
            return ANSWERED
        case _:
            return NextStep("empty", _EMPTY, "the model sent an empty reply")


class Attempts:
    """Counts replies in a row without an answer and without a complete call to another tool."""

    def __init__(self, retries: int) -> None:
        self._retries = retries
        self._failed = 0
        self.ended: NextStep | None = None
        """Why the model is not asked again."""

    def reset(self) -> None:
        """Forget the failed replies: there is a new prompt."""
        self._failed = 0

    def prompt_after(self, step: NextStep) -> str | None:
        """Count a reply without calls. Return the message for asking again, or None."""
        if step.prompt is None or self._failed >= self._retries:
            self.ended = step
            return None
        self._failed += 1
        return step.prompt

    def count_calls(self, reply: Reply, final_name: str | None) -> None:
        """Count a reply with calls, but no valid final answer."""
        calls = reply.calls
        if any(call.name != final_name for call in calls):
            self._failed = 0
            return
        self._failed += 1
        if self._failed > self._retries:
            self.ended = _INVALID if calls else _TRUNCATED


def answer_text(messages: Sequence[Message]) -> str:
    """Return the text of the last reply, with the replies it continues."""
    texts: list[str] = []
    at = max((at for at, one in enumerate(messages) if isinstance(one, Reply)), default=-1)
    while at >= 0:
        reply = messages[at]
        assert isinstance(reply, Reply)  # noqa: S101  for type checkers
        texts.append(reply.text)
        at = _continued_by(messages, at)
    return "".join(reversed(texts))


def _continued_by(messages: Sequence[Message], at: int) -> int:
    """Return the index of the reply continued by this one, or -1."""
    if at and messages[at - 1] == _CONTINUE_PROMPT:
        at -= 1
    before = messages[at - 1] if at else None
    continues = isinstance(before, Reply) and before.stop in ("paused", "length")
    return at - 1 if continues else -1


CONTINUE = "Your reply was truncated at the output limit. Continue exactly where it stopped."
_CONTINUE_PROMPT = Prompt.of(CONTINUE)
_THOUGHT_TOO_LONG = "Your reply reached the output limit before it had an answer. Answer briefly."
_MALFORMED = "Your reply could not be used. Send it again."
_EMPTY = "Your reply was empty. Answer, or call a tool."
