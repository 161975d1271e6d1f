"""Reads a response: its content as a result, or its status as a failure."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from handrail import File, Image, ToolFailed, Transient, Unknown
from handrail._support.visible import spell_out

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


@dataclass(frozen=True, slots=True)
class Response:
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
            wait = read_retry_after(self.headers.get("retry-after", ""))
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


def find_reader(status: int, headers: Mapping[str, str]) -> Callable[[bytes], str] | None:
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


def read_retry_after(after: str) -> float | None:
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
