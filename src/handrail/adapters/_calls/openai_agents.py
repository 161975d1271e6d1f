"""Results in the form of the OpenAI Agents SDK."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from agents.tool import ToolOutputFileContent, ToolOutputImage, ToolOutputText

from handrail import Image, Result, Text


def show(result: Result) -> Any:
    """Return a result as the output of a function tool."""
    return [_show_part(part) for part in result.parts] or result.text


def _show_part(part: Any) -> Any:
    if isinstance(part, Text):
        return ToolOutputText(text=part.text)
    data = b64encode(part.data).decode()
    if isinstance(part, Image):
        return ToolOutputImage(image_url=f"data:{part.media_type};base64,{data}")
    return ToolOutputFileContent(file_data=data, filename=part.name)
