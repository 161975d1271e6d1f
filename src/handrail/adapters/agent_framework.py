"""Microsoft Agent Framework: function tools run by an executor."""

from __future__ import annotations

from typing import Any

from typing_extensions import Unpack

from handrail._support.lazy import name_extra

try:
    from agent_framework import Content, FunctionInvocationContext, FunctionTool
except ModuleNotFoundError as error:
    raise name_extra(error, __name__, "agent-framework") from error

from handrail import Call, Executor, Result, Spec, Text
from handrail.adapters._calls._given import Given, TurnFacts
from handrail.adapters._turns import Turns, offer_tools


def tools(
    executor: Executor, **given: Unpack[Given[FunctionInvocationContext]]
) -> list[FunctionTool]:
    """Return an executor's tools. They get the run's function arguments as deps.

    The framework asks about tools, not calls: give the executor an approver. Without one, it denies
    calls needing approval. The framework lists tools once: use ``LongResults(reader="always")`` to
    let a model read long results.
    """
    turns, facts = Turns(executor), TurnFacts[Any](executor, "`agent_framework.tools`", given)
    return [ExecutorTool(name, spec, turns, facts) for name, spec in offer_tools(executor)]


class ExecutorTool(FunctionTool):
    """One of an executor's tools."""

    def __init__(self, name: str, spec: Spec, turns: Turns, facts: TurnFacts[Any]) -> None:
        def wants(ctx: FunctionInvocationContext) -> None:
            """Without it, the framework passes no context."""

        schema = dict(spec.input_schema)
        super().__init__(name=name, description=spec.description, func=wants, input_model=schema)
        self._own_name, self._turns, self._facts = spec.name, turns, facts

    async def invoke(
        self,
        *,
        arguments: Any = None,
        context: FunctionInvocationContext | None = None,
        tool_call_id: str | None = None,
        skip_parsing: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Run one call, together with its reply's others. The executor checks arguments."""
        given = self._facts.read(context, deps=context and context.kwargs)
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
