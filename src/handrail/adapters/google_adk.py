"""Google ADK: a toolset whose calls an executor runs. Approval requests are tool confirmations."""

from __future__ import annotations

from typing import Any

from typing_extensions import Unpack

from handrail._support.lazy import name_extra

try:
    from google.adk.agents.readonly_context import ReadonlyContext
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.base_toolset import BaseToolset
    from google.adk.tools.tool_context import ToolContext
    from google.genai import types
except ModuleNotFoundError as error:
    raise name_extra(error, __name__, "google-adk") from error

from handrail import Allow, Call, Deny, Executor, Spec
from handrail.adapters._calls._given import Given, TurnFacts
from handrail.adapters._sources.google_adk import source as source  # noqa: PLC0414  public here
from handrail.adapters._turns import Turns, describe, find_asked, offer_tools, read_word
from handrail.permissions import Edit, Pending


def toolset(executor: Executor, **given: Unpack[Given[ToolContext]]) -> ExecutorToolset:
    """Return a toolset for an agent. The tools get the session's state as deps.

    If the executor has no approver, a call needing approval requests a confirmation. A payload in
    the answer has other arguments for the call. Images and files are not sent to the model.
    """
    return ExecutorToolset(executor, TurnFacts(executor, "`google_adk.toolset`", given))


class ExecutorToolset(BaseToolset):
    """An executor's tools, for ADK."""

    def __init__(self, executor: Executor, facts: TurnFacts[ToolContext]) -> None:
        super().__init__()
        self.executor, self._facts, self._turns = executor, facts, Turns(executor)

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        offered = offer_tools(self.executor)
        return [ExecutorTool(name, spec, self._turns, self._facts) for name, spec in offered]


class ExecutorTool(BaseTool):
    """One of an executor's tools."""

    def __init__(self, name: str, spec: Spec, turns: Turns, facts: TurnFacts[ToolContext]) -> None:
        super().__init__(name=name, description=spec.description)
        self._spec, self._turns, self._facts = spec, turns, facts

    def _get_declaration(self) -> types.FunctionDeclaration:
        schema = dict(self._spec.input_schema)
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=schema
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """Run one call, together with its reply's others."""
        call = Call(self._spec.name, args, tool_context.function_call_id or self.name)
        said, place = tool_context.tool_confirmation, f"handrail:{call.id}"
        saved = (tool_context.state.get(place) if said else None) or {}
        given = self._facts.read(tool_context, deps=tool_context.state)
        turn = saved.get("turn", tool_context.invocation_id)
        opened = self._turns.open(tool_context.session.id, turn, given)
        if not opened.turn.pending:  # the session has what was asked before
            opened.turn.adopt(*map(Pending.from_json, saved.get("handrail", ())))
        pending = opened.find_pending(call.id) if said else None
        if said is None or pending is None:
            result = await opened.run(call)
        else:
            opened.approved |= {one.call.id for one in opened.turn.pending}  # denials come too
            answer = read_word(said.payload or True) if said.confirmed else _deny(said.payload)
            result = await opened.answer(pending, answer)
            again, asked = result.pending, find_asked(pending)
            if isinstance(answer, Edit) and again and find_asked(again).key == asked.key:
                # the person has confirmed these arguments
                result = await opened.answer(again, Allow())
        # ADK asks once for each call, so a second request inside one goes to the model
        result = await self._turns.settle(opened, result, can_ask=said is None)
        if result.pending is not None:
            tool_context.state[place] = describe(result.pending, opened) | {"turn": turn}
            tool_context.request_confirmation(hint=find_asked(result.pending).question)
            tool_context.actions.skip_summarization = True
        elif saved:
            tool_context.state[place] = None
        return {"result" if result.failure is None else "error": result.text}


def _deny(payload: Any) -> Deny:
    return Deny.by_user(payload if isinstance(payload, str) else "")
