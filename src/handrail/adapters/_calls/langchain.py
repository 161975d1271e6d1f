"""Results as LangChain messages, and calls reported to its callbacks."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Coroutine, Iterable
from contextvars import Context
from typing import Any

from langchain_core.callbacks import AsyncCallbackManager
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import patch_config, set_config_context
from langchain_core.runnables.utils import coro_with_context
from langchain_core.tools import BaseTool, ToolException

from handrail import Call, Image, Result, Text
from handrail.adapters._replies import STOP
from handrail.adapters._turns import parse_object
from handrail.messages import TruncatedCall, api_name


class ToolRun:
    """One call as callbacks see it: it has started, and ends or fails."""

    def __init__(self, run: Any, config: RunnableConfig, name: str, call_id: str) -> None:
        self._run, self._name, self._id = run, name, call_id
        with set_config_context(patch_config(config, callbacks=run.get_child())) as context:
            self.context: Context = context.copy()
            """The context to run the call in: what it starts is below it in a trace."""

    async def tell(self, work: Coroutine[Any, Any, ToolMessage]) -> ToolMessage:
        """Run the call, and report its end."""
        try:
            message = await coro_with_context(work, self.context)
        except Exception as error:  # such as a graph's interrupt
            await self.fail(error)
            raise
        await self.end(message)
        return message

    async def end(self, message: ToolMessage) -> None:
        """Report the call's end or failure."""
        if message.status == "error":
            await self.fail(ToolException(message.text))
        else:
            await self._run.on_tool_end(message, name=self._name)

    async def fail(self, error: Exception) -> None:
        """Report a failed call, or one interrupting the graph."""
        await self._run.on_tool_error(error, tool_call_id=self._id)


async def start_run(
    config: RunnableConfig, call: Call | TruncatedCall, tool: BaseTool | None = None
) -> ToolRun:
    """Report a started call to callbacks: a run's, and a tool's."""
    name, call_id, args = api_name(call.name), call.id.rstrip("+"), parse_object(call.args)
    manager = AsyncCallbackManager.configure(
        config.get("callbacks"),
        tool.callbacks if tool else None,
        inheritable_tags=config.get("tags"),
        local_tags=tool.tags if tool else None,
        inheritable_metadata=config.get("metadata"),
        local_metadata=tool.metadata if tool else None,
    )
    options: Any = {"inputs": args, "tool_call_id": call_id}
    # a node has one id for all its calls
    options["run_id"] = config.get("run_id") if tool else None
    options["name"] = config.get("run_name") if tool else None
    run = await manager.on_tool_start({"name": name}, str(args), **options)
    return ToolRun(run, config, name, call_id)


def to_message(result: Result, name: str, stop: str | None = None) -> ToolMessage:
    """Return a result as a message. Its artifact says why a hook has ended the run, if one has."""
    content: Any = [_to_block(part) for part in result.parts] or result.text
    status: Any = "success" if result.failure is None else "error"
    call_id = result.call_id.rstrip("+")
    artifact = None if stop is None else {STOP: stop}
    return ToolMessage(content, tool_call_id=call_id, name=name, status=status, artifact=artifact)


def _to_block(part: Any) -> dict[str, str]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    kind = "image" if isinstance(part, Image) else "file"
    data = b64encode(part.data).decode()
    return {"type": kind, "base64": data, "mime_type": part.media_type}


def find_said(messages: Iterable[Any]) -> list[str]:
    """Return what people wrote in these messages."""
    return [one.text for one in messages if isinstance(one, HumanMessage)]
