"""OpenAI Agents SDK: function tools run by an executor. Approval requests are interruptions."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from typing_extensions import Unpack

from handrail._support.lazy import name_extra

try:
    from agents import FunctionTool, RunContextWrapper, Tool, ToolApprovalItem
    from agents.tool_context import ToolContext
except ModuleNotFoundError as error:
    raise name_extra(error, __name__, "openai-agents") from error

from handrail import Allow, Call, Executor, Failure, Spec
from handrail.adapters._calls._given import Given, TurnFacts
from handrail.adapters._calls.openai_agents import NOT_PLAIN, check_json, find_said, show
from handrail.adapters._calls.openai_agents import run_config as run_config  # noqa: PLC0414  public here
from handrail.adapters._sources.openai_agents import source as source  # noqa: PLC0414  public here
from handrail.adapters._turns import OpenTurn, Turns, offer_tools, own_name
from handrail.messages import api_name
from handrail.permissions import Pending

_PLACE = "`openai_agents.tools`, or `context=` to `Runner.run`"
Name = Callable[[RunContextWrapper[Any]], str | None]
"""Returns the run's name."""


def tools(
    executor: Executor,
    *,
    run: Name = lambda _: None,
    **given: Unpack[Given[RunContextWrapper[Any]]],
) -> list[Tool]:
    """Return an executor's tools. They get the run's context as deps.

    If the executor has no approver, calls needing approval interrupt the run. ``run`` names a run,
    to make its idempotency keys the same in another process. The SDK lists tools once: use
    ``LongResults(reader="always")`` to let a model read long results.
    """
    adapter = _Adapter(executor, TurnFacts(executor, _PLACE, given), run)
    return [adapter.make_tool(name, spec) for name, spec in offer_tools(executor)]


def question(executor: Executor, request: ToolApprovalItem, **given: Any) -> str:
    """Return what to ask a person about an interruption, in any process. The SDK keeps no question.

    The policy decides with what is ``given``: principal, deps and metadata, as for a turn. For
    another tool kind, or a call allowed by now, it has no question: the call is shown.
    """
    name, args = request.name or "", request.arguments or "{}"
    call = Call(own_name(executor, name), args, request.call_id or "")
    pending = executor.explain(call, turn=executor.turn(**given)).pending
    return f"{name}({args})" if pending is None else pending.question


class _Adapter:
    def __init__(self, executor: Executor, facts: TurnFacts[Any], run: Name) -> None:
        self._executor, self._facts, self._run = executor, facts, run
        self._turns = Turns(executor)

    def make_tool(self, name: str, spec: Spec) -> FunctionTool:
        async def needs_approval(
            ctx: RunContextWrapper[Any], args: dict[str, Any], call_id: str
        ) -> bool:
            return self._find_pending(ctx, Call(spec.name, args, call_id)) is not None

        async def invoke(ctx: ToolContext[Any], text: str) -> Any:
            return await self._invoke(ctx, Call(spec.name, text or "{}", ctx.tool_call_id))

        async def refuse(ctx: ToolContext[Any]) -> str:
            text = ctx.tool_arguments.strip() or "{}"
            return await self._refuse(ctx, Call(spec.name, text, ctx.tool_call_id))

        return FunctionTool(
            name=name,
            description=spec.description,
            params_json_schema=dict(spec.input_schema),
            on_invoke_tool=invoke,
            needs_approval=needs_approval,
            strict_json_schema=False,
            tool_input_guardrails=[check_json(refuse)],
        )

    def _open(self, ctx: RunContextWrapper[Any]) -> OpenTurn:
        """Return the current reply's turn: the SDK counts its requests to the model."""
        given = self._facts.read(ctx, deps=ctx.context, said=find_said(ctx.turn_input))
        run = self._run(ctx) or vars(ctx.usage).setdefault("handrail_run", uuid.uuid4().hex)
        return self._turns.open(run, str(ctx.usage.requests), given, within=ctx.usage)

    def _find_pending(self, ctx: RunContextWrapper[Any], call: Call) -> Pending | None:
        """Return the request about a call, if the host has to ask."""
        opened = self._open(ctx)
        found = opened.find_pending(call.id)
        if found is None and self._executor.approver is None and call.id not in opened.turn:
            found = self._executor.explain(call, turn=opened.turn).pending
            if found is not None:  # conflicting later calls wait for it
                opened.turn.adopt(found)
                self._turns.keep(opened)
        return found

    async def _refuse(self, ctx: ToolContext[Any], call: Call) -> str:
        """Return text for a model about arguments the SDK cannot parse."""
        tool = self._executor.tools.find(call.name)
        if tool is not None and isinstance(tool.parse(call.args), Failure):
            return (await self._open(ctx).run(call)).text  # it fails: hooks see it
        return NOT_PLAIN

    async def _invoke(self, ctx: ToolContext[Any], call: Call) -> Any:
        opened = self._open(ctx)
        is_approved = ctx.is_tool_approved(ctx.tool_name, call.id)
        pending = self._find_pending(ctx, call) if is_approved else None
        if pending is None:
            result = await opened.run(call)
        else:
            waiting = [one.call for one in opened.turn.pending]
            yes = [one.id for one in waiting if ctx.is_tool_approved(api_name(one.name), one.id)]
            opened.approved |= {*yes}
            result = await opened.answer(pending, Allow())
        # the SDK asks only before a tool runs
        return show(await self._turns.settle(opened, result, can_ask=False))
