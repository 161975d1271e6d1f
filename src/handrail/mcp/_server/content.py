"""Converts handrail definitions and results into the protocol's."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any
from urllib.parse import quote

import mcp_types as types

from handrail import DESTROY, READ, Exposure, File, Image, Result, Spec, Text, Toolset
from handrail._support import is_object
from handrail.mcp._calls.content import META
from handrail.sources import unframe

_RESULT = "result"
"""The field for data other than objects."""
_NO_DATA = (
    "The call has run, but its result cannot be given in the form that the tool promises. Do not "
    "repeat it. As text:"
)


def list_definitions(tools: Toolset) -> list[types.Tool]:
    """Return a client's tools, in name order. It searches for deferred ones."""
    names = dict[str, str]()
    for sent, name in tools.api_names.items():
        names.setdefault(name, sent)
    return [
        _write_definition(spec, names[spec.name])
        for spec in tools.specs
        if spec.exposure is not Exposure.DEFERRED
    ]


def _write_definition(spec: Spec, name: str) -> types.Tool:
    shown: Any = spec.metadata.get("mcp_shown", {})
    return types.Tool(
        name=name,
        title=shown.get("title"),
        icons=shown.get("icons"),
        _meta=shown.get("_meta"),
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
    """Return an object schema for a tool's data.

    Other data are its ``result`` field: older clients accept only objects. The field is optional:
    clients reject a result without the promised fields, and a list can be too long.
    """
    schema = spec.output_schema
    if schema is None or schema.get("type") == "object":
        return None if schema is None else dict(schema)
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    shared = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return {"type": "object", "properties": {_RESULT: inner}, **shared}


def write_result(result: Result, spec: Spec | None) -> types.CallToolResult:
    """Return a result in protocol form. A failure is the tool's, for the model to read.

    Clients reject a result without the object its tool promises, such as a result too long for it.
    As an error, its text still arrives. Frames are for the program that has the model.
    """
    data = None if result.failure else _read_data(result, spec)
    is_broken = data is None and result.failure is None and _promises(spec)
    parts = map(_unframe, result.content) if spec and spec.framed else result.content
    content = [_write_part(part) for part in parts]
    meta: Any = result.metadata.get(META)
    return types.CallToolResult(
        _meta=meta if is_object(meta) else None,
        content=[types.TextContent(text=_NO_DATA), *content] if is_broken else content,
        structured_content=data,
        is_error=is_broken or result.failure is not None,
    )


def _unframe(part: Text | Image | File) -> Text | Image | File:
    return Text(unframe(part.text)) if isinstance(part, Text) else part


def refuse(message: str) -> types.CallToolResult:
    """Return a failure with a message for the model."""
    return types.CallToolResult(content=[types.TextContent(text=message)], is_error=True)


def _promises(spec: Spec | None) -> bool:
    return spec is not None and find_promise(spec) is not None


def _read_data(result: Result, spec: Spec | None) -> dict[str, Any] | None:
    """Return a result's data as an object, in the form its tool promises."""
    schema = None if spec is None else spec.output_schema
    is_wrapped = schema is not None and schema.get("type") != "object"
    if result.data is None:
        return {} if is_wrapped else None
    data: Any = json.loads(result.data)
    return data if is_object(data) and not is_wrapped else {_RESULT: data}


def _write_part(part: Text | Image | File) -> types.ContentBlock:
    if isinstance(part, Text):
        return types.TextContent(text=part.text.encode("utf-8", "backslashreplace").decode())
    data = b64encode(part.data).decode()
    if isinstance(part, Image):
        return types.ImageContent(data=data, mime_type=part.media_type)
    if part.media_type.startswith("audio/"):
        return types.AudioContent(data=data, mime_type=part.media_type)
    uri = f"result:///{quote(part.name, safe='')}"
    content = types.BlobResourceContents(uri=uri, mime_type=part.media_type, blob=data)
    return types.EmbeddedResource(resource=content)
