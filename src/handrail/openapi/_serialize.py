"""Writes arguments into a URL, headers, cookies and a body, as their parameters say."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable, Mapping
from secrets import token_hex
from typing import Any
from urllib.parse import quote

from handrail import ToolFailed
from handrail._support import is_list
from handrail.openapi._document import Document, is_node
from handrail.openapi._operations import Parameter
from handrail.openapi._schemas import merge

_SEPARATORS = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}


def write_text(value: Any) -> str:
    """Return a value as text: a string unchanged, anything else as JSON."""
    return value if isinstance(value, str) else write_json(value)


def write_json(value: Any) -> str:
    """Return a value as JSON text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def escape(value: Any) -> str:
    """Percent-encode every character with a possible meaning in a URL."""
    return quote(write_text(value), safe="")


def write_path(parameter: Parameter, value: Any) -> str:
    """Return a value for a path, in its parameter's style."""
    if parameter.style == "matrix":
        return _write_matrix(parameter, value)
    joint = "." if parameter.style == "label" and parameter.explode else ","
    first = "." if parameter.style == "label" else ""
    return first + _join(parameter, value, joint=joint, write=escape)


def write_header(parameter: Parameter, value: Any) -> str:
    """Return a value for a header. Raises ToolFailed if a header cannot have it."""
    text = _join(parameter, value, joint=",", write=write_text)
    if not (text.isascii() and text.isprintable()) or text != text.strip():
        raise ToolFailed(
            f"Not sent: {parameter.argument!r} goes into a header, which can only have ASCII "
            "characters without line breaks. Call again without the others."
        )
    return text


def write_pairs(parameter: Parameter, value: Any) -> list[tuple[str, str]]:
    """Return a value for a query, a cookie or a form, as encoded names and values."""
    name = escape(parameter.name)
    if parameter.style == "json":
        return [(name, escape(write_json(value)))]
    if is_node(value):
        return _write_object(parameter, name, value)
    if is_list(value):
        if parameter.explode:
            return [(name, escape(item)) for item in value]
        joint = _SEPARATORS.get(parameter.style, ",")
        return [(name, joint.join(map(escape, value)))]
    return [(name, escape(value))]


def _write_object(
    parameter: Parameter, name: str, value: Mapping[str, Any]
) -> list[tuple[str, str]]:
    if parameter.style == "deepObject":
        return [(f"{name}%5B{escape(key)}%5D", escape(item)) for key, item in value.items()]
    if parameter.explode:
        return [(escape(key), escape(item)) for key, item in value.items()]
    joint = _SEPARATORS.get(parameter.style, ",")
    return [(name, joint.join(escape(each) for pair in value.items() for each in pair))]


def _write_matrix(parameter: Parameter, value: Any) -> str:
    name = escape(parameter.name)
    if parameter.explode and is_node(value):
        return "".join(f";{escape(key)}={escape(item)}" for key, item in value.items())
    if parameter.explode and is_list(value):
        return "".join(f";{name}={escape(item)}" for item in value)
    return f";{name}={_join(parameter, value, joint=',', write=escape)}"


def _join(parameter: Parameter, value: Any, *, joint: str, write: Any) -> str:
    if parameter.style == "json":
        text: str = write(write_json(value))
        return text
    if is_node(value):
        equals = "=" if parameter.explode else joint
        return joint.join(f"{write(key)}{equals}{write(item)}" for key, item in value.items())
    items = value if is_list(value) else [value]
    return joint.join(map(write, items))


def write_form(fields: Iterable[tuple[str, Any]]) -> bytes:
    """Return a form: lists as repeated fields, objects as JSON."""
    pairs = [
        f"{escape(name)}={escape(item)}"
        for name, value in fields
        for item in (value if is_list(value) else [value])
    ]
    return "&".join(pairs).encode()


def write_multipart(
    document: Document, fields: Iterable[tuple[Parameter, Any]]
) -> tuple[str, bytes]:
    """Return a multipart form's boundary and body."""
    parts: list[tuple[str, str, str, bytes]] = []
    for parameter, value in fields:
        schema = merge(document, parameter.schema)
        if is_list(value):
            schema = merge(document, schema.get("items"))
        items = value if is_list(value) else [value]
        parts += [(parameter.name, *_write_part(parameter, schema, item)) for item in items]
    boundary = token_hex(16)
    body = b"".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{_quoted(name)}"{filename}\r\n'
        f"Content-Type: {kind}\r\n\r\n".encode()
        + content
        + b"\r\n"
        for name, filename, kind, content in parts
    )
    return boundary, body + f"--{boundary}--\r\n".encode()


def _write_part(parameter: Parameter, schema: Any, item: Any) -> tuple[str, str, bytes]:
    if is_binary(schema):
        kind = parameter.content_type or "application/octet-stream"
        return f'; filename="{_quoted(parameter.name)}"', kind, decode(parameter.argument, item)
    if is_node(item):
        return "", parameter.content_type or "application/json", write_json(item).encode()
    return "", parameter.content_type or "text/plain; charset=utf-8", write_text(item).encode()


def is_binary(schema: Any) -> bool:
    """Return whether a schema means a file's content."""
    return schema.get("format") == "binary" or (
        "contentMediaType" in schema and schema.get("contentEncoding") is None
    )


def decode(argument: str, text: Any) -> bytes:
    """Return the bytes of a base64 argument. Raises ToolFailed for any other text."""
    try:
        return b64decode(write_text(text), validate=True)
    except ValueError:
        raise ToolFailed(f"Not sent: {argument!r} is not base64. Encode the content.") from None


def _quoted(name: str) -> str:
    """Return a name as browsers write it in a part's header."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
