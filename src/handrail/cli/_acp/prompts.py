"""Prompts from an editor: text, images, and attached files."""

from __future__ import annotations

import base64
from binascii import Error as Base64Error
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from acp import RequestError
from acp.schema import (
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from handrail import File, Image, Text
from handrail.messages import Content


def read_prompt(blocks: Iterable[Any], root: Path) -> list[Content]:
    """Return a prompt's parts. A link to a file is named: the model can read it by itself."""
    return [_read_block(block, root) for block in blocks]


def _read_block(block: Any, root: Path) -> Content:
    if isinstance(block, TextContentBlock):
        return Text(block.text)
    if isinstance(block, ImageContentBlock):
        return Image(decode(block.data), block.mime_type)
    if isinstance(block, ResourceContentBlock):
        return Text(f"\n[attached: {_name_resource(block.uri, root)}]\n")
    if isinstance(block, EmbeddedResourceContentBlock):
        return _read_resource(block.resource, root)
    raise RequestError.invalid_params({"details": "handrail reads text, images and files."})


def _read_resource(resource: Any, root: Path) -> Content:
    name = _name_resource(resource.uri, root)
    if isinstance(resource, TextResourceContents):
        return Text(f'\n<file path="{name}">\n{resource.text}\n</file>\n', quoted=True)
    media_type = resource.mime_type or "application/octet-stream"
    return File(decode(resource.blob), media_type, Path(name).name)


def _name_resource(uri: str, root: Path) -> str:
    """Return a file's path, relative inside the workspace, or its address."""
    address = urlsplit(uri)
    if address.scheme != "file":
        return uri
    path = Path(unquote(address.path))
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def encode(data: bytes) -> str:
    """Return bytes as the protocol sends them."""
    return base64.b64encode(data).decode("ascii")


def decode(text: str) -> bytes:
    """Return the bytes sent by the protocol, or an error if it is not base64."""
    try:
        return base64.b64decode(text, validate=True)
    except Base64Error:
        raise RequestError.invalid_params({"details": "The data is not valid base64."}) from None
