"""FastMCP: a provider whose tools an executor runs. Approval requests are elicitations."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import partial
from typing import Any

from pydantic import Field
from typing_extensions import Unpack

from handrail._support.lazy import name_extra

try:
    import mcp_types as types
    from fastmcp.server.context import Context
    from fastmcp.server.dependencies import get_context
    from fastmcp.server.providers import Provider
    from fastmcp.tools.base import InputRequiredToolResult, Tool, ToolResult
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS
except ModuleNotFoundError as error:
    raise name_extra(error, __name__, "fastmcp") from error

from handrail import READ, WRITE, Allow, Call, Deny, Executor, Image, Spec, Text
from handrail.adapters._calls._given import Given, TurnFacts
from handrail.adapters._turns import answer_saved, find_asked, offer_tools, own_name, parse_object
from handrail.approvals import defer
from handrail.permissions import Answer, Approver, Pending

FORM: dict[str, Any] = {"type": "object", "properties": {"approve": {"type": "boolean"}}}
"""What a client shows below the question."""


def provider(executor: Executor, **given: Unpack[Given[Context]]) -> ExecutorProvider:
    """Return a provider for a server. The tools get the result of the server's lifespan as deps.

    If the executor has no approver, a call needing approval asks the client's user, in both
    protocol versions. If the client cannot ask, the call is denied.
    """
    return ExecutorProvider(executor, TurnFacts(executor, "`fastmcp.provider`", given))


class ExecutorProvider(Provider):
    """An executor's tools, for FastMCP."""

    def __init__(self, executor: Executor, facts: TurnFacts[Context]) -> None:
        super().__init__()
        self.executor, self._facts = executor, facts

    async def _list_tools(self) -> Sequence[Tool]:
        return [self._make_tool(name, spec) for name, spec in offer_tools(self.executor)]

    async def _get_tool(self, name: str, version: Any = None) -> Tool | None:
        own, offered = own_name(self.executor, name), self.executor.tools.specs
        return next((self._make_tool(name, one) for one in offered if one.name == own), None)

    def _make_tool(self, name: str, spec: Spec) -> Tool:
        hints = types.ToolAnnotations(read_only_hint=spec.effect == READ)
        hints.destructive_hint, hints.idempotent_hint = spec.effect > WRITE, spec.idempotent
        about: Any = {"description": spec.description, "parameters": dict(spec.input_schema)}
        call = partial(self._run, spec.name)
        return ExecutorTool(name=name, annotations=hints, call=call, **about)

    async def _run(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Run one call: the protocol does not report which calls share a reply."""
        ctx, executor = get_context(), self.executor
        given: Any = self._facts.read(ctx, deps=ctx.lifespan_context)
        asked = Pending.from_json(ctx.request_state) if ctx.request_state else None
        if asked and (asked.call.name, parse_object(asked.call.args)) == (name, arguments):
            turn = executor.turn(asked.turn_id, run=asked.run_id, approver=defer, **given)
            answer_saved(turn, asked, _read_answer((ctx.input_responses or {}).get("approval")))
            result = await turn.result(asked.call.id)
        else:
            turn = executor.turn(approver=executor.approver or _ask(ctx), **given)
            result = await turn.run(Call(name, arguments))
        if result.pending is not None:
            return _request(result.pending)
        content = [_show_part(part) for part in result.content]
        return ToolResult(content=content, is_error=result.failure is not None)


class ExecutorTool(Tool):
    """One of an executor's tools."""

    call: Any = Field(exclude=True)

    async def run(self, arguments: dict[str, Any]) -> Any:
        return await self.call(arguments)


def _ask(ctx: Context) -> Approver | None:
    """Return what asks the client: a later request in the new protocol, a message in the old."""
    needed = types.ClientCapabilities(elicitation=types.ElicitationCapability())
    request = ctx.request_context
    if request is None or not ctx.session.check_client_capability(needed):
        return None

    async def elicit(pending: Pending) -> Answer:
        return _read_answer(await ctx.session.elicit(pending.question, FORM, ctx.request_id))

    return defer if request.protocol_version in MODERN_PROTOCOL_VERSIONS else elicit


def _request(pending: Pending) -> ToolResult:
    """Return the question. The client repeats the call with the answer, and with this state."""
    question = find_asked(pending).question
    form = types.ElicitRequestFormParams(message=question, requested_schema=FORM)
    needed = types.InputRequiredResult(request_state=pending.to_json())
    needed.input_requests = {"approval": types.ElicitRequest(params=form)}
    return InputRequiredToolResult(needed)


def _read_answer(word: Any) -> Answer:
    is_given = getattr(word, "action", "") == "accept" and (word.content or {}).get("approve")
    return Allow() if is_given is True else Deny.by_user()


def _show_part(part: Any) -> types.ContentBlock:
    if isinstance(part, Text):
        return types.TextContent(text=part.text)
    data, kind = b64encode(part.data).decode(), part.media_type
    if isinstance(part, Image):
        return types.ImageContent(data=data, mime_type=kind)
    file = types.BlobResourceContents(uri=f"file:///{part.name}", blob=data, mime_type=kind)
    return types.EmbeddedResource(resource=file)
