"""Results in OpenAI Agents SDK form, and arguments it cannot parse."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from agents import (
    RunConfig,
    ToolExecutionConfig,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailData,
)
from agents.tool import ToolOutputFileContent, ToolOutputImage, ToolOutputText
from agents.tool_context import ToolContext

from handrail import Image, Result, Text

NOT_PLAIN = (
    "Not run: the arguments are not a plain JSON object. Call again with the object alone: {} if "
    "there are no arguments."
)
"""Text for a model about arguments handrail could repair, but the SDK cannot read."""


def run_config(**options: Any) -> RunConfig:
    """Return a run configuration reporting wrong tool names and wrong JSON to the model.

    The SDK would end the run for a wrong name, and ask a person about arguments other than JSON.
    """
    checked = ToolExecutionConfig(pre_approval_tool_input_guardrails=True)
    own: Any = {"tool_not_found_behavior": "return_error_to_model", "tool_execution": checked}
    return RunConfig(**own | options)


def check_json(refuse: Callable[[ToolContext[Any]], Awaitable[str]]) -> ToolInputGuardrail[Any]:
    """Return a guardrail rejecting arguments the SDK cannot parse."""

    async def check(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        if _is_object(data.context.tool_arguments):
            return ToolGuardrailFunctionOutput.allow()
        return ToolGuardrailFunctionOutput.reject_content(await refuse(data.context))

    return ToolInputGuardrail(check, "handrail")


def _is_object(text: str) -> bool:
    """Return whether the SDK can parse arguments. About others, it would ask a person."""
    try:
        return isinstance(json.loads(text, parse_constant=int), dict)  # int("NaN") is an error
    except (ValueError, RecursionError):
        return False


def show(result: Result) -> Any:
    """Return a result as a function tool's output."""
    return [_show_part(part) for part in result.parts] or result.text


def _show_part(part: Any) -> Any:
    if isinstance(part, Text):
        return ToolOutputText(text=part.text)
    data = b64encode(part.data).decode()
    if isinstance(part, Image):
        return ToolOutputImage(image_url=f"data:{part.media_type};base64,{data}")
    return ToolOutputFileContent(file_data=data, filename=part.name)


def find_said(items: Iterable[Any]) -> list[str]:
    """Return what people wrote in a run's input."""
    written = [one for one in items if isinstance(one, dict) and one.get("role") == "user"]
    parts = [one["content"] for one in written]
    texts = [[one] if isinstance(one, str) else [part.get("text") for part in one] for one in parts]
    return [text for each in texts for text in each if isinstance(text, str)]
