"""Sends requests and reads responses within limits. The only module importing httpx2."""

from __future__ import annotations

import codecs
import json
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from functools import cached_property
from http import HTTPStatus
from http.cookiejar import DefaultCookiePolicy
from typing import Any, TypeAlias
from urllib.parse import urljoin

import httpx2
from typing_extensions import override

from handrail import File, Image, NeedsLogin, Refused, ToolFailed, Transient, Unknown
from handrail._support.visible import spell_out
from handrail.net import Guard, Url, parse_url
from handrail.openapi._request import OutgoingRequest
from handrail.telemetry import read_trace

Client: TypeAlias = httpx2.AsyncClient
"""Sends requests."""
Tell: TypeAlias = Callable[[str], None]
"""Gets the next piece of a response."""

_DEFAULT_GUARD = Guard()
_SECONDS = 30.0
_PORTS = {"http": 80, "https": 443}
_MAX_REDIRECTS = 5
_TO_HTTPS = (80, 443)
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SAME_METHOD = frozenset({307, 308})
_UNAUTHORIZED = 401
_SAFE = frozenset({"GET", "HEAD"})
_MAX_MESSAGE_CHARS = 2_000
"""Characters passed to a model from an error's body."""
_MAX_DIGITS = 9
_STREAMED = re.compile(r"text/(?!html).*|application/(x-ndjson|jsonl)")
_GOOD = range(200, 300)
_LATER = frozenset({429, 503})
"""The request was not processed, and can be sent again."""
_LOST = frozenset({408, 500, 502, 504})
"""The request may have been processed."""
_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_IMAGES = re.compile(r"image/(png|jpeg|gif|webp)")
_TEXT = re.compile(r"text/.*|.*[/+](json|xml|yaml|javascript|graphql)|application/x-ndjson")


def guarded_client(
    guard: Guard = _DEFAULT_GUARD, *, verify: ssl.SSLContext | bool = True
) -> Client:
    """Return a client restricted to addresses the guard allows.

    It stores no cookies and no connections, and ignores proxy settings in the environment.
    ``verify`` has the trusted certificates.
    """
    transport = _GuardedTransport(guard, verify)
    client = Client(transport=transport, trust_env=False, timeout=_SECONDS)
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    return client


class _GuardedTransport(httpx2.AsyncBaseTransport):
    """Resolves each name once, and connects to an address checked by the guard."""

    def __init__(self, guard: Guard, verify: ssl.SSLContext | bool) -> None:  # noqa: FBT001
        self._guard = guard
        self._verify = verify

    @cached_property
    def _transport(self) -> httpx2.AsyncHTTPTransport:
        # a connection is never reused, so never for another host at the same address
        limits = httpx2.Limits(max_keepalive_connections=0)
        return httpx2.AsyncHTTPTransport(verify=self._verify, trust_env=False, limits=limits)

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        host = request.url.host
        port = request.url.port or _PORTS[request.url.scheme]
        [address, *_] = await self._guard.resolve(_bracket(host), port)
        sent = httpx2.Request(
            request.method,
            request.url.copy_with(host=address),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": host},
        )
        return await self._transport.handle_async_request(sent)


def _bracket(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends an operation's requests."""

    client: Client
    max_bytes: int
    is_repeatable: bool
    """Whether a request can be repeated without harm, if its outcome is not known."""
    is_personal: bool
    """Whether a person can sign in again if the service refuses the credentials."""

    async def send(self, request: OutgoingRequest, tell: Tell) -> Any:
        """Return the response's content. Raises a failure for the model to read.

        ``tell`` gets the text of a streamed response while it arrives.
        """
        asked = request.url
        for _ in range(_MAX_REDIRECTS + 1):
            response = await self._request(request, tell)
            target = _find_target(request, response)
            if target is None:
                return self._read(request, response)
            if not _is_same_page(asked, target):
                raise Refused(
                    f"Not followed: {asked.host} redirects to {target.host}{target.path}, which "
                    "this operation is not about."
                )
            request = OutgoingRequest(request.method, target, request.headers, request.content)
        raise ToolFailed(f"{asked.host} redirected more than {_MAX_REDIRECTS} times.")

    def _read(self, request: OutgoingRequest, response: _Response) -> Any:
        if response.status in _GOOD:
            return response.read_content()
        if response.status == _UNAUTHORIZED and self.is_personal:
            raise NeedsLogin(f"Sign in at {request.url.host}: it refused the credentials.")
        what = f"{request.method} {request.url.host}{request.url.path}"
        raise response.make_failure(what, is_repeatable=self.is_repeatable)

    async def _request(self, request: OutgoingRequest, tell: Tell) -> _Response:
        host = request.url.host
        sent = {name.lower() for name, _ in request.headers}
        trace = [(name, value) for name, value in read_trace().items() if name not in sent]
        built = self.client.build_request(
            request.method,
            str(request.url),
            headers=[("Accept", "application/json, */*;q=0.5"), *trace, *request.headers],
            content=request.content or None,
        )
        if built.url.raw_path != request.url.target.encode() or built.url.host != host:
            raise Refused("Not sent: the URL has another spelling than the checked one.")
        try:
            return await self._receive(built, tell)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise Transient(f"Not sent: {host} could not be reached.") from error
        except httpx2.HTTPError as error:
            if self.is_repeatable:
                raise Transient(f"{host} did not respond, or closed the connection.") from error
            raise Unknown(
                f"The request was sent, and {host} did not respond. It may have taken effect: "
                "check before you call again."
            ) from error

    async def _receive(self, built: httpx2.Request, tell: Tell) -> _Response:
        response = await self.client.send(built, stream=True, follow_redirects=False)
        try:
            body, read = bytearray(), _find_reader(response.status_code, response.headers)
            async for piece in response.aiter_bytes():
                body += piece
                if read is not None and (text := read(piece)):
                    tell(text)
                if len(body) > self.max_bytes:
                    break
        finally:
            await response.aclose()
        return _Response(
            response.status_code,
            {name.lower(): value for name, value in response.headers.items()},
            bytes(body[: self.max_bytes]),
            is_cut=len(body) > self.max_bytes,
        )


def _find_target(request: OutgoingRequest, response: _Response) -> Url | None:
    """Return the target of a redirect to follow, or None."""
    location = response.headers.get("location", "")
    if response.status not in _REDIRECTS or not location:
        return None
    if response.status not in _SAME_METHOD and request.method not in _SAFE:
        return None
    try:
        target = parse_url(urljoin(str(request.url), location))
    except (Refused, ToolFailed, ValueError):
        raise Refused(f"Not followed: {request.url.host} redirects to an invalid URL.") from None
    return target


def _is_same_page(asked: Url, target: Url) -> bool:
    """Return whether two URLs differ at most in the query, a slash at the end, or by https."""
    ports = (asked.port, target.port)
    same_scheme = asked.scheme == target.scheme and ports[0] == ports[1]
    return (
        asked.host == target.host
        and asked.path.rstrip("/") == target.path.rstrip("/")
        and (same_scheme or ports == _TO_HTTPS)
    )


@dataclass(frozen=True, slots=True)
class _Response:
    """The response to a request."""

    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes
    is_cut: bool
    """Whether the body was truncated."""

    @property
    def status_text(self) -> str:
        """The status, with its name."""
        return f"{self.status} {_PHRASES.get(self.status, '')}".rstrip()

    def read_content(self) -> Any:
        """Return the body as data, text, an image or a file, or the status if it is empty."""
        kind, charset = self._content_type()
        if not self.body:
            return f"Done: {self.status_text}."
        if kind and not _TEXT.fullmatch(kind):
            return self._read_file(kind)
        text = self.body.decode(charset, "replace")
        if self.is_cut:
            return f"{text}\n[The end of the response was not read: it is too long.]"
        return _read_json(text) if not kind or kind.endswith(("/json", "+json")) else text

    def make_failure(self, what: str, *, is_repeatable: bool) -> Exception:
        """Return the failure for a status, with the start of the body."""
        _, charset = self._content_type()
        words = spell_out(self.body.decode(charset, "replace").strip())
        if len(words) > _MAX_MESSAGE_CHARS:
            words = words[:_MAX_MESSAGE_CHARS] + " ..."
        message = f"{what} returned {self.status_text}.{_HINTS.get(self.status, '')}"
        message += f"\n{words}" if words else ""
        if self.status in _LATER or (self.status in _LOST and is_repeatable):
            wait = _read_retry_after(self.headers.get("retry-after", ""))
            return Transient(message, retry_after=wait)
        if self.status in _LOST:
            return Unknown(f"{message}\nIt may have taken effect: check before you call again.")
        return ToolFailed(message)

    def _content_type(self) -> tuple[str, str]:
        header = Message()
        header["content-type"] = self.headers.get("content-type", "application/json")
        charset = header.get_content_charset("utf-8")
        try:
            "".encode(charset)
        except (LookupError, ValueError):
            charset = "utf-8"
        has_type = "content-type" in self.headers
        return header.get_content_type() if has_type else "", charset

    def _read_file(self, kind: str) -> Image | File:
        if self.is_cut:
            raise ToolFailed(f"The request was sent. The response ({kind}) is too long to read.")
        is_image = _IMAGES.fullmatch(kind) is not None
        return Image(self.body, kind) if is_image else File(self.body, kind, "response")


def _find_reader(status: int, headers: Mapping[str, str]) -> Callable[[bytes], str] | None:
    """Return a decoder for a response sent in pieces for people to read, or None."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if status not in _GOOD or "content-length" in headers or not _STREAMED.fullmatch(kind):
        return None
    return codecs.getincrementaldecoder("utf-8")("replace").decode


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _read_retry_after(after: str) -> float | None:
    """Return a ``Retry-After`` header in seconds. It has seconds or a date."""
    if after.isascii() and after.isdecimal():
        return float(after[:_MAX_DIGITS])
    try:
        return max((parsedate_to_datetime(after) - datetime.now(UTC)).total_seconds(), 0.0)
    except (TypeError, ValueError):  # not a date, or a date without a time zone
        return None


_HINTS = {
    401: " It requires other credentials. Tell the user.",
    403: " These credentials do not allow it. Tell the user.",
}
