"""AutoGen: a workbench whose tools an executor runs."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel
from typing_extensions import Unpack

from handrail._support.lazy import name_extra

try:
    from autogen_core import CancellationToken
    from autogen_core import Image as AutogenImage
    from autogen_core.tools import (
        ImageResultContent,
        ParametersSchema,
        TextResultContent,
        ToolResult,
        ToolSchema,
        Workbench,
    )
except ModuleNotFoundError as error:
    raise name_extra(error, __name__, "autogen") from error

from handrail import Call, Executor, Image, Result, Text
from handrail.adapters._calls._given import Values, check_values
from handrail.adapters._turns import Turns, offer_tools, own_name


def workbench(executor: Executor, **given: Unpack[Values]) -> ExecutorWorkbench:
    """Return a workbench for an agent. All its calls run with the options here.

    AutoGen has no approvals: give the executor an approver. Without one, it denies calls needing
    approval. AutoGen writes images into a result's text.
    """
    return ExecutorWorkbench(executor, check_values(executor, "`autogen.workbench`", given))


class ExecutorWorkbench(Workbench):
    """An executor's tools, for AutoGen."""

    component_config_schema = BaseModel

    def __init__(self, executor: Executor, given: dict[str, Any]) -> None:
        self.executor, self._given, self._turns = executor, given, Turns(executor)

    async def list_tools(self) -> list[ToolSchema]:
        return [
            ToolSchema(
                name=name,
                description=spec.description,
                parameters=cast("ParametersSchema", dict(spec.input_schema)),
            )
            for name, spec in offer_tools(self.executor)
        ]

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Run one call, together with its reply's others."""
        opened = self._turns.gather(cancellation_token, self._given)
        own = own_name(self.executor, name)
        call = Call(own, dict(arguments or {}), *filter(None, [call_id]))
        running = asyncio.ensure_future(opened.run(call))
        if cancellation_token is not None:
            cancellation_token.link_future(running)
        return _show(name, await running)

    async def start(self) -> None:
        await self.executor.__aenter__()

    async def stop(self) -> None:
        await self.executor.__aexit__(None, None, None)

    async def reset(self) -> None:
        """Do nothing: the executor has no state a conversation changes."""

    async def save_state(self) -> Mapping[str, Any]:
        return {}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Do nothing: nothing was saved."""


def _show(name: str, result: Result) -> ToolResult:
    content = [_show_part(part) for part in result.content]
    return ToolResult(name=name, result=content, is_error=result.failure is not None)


def _show_part(part: Any) -> TextResultContent | ImageResultContent:
    if isinstance(part, Image):
        image = AutogenImage.from_base64(b64encode(part.data).decode())
        return ImageResultContent(content=image)
    return TextResultContent(content=part.text if isinstance(part, Text) else f"[{part.name}]")
