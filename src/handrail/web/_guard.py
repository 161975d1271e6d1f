"""The guard around every route: other sites' pages, strangers, floods and large bodies stay out."""

from __future__ import annotations

import inspect
import json
import logging
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Generator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from handrail.net.forms import read_body
from handrail.runs import JournalError
from handrail.web._visitor import Identify, Visitor
from handrail.web.conversations import ConversationBusy, check_name

_log = logging.getLogger("handrail.web")
_READS = frozenset({"GET", "HEAD"})
_BODY_SECONDS = 30.0
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
"""The character in JSON: PostgreSQL does not store it."""
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}
"""On every response."""


class Refusal(Exception):
    """A rejected request: its status, and a sentence for the client."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


def bad(text: str) -> Refusal:
    """Return a malformed request's refusal."""
    return Refusal(HTTPStatus.BAD_REQUEST, text)


Handler = Callable[[Request, Visitor], Awaitable[Response]]


class RequestGuard:
    """Checks each request, then calls its handler.

    Args:
        identify: Finds the visitor.
        origins: The origins whose pages may write, such as ``https://shop.example``.
        prepare: Opens the database for the first request.
    """

    def __init__(
        self, identify: Identify, origins: Collection[str], prepare: Callable[[], Awaitable[None]]
    ) -> None:
        self._identify = identify
        self._prepare = prepare
        self._origins = frozenset(map(_check_origin, origins))

    def protect(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint behind all checks."""

        async def answer(request: Request) -> Response:
            try:
                self._check_source(request)
                visitor = await self._find_visitor(request)
                await self._prepare()
                _check_names(request)
                response = await handler(request, visitor)
            except Refusal as refusal:
                response = _refuse(refusal.status, str(refusal))
            except ConversationBusy as busy:
                response = _refuse(HTTPStatus.CONFLICT, str(busy))
            except LookupError:
                response = _refuse(HTTPStatus.NOT_FOUND, "There is no such thing here.")
            except JournalError as error:
                _log.error("the database failed: %s", ascii(str(error)))
                response = _refuse(HTTPStatus.SERVICE_UNAVAILABLE, "Try again later.")
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
            return response

        return answer

    def _check_source(self, request: Request) -> None:
        """Refuse writes from other sites' pages. Browsers send ``Origin`` with each write."""
        if request.method in _READS:
            return
        origins = request.headers.getlist("origin")
        if (
            not origins
            and "cookie" not in request.headers
            and "sec-fetch-site" not in request.headers
        ):
            return  # no browser: nothing adds a person's cookies to its requests
        if len(origins) != 1 or origins[0] not in self._origins:
            raise Refusal(HTTPStatus.FORBIDDEN, "This page may not send requests here.")

    async def _find_visitor(self, request: Request) -> Visitor:
        found: Any = self._identify(request)
        visitor = cast("Visitor | None", await found if inspect.isawaitable(found) else found)
        if visitor is None:
            raise Refusal(HTTPStatus.UNAUTHORIZED, "Sign in first.")
        if not isinstance(visitor, Visitor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"`identify` must return a Visitor or None, not {type(visitor).__name__}."
            )
        check_name(visitor.principal, "principal")
        return visitor


class Slots:
    """Bounds what costs memory as long as it lasts.

    Args:
        each: How many one principal may have at once.
        total: How many all may have.
        what: Their name, for refusals.
    """

    def __init__(self, *, each: int, total: int, what: str) -> None:
        self._each = each
        self._total = total
        self._what = what
        self._taken = Counter[str]()

    @contextmanager
    def take(self, principal: str) -> Generator[None]:
        """Count one as long as the context is open. Raises Refusal."""
        if self._taken[principal] >= self._each:
            raise Refusal(HTTPStatus.TOO_MANY_REQUESTS, f"You have too many {self._what}.")
        if self._taken.total() >= self._total:
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, f"There are too many {self._what}.")
        self._taken[principal] += 1
        try:
            yield
        finally:
            self._taken -= Counter([principal])  # leaves out who has none


async def read_json(request: Request, *, most: int) -> dict[str, Any]:
    """Return a request's JSON object. Raises Refusal."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":  # the others need no permission from a foreign page's browser
        raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send application/json.")
    body = await read_bytes(request, most=most)
    try:
        value = json.loads(body)
        text = json.dumps(value, ensure_ascii=False)
        text.encode()
    except (ValueError, RecursionError):
        raise bad("The body is not JSON.") from None
    if _NUL.search(text):
        raise bad("Texts contain no NUL.")
    if not isinstance(value, dict):
        raise bad("The body is not a JSON object.")
    return cast("dict[str, Any]", value)


async def read_bytes(request: Request, *, most: int) -> bytes:
    """Return a request's body. Raises Refusal."""
    body = await read_body(request.receive, most=most, seconds=_BODY_SECONDS)
    if isinstance(body, HTTPStatus):
        raise Refusal(body, "The body is too large, or too slow.")
    return body


def _check_names(request: Request) -> None:
    """Raise LookupError for a name that no database stores."""
    for name in request.path_params.values():
        if "\0" in name:
            raise LookupError(name)


def _refuse(status: HTTPStatus, text: str) -> Response:
    return JSONResponse({"error": text}, status)


def _check_origin(origin: str) -> str:
    parts = urlsplit(origin)
    if (
        parts.scheme not in {"http", "https"}
        or origin != f"{parts.scheme}://{parts.netloc}".lower()
    ):
        raise ValueError(
            f"{origin!r} is not an origin: write it as in `https://shop.example`, in lower case."
        )
    return origin
