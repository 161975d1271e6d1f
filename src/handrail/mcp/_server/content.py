"""Converts definitions and results of handrail into those of the protocol."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any
from urllib.parse import quote

import mcp_types as types

from handrail import DESTROY, READ, Exposure, File, Image, Result, Spec, Text, Toolset
from handrail._support import is_table

_NO_DATA = (
    "The call has run, but its result cannot be given in the form that the tool promises. Do not "
    "repeat it. As text:"
)


def list_definitions(tools: Toolset) -> list[types.Tool]:
    """Return the tools that a client gets, in name order. It searches for deferred ones."""
    names = dict[str, str]()
    for sent, name in tools.api_names.items():
        names.setdefault(name, sent)
    return [
        _write_definition(spec, names[spec.name])
        for spec in tools.specs
        if spec.exposure is not Exposure.DEFERRED
    ]


def _write_definition(spec: Spec, name: str) -> types.Tool:
    return types.Tool(
        name=name,
        description=spec.description,
        input_schema={"type": "object", **spec.input_schema},
        output_schema=find_promise(spec),
        annotations=types.ToolAnnotations(
            read_only_hint=spec.effect == READ,
            destructive_hint=spec.effect == DESTROY,
            idempotent_hint=spec.idempotent,
        ),
    )


def find_promise(spec: Spec) -> dict[str, Any] | None:
    """Return the schema of a tool's data, if it is an object: older clients accept nothing else."""
    schema = spec.output_schema
    return None if schema is None or schema.get("type") != "object" else dict(schema)


def write_result(result: Result, *, is_promised: bool = False) -> types.CallToolResult:
    """Return a result as the protocol has it. A failure is the tool's, for the model to read.

    Clients refuse a result without the data that its tool promises, such as one that is too long.
    As an error, its text still arrives.
    """
    data = _read_object(result)
    is_broken = is_promised and data is None and result.failure is None
    content = [_write_part(part) for part in result.content]
    return types.CallToolResult(
        content=[types.TextContent(text=_NO_DATA), *content] if is_broken else content,
        structured_content=data,
        is_error=is_broken or result.failure is not None,
    )


def refuse(message: str) -> types.CallToolResult:
    """Return a failure with a message for the model."""
    return types.CallToolResult(content=[types.TextContent(text=message)], is_error=True)


def _read_object(result: Result) -> dict[str, Any] | None:
    """Return the data of a result, if it is an object: older clients accept nothing else."""
    data: Any = None if result.data is None or result.failure else json.loads(result.data)
    return data if is_table(data) else None


def _write_part(part: Text | Image | File) -> types.ContentBlock:
    if isinstance(part, Text):
        return types.TextContent(text=part.text.encode("utf-8", "backslashreplace").decode())
    data = b64encode(part.data).decode()
    if isinstance(part, Image):
        return types.ImageContent(data=data, mime_type=part.media_type)
    uri = f"result:///{quote(part.name, safe='')}"
    content = types.BlobResourceContents(uri=uri, mime_type=part.media_type, blob=data)
    return types.EmbeddedResource(resource=content)
