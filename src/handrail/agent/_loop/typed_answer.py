"""A run's typed final answer: a tool whose argument is the answer. Its call ends the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, cast

from handrail import READ, Args, Call, Result, Tool, Toolset, tool
from handrail.agent._history.state import AnyCall, RunState
from handrail.agent._loop.next_step import answer_text
from handrail.messages import Reply

T = TypeVar("T")
_NAME = "final_answer"


class FinalAnswer(Generic[T]):
    """The tool for the final answer, validated like any other argument."""

    def __init__(self, type_: type[T]) -> None:
        def final_answer(answer: Any) -> None: ...

        final_answer.__annotations__["answer"] = type_
        described = tool(name=_NAME, description=_DESCRIPTION, effect=READ)
        final_tool = described(cast("Callable[..., None]", final_answer))
        self._tool: Tool[..., None] = final_tool
        self.name = _NAME
        self.type: type[Any] = type_
        self.reminder = f"Call {_NAME} with your answer. Only that ends the run."
        self.missing = f"the model did not call {_NAME}"

    def add_to(self, tools: Toolset) -> Toolset:
        """Return the tools with the final answer tool added."""
        return Toolset(*tools, self._tool)

    def accept(self, call: Call) -> tuple[tuple[T] | None, Result]:
        """Return the answer in a tuple, or None if it is invalid; and the call's result."""
        args = self._tool.parse(call.args)
        if isinstance(args, Args):
            return (args.values["answer"],), Result(call.id, "Answer accepted.")
        return None, Result.fail(call.id, args.kind, args.message)

    def find(self, reply: Reply) -> tuple[T] | None:
        """Return a reply's first valid answer in a tuple, or None if it has none."""
        answers = [self.accept(call)[0] for call in reply.calls if call.name == self.name]
        return next((answer for answer in answers if answer is not None), None)

    def answer(self, call: Call, calls: Sequence[AnyCall]) -> Result:
        """Return the result for one call in a reply. The first valid answer is used."""
        answer, result = self.accept(call)
        answers = [one for one in calls if type(one) is Call and one.name == self.name]
        valid = (one.id for one in answers if self.accept(one)[0] is not None)
        if answer is None or next(valid, call.id) == call.id:
            return result
        return Result(call.id, _NOT_USED)


def read_answer(final: FinalAnswer[T] | None, state: RunState) -> T | None:
    """Return a state's last answer: typed, or as text. None without."""
    replies = [message for message in state.messages if isinstance(message, Reply)]
    if final is None:
        return cast("T", answer_text(state.messages)) or None
    found = final.find(replies[-1]) if replies else None
    return None if found is None else found[0]


_NOT_USED = "Not used: the first answer of this reply was accepted."
_DESCRIPTION = (
    "Submit the final answer and end the run. Call it once, when everything else is done."
)
