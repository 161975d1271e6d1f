"""The final answer of a run, where that has a type: a tool that ends the run with its argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from handrail import READ, Args, Call, Result, Tool, Toolset, tool

T = TypeVar("T")
_NAME = "final_answer"


class Final(Generic[T]):
    """Takes the answer from a model that calls it, checked like any other argument."""

    def __init__(self, type_: type[T]) -> None:
        def final_answer(answer: Any) -> None: ...

        final_answer.__annotations__["answer"] = type_
        described = tool(name=_NAME, description=_DESCRIPTION, effect=READ)
        made = described(cast("Callable[..., None]", final_answer))
        self._tool: Tool[..., None] = made
        self.name = _NAME
        self.reminder = f"Give your answer by calling {_NAME}. Nothing else ends this."

    def beside(self, tools: Toolset) -> Toolset:
        """These tools, and the one that ends the run."""
        return Toolset(*tools, self._tool)

    def taken(self, call: Call) -> tuple[tuple[T] | None, Result]:
        """The answer, boxed, if it is one; and what the model reads in any case."""
        args = self._tool.parse(call.args)
        if isinstance(args, Args):
            return (args.values["answer"],), Result(call.id, "The answer was taken.")
        return None, Result.fail(call.id, args.kind, args.message)


_DESCRIPTION = "Give the final answer. Call this once, when all else is done: it ends the run."
