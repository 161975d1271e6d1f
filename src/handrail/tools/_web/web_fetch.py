"""The web_fetch tool: fetches public pages of the web as text."""

from __future__ import annotations

import codecs
import os
import re
import ssl
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import quote, urljoin

import anyio
from anyio.abc import ByteStream

from handrail import (
    WRITE,
    Access,
    Args,
    Failure,
    FailureKind,
    HandrailError,
    Refused,
    Tool,
    ToolFailed,
    Transient,
    tool,
)
from handrail.net import Guard, Url, parse_url
from handrail.tools._descriptions import describe_web_fetch
from handrail.tools._habits import WEB_FETCH_INSTEAD_OF

if TYPE_CHECKING:
    from handrail.tools._web.http import FetchOptions, Response


Parse: TypeAlias = Callable[[Mapping[str, Any] | str], Args | Failure]
_MAX_PAGE_CHARS = 2_000_000
"""Characters of a page's text."""
_MAX_SECONDS = 5
_MAX_MEMORY_BYTES = 512 << 20
_PROGRAM = "import runpy, sys; runpy.run_path(sys.argv[1])['main'](*sys.argv[2:])"

_CHARSETS = re.compile(
    r"utf-?8|utf-?16(le|be)?|(us-)?ascii|latin-?1|iso-?8859-\d+|windows-\d+|cp\d+|koi8-[ru]"
    r"|shift[_-]jis|euc-(jp|kr)|gb(k|2312|18030)|big5",
    re.IGNORECASE,
)
_DECLARED = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([\w-]{1,40})", re.IGNORECASE)
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff\U000e0000-\U000e0fff]")
"""Control characters, and characters that only a model can read."""
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_HTML = ("text/html", "application/xhtml+xml")
_TEXT = re.compile(
    r"text/.*|application/(.*\+)?(json|xml|yaml)|application/(x-)?(javascript|ndjson|sh|toml|yaml)"
    r"|image/svg\+xml"
)


class ContentType(NamedTuple):
    """A content type: the media type, and the character set if there is one."""

    name: str
    charset: str

    @classmethod
    def of(cls, header: str) -> ContentType:
        """Parse a ``Content-Type`` header. The default is plain text."""
        name, _, rest = header.partition(";")
        charset = re.search(r"charset\s*=\s*\"?([^\s\";]+)", rest, re.IGNORECASE)
        return cls(name.strip().lower() or "text/plain", charset[1] if charset else "")

    @property
    def readable(self) -> bool:
        """Whether it is a text format."""
        return self.name in _HTML or _TEXT.fullmatch(self.name) is not None


async def page_text(body: bytes, kind: ContentType, base: str) -> str:
    """Return a page's text. Raises ToolFailed if it is not text."""
    text = decode_body(body, kind)
    if "\x00" in text[:1024]:
        raise ToolFailed(f"{base} claims to be {kind.name}, but it is binary.")
    if kind.name in _HTML:
        text = await _convert_html(text, base)
    text = _UNSEEN.sub("", text.replace("\r\n", "\n")).strip()
    # the URL of an image could carry data of the conversation, so no viewer may load it
    return text[:_MAX_PAGE_CHARS].replace("![", "!\\[")


def decode_body(body: bytes, kind: ContentType) -> str:
    """Decode bytes: by their byte order mark, by their declared character set, or as UTF-8."""
    for mark, name in _MARKS.items():
        if body.startswith(mark):
            return body.decode(name, "replace")
    name = kind.charset
    if not name and kind.name in _HTML and (declared := _DECLARED.search(body[:2048])):
        name = declared[1].decode("ascii")
    try:
        return body.decode(name if _CHARSETS.fullmatch(name) else "utf-8", "replace")
    except LookupError:  # an unknown code page
        return body.decode("utf-8", "replace")


async def _convert_html(html: str, base: str) -> str:
    numbers = map(str, (_MAX_PAGE_CHARS, _MAX_SECONDS, _MAX_MEMORY_BYTES))
    worker = str(Path(__file__).with_name("html.py"))
    done = await anyio.run_process(
        [sys.executable, "-I", "-c", _PROGRAM, worker, base, *numbers],
        input=html.encode("utf-8", "replace"),
        check=False,
        cwd="/",
        env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
    )
    if done.returncode != 0:
        raise ToolFailed(f"{base} could not be converted to text.")
    return done.stdout.decode("utf-8")


_DEFAULT_GUARD = Guard()
_DEFAULT_SECONDS = 20.0
_DEFAULT_MAX_BYTES = 5 << 20
_MAX_SHOWN_CHARS = 30_000
"""Characters of one result."""
_MAX_REDIRECTS = 5
_TO_HTTPS = (80, 443)
"""The ports before and after a redirect from http to https."""
_PACKAGES = ("httpcore2", "html_to_markdown")


def web_fetch(
    *,
    guard: Guard = _DEFAULT_GUARD,
    trust: ssl.SSLContext | None = None,
    connect: Callable[[str, int], Awaitable[ByteStream]] | None = None,
    within: float = _DEFAULT_SECONDS,
    most_bytes: int = _DEFAULT_MAX_BYTES,
) -> Tool[..., Any]:
    """Make a tool that reads pages of the web.

    The guard decides which hosts can be reached. ``trust`` has the trusted certificates, by default
    those of the system. ``connect`` gets an address the guard has checked, and a port. A
    request may take ``within`` seconds, and ``most_bytes`` of a page are read.
    """
    if not all(map(find_spec, _PACKAGES)):
        raise HandrailError(
            "web_fetch needs two more packages. Install them: pip install 'handrail[web]'"
        )

    @tool(
        description=describe_web_fetch(guard.ports, (*guard.networks, *guard.names)),
        effect=WRITE,
        touches=_touches,
        idempotent=True,
        timeout=30.0,
        max_chars=2 * _MAX_SHOWN_CHARS,
        instead_of=WEB_FETCH_INSTEAD_OF,
        tags=("fetch",),
        framed=True,
    )
    async def web_fetch(url: str, offset: int = 0) -> str:
        """Fetch a page.

        Args:
            url: Full URL, with https:// or http://.
            offset: First character to show, for the next part of a long page.
        """
        from handrail.tools._web.http import FetchOptions, dial

        options = FetchOptions(
            guard=guard, trust=trust, connect=connect or dial, max_bytes=most_bytes
        )
        asked = parse_url(url)
        with anyio.move_on_after(within):
            final_url, response = await _follow(asked, options)
            return await _format_response(final_url, response, offset, options)
        raise Transient(f"Timed out: {asked.host} did not finish within {within:g} s.")

    return replace(web_fetch, parse=_checked(web_fetch.parse, guard))


def _checked(parse: Parse, guard: Guard) -> Parse:
    """Return a parser that refuses what the guard refuses, before anyone is asked."""

    def parse_and_check(given: Mapping[str, Any] | str) -> Args | Failure:
        args = parse(given)
        if not isinstance(args, Args):
            return args
        try:
            _check(guard, parse_url(args.values["url"]))
        except Refused as error:
            return Failure(FailureKind.DENIED, str(error))
        except ToolFailed as error:
            return Failure(FailureKind.FAILED, str(error))
        return args

    return parse_and_check


def _check(guard: Guard, url: Url) -> None:
    guard.check(f"[{url.host}]" if ":" in url.host else url.host, url.port)


def _touches(url: str, **_: object) -> Access:
    try:
        return Access(WRITE, parse_url(url).resource)
    except (Refused, ToolFailed):  # the call will fail; the policy must expect any host
        return Access(WRITE, "net:")


async def _follow(asked: Url, options: FetchOptions) -> tuple[Url, Response]:
    """Return the response to a request, after redirects to another spelling of its URL.

    The policy has decided about one page. Every other target is a new call.
    """
    from handrail.tools._web.http import get

    url = asked
    for _ in range(_MAX_REDIRECTS + 1):
        response = await get(url, options)
        target = _target(url, response)
        if target is None or not _is_same_page(asked, target):
            return url, response
        _check(options.guard, target)
        url = target
    raise ToolFailed(f"{url.host} redirected more than {_MAX_REDIRECTS} times.")


def _is_same_page(asked: Url, target: Url) -> bool:
    """Return whether two URLs differ at most in the query, a slash at the end, or by https."""
    ports = (asked.port, target.port)
    return (
        asked.host == target.host
        and asked.path.rstrip("/") == target.path.rstrip("/")
        and (ports[0] == ports[1] or ports == _TO_HTTPS)
    )


def _target(url: Url, response: Response) -> Url | None:
    """Return a redirect's target; None if the response is not one."""
    if response.status not in _REDIRECTS or "location" not in response.headers:
        return None
    place = quote(response.headers["location"].encode("latin-1"), safe=_ASCII)
    try:
        target = parse_url(urljoin(str(url), place))
    except (Refused, ToolFailed) as error:
        raise Refused(f"Not followed: {url} redirects to an invalid URL. {error}") from None
    except ValueError:
        raise ToolFailed(f"{url} redirects to an invalid URL.") from None
    if (url.scheme, target.scheme) == ("https", "http"):
        raise Refused(f"Not followed: {url} redirects to {target}, which is not encrypted.")
    return target


async def _format_response(url: Url, response: Response, offset: int, options: FetchOptions) -> str:
    """Return a response as text for the model."""
    status = f"{response.status} {_PHRASES.get(response.status, '')}".rstrip()
    target = _target(url, response)
    if target is not None:
        _check(options.guard, target)
        what = "page" if target.host == url.host else "host"
        return (
            f"{url}\n{status}\n\nNot followed, because it redirects to another {what}:\n{target}\n"
            "To read that page, call web_fetch with its URL."
        )
    if response.status // 100 != _GOOD:
        raise _make_failure(url, response, status)
    kind = ContentType.of(response.headers.get("content-type", ""))
    if not kind.readable:
        raise ToolFailed(f"{url} is {kind.name}. Only text can be fetched.")
    text = await page_text(response.body, kind, str(url))
    return f"{url}\n{status}, {kind.name}\n{_format_part(text, offset, cut=response.cut)}"


def _format_part(text: str, offset: int, *, cut: str) -> str:
    """Return a part of a text, and notes about the rest."""
    if not text:
        return "\n(no text)"
    if not 0 <= offset < len(text):
        raise ToolFailed(f"offset must be from 0 to {len(text) - 1}, got {offset}.")
    end = min(offset + _MAX_SHOWN_CHARS, len(text))
    notes: list[str] = []
    if end - offset < len(text):
        notes.append(f"Characters {offset} to {end} of {len(text)}.")
    if end < len(text):
        notes.append(f"For more, pass offset={end}.")
    if cut:
        notes.append(f"The end of the page was not read: {cut}.")
    return "\n".join(["", text[offset:end], *([f"[{' '.join(notes)}]"] if notes else [])])


def _make_failure(url: Url, response: Response, status: str) -> ToolFailed | Transient:
    if response.status in _LATER:
        wait = _read_retry_after(response.headers.get("retry-after", ""))
        when = "" if wait is None else f" It asks to wait {wait:g} s."
        return Transient(f"{url} returned {status}.{when}", retry_after=wait)
    hint = _HINTS.get(response.status, "")
    return ToolFailed(f"{url} returned {status}.{hint}")


def _read_retry_after(after: str) -> float | None:
    """Return the seconds of a ``Retry-After`` header, which has seconds or a date."""
    if after.isdecimal():
        return float(after[:_MAX_DIGITS])
    try:
        return max((parsedate_to_datetime(after) - datetime.now(UTC)).total_seconds(), 0.0)
    except (TypeError, ValueError):  # not a date, or a date without a time zone
        return None


_GOOD = 2
_ASCII = "!#$%&'()*+,/:;=?@[]~"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LATER = frozenset({408, 425, 429, 500, 502, 503, 504})
_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_MAX_DIGITS = 9
_HINTS = {
    401: " It requires a login, which this tool cannot provide. Ask the user for the content.",
    403: " It does not allow this tool. Use another source.",
    404: " Check the URL, or start from the site's main page.",
    410: " The page was removed. Use another source.",
}
