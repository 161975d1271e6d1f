"""Turns what a server sent into a result: text, data, images and files are all kept."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

from mcp_types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from handrail import File, Image, Result, Text, ToolFailed

_NO_REASON = "The tool failed, and the server gave no reason."
_BINARY = "application/octet-stream"


def read_result(sent: CallToolResult) -> Result:
    """Return a server's answer as a result. Raises ToolFailed if it reports a failure."""
    parts = [_read_block(block) for block in sent.content]
    texts = [part.text for part in parts if isinstance(part, Text)]
    text = "\n".join(texts)
    if sent.is_error:
        raise ToolFailed(text or _NO_REASON)
    has_data = sent.structured_content is not None
    data = json.dumps(sent.structured_content, ensure_ascii=False) if has_data else None
    if len(parts) == len(texts):
        return Result("", text if parts or data is None else data, data=data)
    return Result("", text, tuple(parts), data=data)


def _read_block(block: Any) -> Text | Image | File:
    match block:
        case TextContent():
            return Text(block.text)
        case ImageContent():
            return _read_bytes(block.data, block.mime_type, "")
        case AudioContent():
            return _read_bytes(block.data, block.mime_type, "audio")
        case EmbeddedResource():
            return _read_resource(block.resource)
        case _:
            link: ResourceLink = block
            return Text(f"[A resource that was not fetched: {link.name}, {link.uri}]")


def _read_resource(resource: Any) -> Text | Image | File:
    if isinstance(resource, TextResourceContents):
        return Text(resource.text)
    kind = resource.mime_type or _BINARY
    name = str(resource.uri).rstrip("/").rpartition("/")[2] or "resource"
    return _read_bytes(resource.blob, kind, "" if kind.startswith("image/") else name)


def _read_bytes(data: str, kind: str, name: str) -> Text | Image | File:
    try:
        content = b64decode(data, validate=True)
    except ValueError:
        return Text(f"[{kind} content that cannot be decoded was left out]")
    return File(content, kind, name) if name else Image(content, kind)
