"""Agno: functions run by an executor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from typing_extensions import Unpack

from handrail._support.lazy import name_extra

try:
    from agno.media import File as AgnoFile
    from agno.media import Image as AgnoImage
    from agno.run import RunContext
    from agno.tools.function import Function, FunctionCall, ToolResult
except ModuleNotFoundError as error:
    raise name_extra(error, __name__, "agno") from error

from handrail import Call, Executor, File, Image, Result
from handrail.adapters._calls._given import Given, TurnFacts
from handrail.adapters._turns import Turns, offer_tools


def tools(executor: Executor, **given: Unpack[Given[RunContext]]) -> list[Function]:
    """Return an executor's tools. They get the run's dependencies as deps.

    They need ``arun`` or another async agent method. Agno confirms tools, not calls: give the
    executor an approver. Without one, it denies calls needing approval. Agno lists tools once: use
    ``LongResults(reader="always")`` to let a model read long results.
    """
    place = "`agno.tools`, or `dependencies=` to `agent.arun`"
    turns, facts = Turns(executor), TurnFacts[RunContext](executor, place, given)

    def make(name: str, own_name: str) -> Callable[..., Any]:
        async def run(fc: FunctionCall, _agno_run_context: RunContext, **_: Any) -> ToolResult:
            context = _agno_run_context
            read = facts.read(context, principal=context.user_id, deps=context.dependencies)
            opened = turns.gather(context, {"run": context.run_id, **read})
            call = Call(own_name, fc.arguments or {}, fc.call_id or name)
            return _show(await opened.run(call))

        return run

    return [
        Function(
            name=name,
            description=spec.description,
            parameters=dict(spec.input_schema),
            entrypoint=make(name, spec.name),
            skip_entrypoint_processing=True,
        )
        for name, spec in offer_tools(executor)
    ]


def _show(result: Result) -> ToolResult:
    images = [one for one in result.parts if isinstance(one, Image)]
    files = [one for one in result.parts if isinstance(one, File)]
    return ToolResult(
        content=result.text,
        images=[AgnoImage(content=one.data, mime_type=one.media_type) for one in images] or None,
        files=[AgnoFile(content=one.data, filename=one.name) for one in files] or None,
    )
