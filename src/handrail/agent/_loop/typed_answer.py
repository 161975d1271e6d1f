"""The typed final answer of a run: a tool whose argument is the answer. Its call ends the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from handrail import READ, Args, Call, Result, Tool, Toolset, tool

T = TypeVar("T")
_NAME = "final_answer"


class FinalAnswer(Generic[T]):
    """The tool that takes the final answer, validated like any other argument."""

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
        """Return the answer in a tuple, or None if it is invalid; and the result of the call."""
        args = self._tool.parse(call.args)
        if isinstance(args, Args):
            return (args.values["answer"],), Result(call.id, "Answer accepted.")
        return None, Result.fail(call.id, args.kind, args.message)


_DESCRIPTION = (
    "Submit the final answer and end the run. Call it once, when everything else is done."
)
