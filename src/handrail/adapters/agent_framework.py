"""Microsoft Agent Framework: function tools that an executor runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent_framework import Content, FunctionInvocationContext, FunctionTool

from handrail import Call, Executor, Result, Spec, Text
from handrail.adapters._turns import Turns, offer_tools

Principal = Callable[[FunctionInvocationContext], str | None]
"""Returns the user on whose behalf calls are made."""


def tools(executor: Executor, *, principal: Principal = lambda _: None) -> list[FunctionTool]:
    """Return the tools of an executor. They get the function arguments of the run as deps.

    The framework asks about tools, not calls: give the executor an approver. Without one, it denies
    what needs approval. The framework lists tools once: use ``LongResults(reader="always")``, so
    that a model can read long results.
    """
    turns = Turns(executor)
    return [ExecutorTool(name, spec, turns, principal) for name, spec in offer_tools(executor)]


class ExecutorTool(FunctionTool):
    """One tool of an executor."""

    def __init__(self, name: str, spec: Spec, turns: Turns, principal: Principal) -> None:
        def wants(ctx: FunctionInvocationContext) -> None:
            """Without it, the framework passes no context."""

        schema = dict(spec.input_schema)
        super().__init__(name=name, description=spec.description, func=wants, input_model=schema)
        self._own_name, self._turns, self._principal = spec.name, turns, principal

    async def invoke(
        self,
        *,
        arguments: Any = None,
        context: FunctionInvocationContext | None = None,
        tool_call_id: str | None = None,
        skip_parsing: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Run one call, together with the others of its reply. The executor checks arguments."""
        given: dict[str, Any] = {}
        if context is not None:
            given = {"principal": self._principal(context), "deps": context.kwargs}
        opened = self._turns.gather(context and context.tools, given)
        args = kwargs if arguments is None else dict(arguments)
        result = await opened.run(Call(self._own_name, args, *filter(None, [tool_call_id])))
        return _show(result)


def _show(result: Result) -> list[Content]:
    """Return a result as contents, also a failure: the model would not read an exception."""
    return [
        Content.from_text(part.text)
        if isinstance(part, Text)
        else Content.from_data(part.data, part.media_type)
        for part in result.content
    ]
