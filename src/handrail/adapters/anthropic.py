"""Anthropic SDK: tools for its tool runner, ``client.beta.messages.tool_runner``."""

from __future__ import annotations

from typing import Any

from typing_extensions import Unpack

from handrail._support.lazy import name_extra

try:
    from anthropic.lib.tools import BetaAsyncBuiltinFunctionTool, ToolError
except ModuleNotFoundError as error:
    raise name_extra(error, __name__, "anthropic") from error

from handrail import Call, Executor
from handrail.adapters._calls._given import Values, check_values
from handrail.providers import anthropic as provider


def tools(executor: Executor, **given: Unpack[Values]) -> list[ExecutorTool]:
    """Return an executor's tools, for the async tool runner. All calls run with the options here.

    The runner calls one tool after the other, without the call id, and has no approvals: an
    executor without an approver denies calls needing one. The runner lists tools once: use
    ``LongResults(reader="always")`` to let a model read long results.
    """
    offered, checked = executor.refresh_tools(), check_values(executor, "`anthropic.tools`", given)
    return [
        ExecutorTool(executor, offered.api_names[listed["name"]], listed, checked)
        for listed in provider.encode_tools(offered)
    ]


class ExecutorTool(BetaAsyncBuiltinFunctionTool):
    """One of an executor's tools."""

    def __init__(
        self, executor: Executor, name: str, listed: dict[str, Any], given: dict[str, Any]
    ) -> None:
        self.executor, self._name, self._listed, self._given = executor, name, listed, given

    def to_dict(self) -> Any:
        return self._listed

    async def call(self, input: Any) -> Any:  # noqa: A002  the SDK's name
        executor, call = self.executor, Call(self._name, input)
        turn = executor.turn(**self._given) if self._given else None
        result = await executor.run(call, turn=turn)  # without a turn, in this task
        is_plain = not result.parts and result.text.isascii()
        content = result.text if is_plain else provider.encode_result(result)["content"]
        if result.failure is not None:
            raise ToolError(content)
        return content
