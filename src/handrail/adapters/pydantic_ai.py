"""Pydantic AI: a toolset whose calls an executor runs. Approval requests are deferred tools."""

from __future__ import annotations

from typing import Any, Self
from weakref import ref

from typing_extensions import Unpack

from handrail._support.lazy import name_extra

try:
    from pydantic_ai import BinaryContent, RunContext, ToolFailed
    from pydantic_ai.exceptions import ApprovalRequired
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
except ModuleNotFoundError as error:
    raise name_extra(error, __name__, "pydantic-ai") from error

from handrail import Allow, Call, Executor, File, Image, Result, Spec, Text
from handrail.adapters._calls._given import Given, TurnFacts
from handrail.adapters._calls.pydantic_ai import find_sent, read_context
from handrail.adapters._sources.pydantic_ai import source as source  # noqa: PLC0414  public here
from handrail.adapters._turns import OpenTurn, Turns, Unchecked, describe, offer_tools, parse_object
from handrail.permissions import Edit, Pending


def toolset(
    executor: Executor, *, name: str = "handrail", **given: Unpack[Given[RunContext[Any]]]
) -> ExecutorToolset:
    """Return a toolset, named by its id, for an agent. The tools get the agent's deps.

    If the executor has no approver, its approval requests become deferred tool requests.
    """
    return ExecutorToolset(executor, TurnFacts(executor, "`agent.run`", given), name)


class ExecutorToolset(AbstractToolset[Any]):
    """An executor's tools, for Pydantic AI."""

    def __init__(self, executor: Executor, facts: TurnFacts[RunContext[Any]], name: str) -> None:
        self.executor, self._facts, self._name = executor, facts, name
        self._turns = Turns(executor)

    @property
    def id(self) -> str:
        return self._name

    async def __aenter__(self) -> Self:
        await self.executor.__aenter__()
        return self

    async def __aexit__(self, *args: object) -> None:
        await self.executor.__aexit__(None, None, None)

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        self._facts.read(
            ctx, **read_context(ctx)
        )  # a run without the deps its tools need ends here
        offered = offer_tools(self.executor)
        listing = Unchecked(offered)
        return {name: self._list(name, spec, listing) for name, spec in offered}

    def _list(self, name: str, spec: Spec, listing: Unchecked) -> ToolsetTool[Any]:
        listed = ToolDefinition(name=name, description=spec.description)
        listed.parameters_json_schema = dict(spec.input_schema)
        checks: Any = {"args_validator": listing, "args_validator_func": self._note_approval}
        return ToolsetTool(toolset=self, tool_def=listed, max_retries=0, **checks)

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Run one call, together with its reply's others."""
        listing: Any = tool.args_validator
        opened, call_id = listing.find_turn(), ctx.tool_call_id or name
        if opened is None:
            opened = self._open(ctx)
            listing.find_turn = ref(opened)
        sent = opened.sent.get(call_id) or find_sent(ctx, opened.sent, call_id)
        args = sent if parse_object(sent) == tool_args else tool_args
        pending = opened.find_pending(call_id) if ctx.tool_call_approved else None
        if pending is None:
            result = await opened.run(Call(listing.names[name], args, call_id))
        else:
            result = await opened.answer(pending, Allow() if args == sent else Edit(args))
        if result.pending is None:
            self._turns.keep(opened)
            return _show(result)
        result = await self._turns.settle(opened, result)
        if result.pending is not None:
            raise ApprovalRequired(describe(result.pending, opened))
        return _show(result)

    def _open(self, ctx: RunContext[Any]) -> OpenTurn:
        """Return the last reply's turn. Its name is the same in another process."""
        number = sum(isinstance(message, ModelResponse) for message in ctx.messages)
        given = self._facts.read(ctx, **read_context(ctx))
        run = ctx.conversation_id or ctx.run_id or ""
        return self._turns.open(run, str(number), given, within=ctx.run_id)

    def _note_approval(self, ctx: RunContext[Any], **_: Any) -> None:
        """Note which calls a person has approved. All arrive here before the first one runs."""
        if ctx.tool_call_approved:
            opened, metadata = self._open(ctx), ctx.tool_call_metadata or {}
            if not opened.turn.pending:  # another process has asked
                opened.turn.adopt(*map(Pending.from_json, metadata.get("handrail", ())))
            opened.approved.add(ctx.tool_call_id or "")
            self._turns.keep(opened)


def _show(result: Result) -> Any:
    if result.failure is not None:
        raise ToolFailed(result.text)
    return [_show_part(part) for part in result.parts] if result.parts else result.text


def _show_part(part: Text | Image | File) -> Any:
    if isinstance(part, Text):
        return part.text
    return BinaryContent(part.data, media_type=part.media_type)
