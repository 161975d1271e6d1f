"""Makes a call's request: one going only where the document says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from handrail import DefinitionError, Refused, ToolFailed
from handrail.net import Url, parse_url
from handrail.openapi._document import Document, is_node, list_servers
from handrail.openapi._operations import Operation, Parameter
from handrail.openapi._serialize import (
    decode,
    write_form,
    write_header,
    write_json,
    write_multipart,
    write_pairs,
    write_path,
    write_text,
)

_MAX_DECODINGS = 8
"""How often a path is decoded to find what a server may see in it."""
_SEGMENT_ENDS = re.compile(r"[/\\;]")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_SAFE_PATH = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:@%/]*")


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request ready to send."""

    method: str
    url: Url
    headers: tuple[tuple[str, str], ...]
    content: bytes


def find_base(operation: Operation, server: str | None) -> Url:
    """Return the base URL for an operation's path. Raises DefinitionError."""
    given = operation.server if server is None else server
    try:
        base = parse_url(given)
    except (Refused, ToolFailed) as error:
        raise DefinitionError(
            f"{operation.where}: the server {given!r} is not a complete URL. Pass one: "
            f'`tools(document, server="https://...")`. {error}'
        ) from None
    if base.query:
        raise DefinitionError(f"{operation.where}: the server {given!r} has a query.")
    return base


def find_trusted(document: Document, server: str | None, others: Iterable[str]) -> list[Url]:
    """Return the servers allowed to get credentials. Raises DefinitionError."""
    own = list_servers(document.root) if server is None else (server,)
    trusted = list[Url]()
    for url in own:
        with suppress(Refused, ToolFailed):  # no request goes to such a server
            trusted.append(parse_url(url))
    for url in others:
        try:
            trusted.append(parse_url(url))
        except (Refused, ToolFailed) as error:
            raise DefinitionError(f"The server {url!r} is not a complete URL. {error}") from None
    return trusted


def find_url(operation: Operation, base: Url, args: Mapping[str, Any]) -> Url:
    """Return a call's URL without its query. Raises Refused or ToolFailed."""
    path = operation.path
    for parameter in operation.parameters:
        if parameter.location == "path":
            text = _write_segment(parameter, args.get(parameter.argument))
            path = path.replace(f"{{{parameter.name}}}", text)
    whole = base.path.rstrip("/") + path
    if not _SAFE_PATH.fullmatch(whole):
        raise Refused(f"Not sent: {operation.where} has a path that is not a URL's.")
    _check_segments(whole)
    return base._replace(path=whole)


def _write_segment(parameter: Parameter, value: Any) -> str:
    text = "" if value is None else write_path(parameter, value)
    if not text.strip("."):  # the path would be another one
        raise ToolFailed(
            f"Not sent: {parameter.argument!r} is part of the path, and must not be empty, "
            "'.' or '..'. Call again with another value."
        )
    return text


def _check_segments(path: str) -> None:
    """Reject a path a server may read as another one, however often it decodes it."""
    for _ in range(_MAX_DECODINGS):  # `DELETE /files/../admin`: decision 064
        if any(segment in (".", "..") for segment in _SEGMENT_ENDS.split(path)):
            raise Refused("Not sent: an argument would lead to another path ('.' or '..').")
        if _CONTROLS.search(path):
            raise Refused("Not sent: an argument in the path has control characters.")
        decoded = unquote(path)
        if decoded == path:
            return
        path = decoded
    raise Refused("Not sent: an argument in the path is encoded too often.")


def make_request(
    document: Document, operation: Operation, base: Url, args: Mapping[str, Any]
) -> OutgoingRequest:
    """Return a call's request. Raises Refused or ToolFailed."""
    try:
        return _make_request(document, operation, base, args)
    except UnicodeEncodeError:
        raise ToolFailed("Not sent: an argument has text that is not valid Unicode.") from None


def _make_request(
    document: Document, operation: Operation, base: Url, args: Mapping[str, Any]
) -> OutgoingRequest:
    given = [
        (parameter, args[parameter.argument])
        for parameter in operation.parameters
        if args.get(parameter.argument) is not None
    ]
    query, cookies = _join_pairs(given, "query", "&"), _join_pairs(given, "cookie", "; ")
    headers = [
        (parameter.name, write_header(parameter, value))
        for parameter, value in given
        if parameter.location == "header"
    ]
    if cookies:
        headers.append(("Cookie", cookies))
    media_type, content = _write_body(document, operation, args)
    if media_type:
        headers.append(("Content-Type", media_type))
    url = find_url(operation, base, args)
    if query:
        url = url._replace(query=f"?{query}")
    return OutgoingRequest(operation.method, url, tuple(headers), content)


def _join_pairs(given: list[tuple[Parameter, Any]], location: str, joint: str) -> str:
    return joint.join(
        f"{name}={text}"
        for parameter, value in given
        if parameter.location == location
        for name, text in write_pairs(parameter, value)
    )


def _write_body(
    document: Document, operation: Operation, args: Mapping[str, Any]
) -> tuple[str, bytes]:
    body = operation.body
    if body is None:
        return "", b""
    if body.whole is not None:
        if body.whole.argument not in args:
            return "", b""
        return _write_whole(document, operation, args[body.whole.argument])
    fields = [
        (parameter, args[parameter.argument])
        for parameter in operation.parameters
        if parameter.location == "body" and parameter.argument in args
    ]
    if body.kind == "json":
        value = {parameter.name: item for parameter, item in fields}
        return body.media_type, write_json(value).encode()
    given = [(parameter, item) for parameter, item in fields if item is not None]
    if body.kind == "form":
        return body.media_type, write_form((parameter.name, item) for parameter, item in given)
    return _write_multipart(document, given)


def _write_whole(document: Document, operation: Operation, value: Any) -> tuple[str, bytes]:
    body: Any = operation.body
    if body.kind == "text":
        return body.media_type, write_text(value).encode()
    if body.kind == "bytes":
        return body.media_type, decode(body.whole.argument, value)
    if body.kind == "json" or not is_node(value):
        media_type = body.media_type if body.kind == "json" else "application/json"
        kind = "application/json" if "*" in media_type else media_type
        return kind, write_json(value).encode()
    if body.kind == "form":
        return body.media_type, write_form(value.items())
    parts = [
        (Parameter(name, name, "body", {}, "", required=False), item)
        for name, item in value.items()
    ]
    return _write_multipart(document, parts)


def _write_multipart(document: Document, fields: Any) -> tuple[str, bytes]:
    boundary, content = write_multipart(document, fields)
    return f"multipart/form-data; boundary={boundary}", content
