"""Turns what a server sent into a result: text, data, images and files are all kept."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

from mcp_types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    ListResourcesResult,
    ReadResourceResult,
    Resource,
    ResourceLink,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
)

from handrail import File, Image, Result, Text, ToolFailed
from handrail._support.visible import spell_out

MAX_LISTED = 200
"""Resources shown from one page."""
MAX_META_CHARS = 20_000
META = "mcp_meta"
"""The key in a result's metadata for a server's ``_meta``."""
_PROTOCOL = "io.modelcontextprotocol/"
_MAX_SAID = 300
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
    metadata = _read_meta(sent.meta or {})
    if len(parts) == len(texts):
        whole = text if parts or data is None else data
        return Result("", whole, data=data, metadata=metadata)
    return Result("", text, tuple(parts), data=data, metadata=metadata)


def _read_meta(meta: dict[str, Any]) -> dict[str, Any]:
    """Return facts for the application: what the server adds to a result, in its own words."""
    own = {key: one for key, one in meta.items() if not key.startswith(_PROTOCOL)}
    return {META: own} if own and len(json.dumps(own)) <= MAX_META_CHARS else {}


def read_contents(sent: ReadResourceResult) -> Result:
    """Return a resource's contents as a result."""
    parts = [_read_resource(one) for one in sent.contents]
    texts = [part.text for part in parts if isinstance(part, Text)]
    if len(parts) == len(texts):
        return Result("", "\n".join(texts) or "[The resource is empty]")
    return Result("", "\n".join(texts), tuple(parts))


def read_listing(sent: tuple[ListResourcesResult, list[ResourceTemplate]]) -> Result:
    """Return a page of resources as lines for a model."""
    page, templates = sent
    lines = [_describe(one.uri, one) for one in page.resources[:MAX_LISTED]]
    lines += [_describe(one.uri_template, one) + " [template]" for one in templates[:MAX_LISTED]]
    if page.next_cursor:
        lines.append(f"[More: call again with cursor={page.next_cursor!r}]")
    return Result("", "\n".join(lines) or "[The server has no resources]")


def _describe(uri: str, one: Resource | ResourceTemplate) -> str:
    facts = [one.title or one.name, one.mime_type or "", one.description or ""]
    said = ", ".join(filter(None, facts))[:_MAX_SAID]
    return spell_out(f"{uri}: {said}").replace("\n", " ")


def read_messages(sent: GetPromptResult) -> list[tuple[bool, Text | Image | File]]:
    """Return a prompt's messages, each with whether a user says it."""
    return [(one.role == "user", _read_block(one.content)) for one in sent.messages]


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
