"""Request bodies and forms, read within limits, and tokens proving a form is from our page."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from http import HTTPStatus
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from handrail._support.loop import Expired, complete

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
MAX_FIELDS = 500
_FORM = "application/x-www-form-urlencoded"


async def read_body(receive: Receive, *, most: int, seconds: float) -> bytes | HTTPStatus:
    """Return a request's body, or the status to reject it with.

    Args:
        receive: The application's function.
        most: How many bytes it may have.
        seconds: How long it may take.
    """
    try:
        body: bytes | HTTPStatus = await complete(_read_all(receive, most), seconds, _ignore)
    except Expired:
        return HTTPStatus.REQUEST_TIMEOUT
    return body


async def _read_all(receive: Receive, most: int) -> bytes | HTTPStatus:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":  # broken off: the rest may change its meaning
            return HTTPStatus.BAD_REQUEST
        body += message.get("body", b"")
        if len(body) > most:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        if not message.get("more_body"):
            return bytes(body)


def _ignore(_: object) -> None:
    pass


async def read_form(
    kind: str,
    receive: Receive,
    *,
    most: int,
    seconds: float,
) -> Mapping[str, tuple[str, ...]] | HTTPStatus:
    """Return a form's fields, or the status to reject it with.

    Args:
        kind: The request's ``Content-Type``.
        receive: The application's function.
        most: How many bytes it may have.
        seconds: How long it may take.
    """
    if kind.partition(";")[0].strip().lower() != _FORM:
        return HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    body = await read_body(receive, most=most, seconds=seconds)
    if isinstance(body, HTTPStatus):
        return body
    form: dict[str, tuple[str, ...]] = {}
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS
        )
    except ValueError:
        return HTTPStatus.BAD_REQUEST
    for name, value in pairs:
        form[name] = (*form.get(name, ()), value)
    return form


def mask(token: str) -> str:
    """Return a token with a new mask, to keep compression from revealing it."""
    plain = token.encode()
    noise = secrets.token_bytes(len(plain))
    both = noise + bytes(one ^ other for one, other in zip(noise, plain, strict=True))
    return base64.urlsafe_b64encode(both).decode()


def unmask(masked: str) -> bytes:
    """Return the token, or something else if it was not masked here."""
    try:
        both = base64.urlsafe_b64decode(masked.encode())
    except ValueError:
        return b""
    half = len(both) // 2
    return bytes(one ^ other for one, other in zip(both[:half], both[half:], strict=False))
