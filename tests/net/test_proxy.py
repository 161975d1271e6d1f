"""The proxy: what is listed can be reached through it, and nothing else."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from handrail import HandrailError
from handrail.net import Guard, Proxy, _places, _proxy, proxy_variables
from net.web_stage import OTHER, PUBLIC, Site, names, reply

LISTED = ["pub.test", "int.test", "gone.test", "*.sub.test", PUBLIC]


def everywhere(host: str, port: int) -> list[str]:
    return [PUBLIC] if host.endswith(".sub.test") else names(host, port)


@contextmanager
def proxied(folder: Path, site: Site, listed: list[str] = LISTED) -> Iterator[Proxy]:
    def connect(address: str, _port: int) -> socket.socket:
        assert address in (PUBLIC, OTHER)
        return socket.create_connection(("127.0.0.1", site.port), 5)

    guard = Guard(resolver=everywhere)
    with Proxy(listed, directory=folder / "p", guard=guard, connect=connect) as proxy:
        yield proxy


def said(proxy: Proxy, text: str | bytes) -> str:
    """All that comes back for what is sent."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(proxy.path)
        client.sendall(text.encode("latin-1") if isinstance(text, str) else text)
        got = b""
        while piece := client.recv(65_536):
            got += piece
        return got.decode("latin-1")


def short(answer: str) -> str:
    head, _, body = answer.partition("\r\n\r\n")
    return f"{head.splitlines()[0].removeprefix('HTTP/1.1 ')}: {body.strip()}"


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site({"*": reply(b"hello")})
    yield made
    made.close()


def test_a_listed_host_is_reached_in_both_ways(tmp_path: Path, site: Site) -> None:
    with proxied(tmp_path, site) as proxy:
        plain = said(proxy, "GET http://PUB.test/a?b HTTP/1.1\r\nHost: evil.test\r\n\r\n")
        tunnel = said(
            proxy, "CONNECT pub.test:443 HTTP/1.1\r\n\r\nGET /t HTTP/1.1\r\nHost: x\r\n\r\n"
        )
        below = said(proxy, "GET http://a.b.sub.test/ HTTP/1.0\r\n\r\n")
        address = said(proxy, f"GET http://{PUBLIC}/ HTTP/1.1\r\n\r\n")

    assert [short(one) for one in (plain, below, address)] == ["200 OK: hello"] * 3
    assert tunnel.startswith("HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK")
    assert site.asked == snapshot(
        [
            """\
GET /a?b HTTP/1.1\r
Host: pub.test\r
Connection: close\r
\r
""",
            """\
GET /t HTTP/1.1\r
Host: x\r
\r
""",
            """\
GET / HTTP/1.1\r
Host: a.b.sub.test\r
Connection: close\r
\r
""",
            """\
GET / HTTP/1.1\r
Host: 93.184.215.14\r
Connection: close\r
\r
""",
        ]
    )


def test_what_is_not_listed_or_odd_is_refused(tmp_path: Path, site: Site) -> None:
    told: dict[str, str] = {}
    with proxied(tmp_path, site) as proxy:
        for line in (
            "CONNECT evil.test:443",
            "CONNECT pub.test.evil.test:443",
            "CONNECT sub.test:443",
            "CONNECT evilsub.test:443",
            "CONNECT pub.test:22",
            "CONNECT pub.test",
            "CONNECT pub.test.:443",
            "CONNECT pub.test\0.evil.test:443",
            "CONNECT 127.0.0.1:443",
            "CONNECT 2130706433:443",
            f"CONNECT [{OTHER}]:443",
            "CONNECT int.test:443",
            "CONNECT gone.test:443",
            "GET http://evil.test/",
            "GET http://pub.test@evil.test/",
            "GET https://pub.test/",
            "GET /",
            "GET file:///etc/passwd",
            "get http://pub.test/",
        ):
            told[line] = short(said(proxy, f"{line} HTTP/1.1\r\nHost: pub.test\r\n\r\n"))

    assert told == snapshot(
        {
            "CONNECT evil.test:443": "403 Forbidden: handrail: 'evil.test' is not an allowed host.",
            "CONNECT pub.test.evil.test:443": "403 Forbidden: handrail: 'pub.test.evil.test' is not an allowed host.",
            "CONNECT sub.test:443": "403 Forbidden: handrail: 'sub.test' is not an allowed host.",
            "CONNECT evilsub.test:443": "403 Forbidden: handrail: 'evilsub.test' is not an allowed host.",
            "CONNECT pub.test:22": "403 Forbidden: handrail: Not run: port 22 is not allowed, only 80 and 443.",
            "CONNECT pub.test": "400 Bad Request: handrail: CONNECT takes a host and a port.",
            "CONNECT pub.test.:443": "400 Bad Request: handrail: 'pub.test.' is not a host name: remove the dot at the end.",
            "CONNECT pub.test\x00.evil.test:443": "400 Bad Request: handrail: this is not a request for a proxy.",
            "CONNECT 127.0.0.1:443": "403 Forbidden: handrail: '127.0.0.1' is not an allowed host.",
            "CONNECT 2130706433:443": "400 Bad Request: handrail: '2130706433' is not an address: write four numbers, such as 192.0.2.1.",
            "CONNECT [2606:4700::6810:84e5]:443": "403 Forbidden: handrail: '2606:4700::6810:84e5' is not an allowed host.",
            "CONNECT int.test:443": "403 Forbidden: handrail: Not run: 'int.test' is not on the public internet, and only public hosts are allowed. Do not work around this. Continue without it, or ask the user.",
            "CONNECT gone.test:443": "502 Bad Gateway: handrail: The host 'gone.test' was not found. Check the spelling; there may be no network.",
            "GET http://evil.test/": "403 Forbidden: handrail: 'evil.test' is not an allowed host.",
            "GET http://pub.test@evil.test/": "400 Bad Request: handrail: Not run: the URL contains a user name (before @). Remove it.",
            "GET https://pub.test/": "400 Bad Request: handrail: https requires CONNECT.",
            "GET /": "400 Bad Request: handrail: The URL must start with http:// or https://.",
            "GET file:///etc/passwd": "400 Bad Request: handrail: The URL must start with http:// or https://.",
            "get http://pub.test/": "400 Bad Request: handrail: this is not a request for a proxy.",
        }
    )
    assert site.connections == 0


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("Transfer-Encoding: chunked", "411 Length Required"),
        ("Content-Length: 1\r\nContent-Length: 2", "400 Bad Request"),
        ("Content-Length: -1", "400 Bad Request"),
        ("Content-Length: +1", "400 Bad Request"),
        ("Content-Length : 1", "400 Bad Request"),
        ("X: a\n b", "400 Bad Request"),
        (" folded: x", "400 Bad Request"),
        ("X: a\0b", "400 Bad Request"),
        ("no colon", "400 Bad Request"),
    ],
)
def test_a_request_with_two_readings_is_refused(
    head: str, status: str, tmp_path: Path, site: Site
) -> None:
    with proxied(tmp_path, site) as proxy:
        answer = said(proxy, f"POST http://pub.test/ HTTP/1.1\r\n{head}\r\n\r\nx")

    assert (short(answer).partition(":")[0], site.connections) == (status, 0)


def test_a_request_is_made_anew_and_nothing_follows_it(tmp_path: Path) -> None:
    body, got, done = b"12345" * 40_000, list[bytes](), threading.Event()

    def takes(client: socket.socket) -> None:
        got.append(client.recv(len(body), socket.MSG_WAITALL))
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\ndone")
        client.shutdown(socket.SHUT_WR)
        got.append(client.recv(99))
        done.set()

    site = Site({"*": takes})
    head = (
        "POST http://pub.test/x HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 200000\r\n"
        "Connection: keep-alive, X-Own\r\nX-Own: 1\r\nProxy-Authorization: x\r\nUpgrade: h2c\r\n"
        "Expect: 100-continue\r\nAccept: */*\r\n\r\n"
    )
    with proxied(tmp_path, site) as proxy, socket.socket(socket.AF_UNIX) as client:
        client.connect(proxy.path)
        client.sendall(head.encode())
        client.sendall(body + b"GET http://pub.test/smuggled HTTP/1.1\r\nHost: evil.test\r\n\r\n")
        answer = b""
        with suppress(ConnectionResetError):  # what follows the body is thrown away
            while piece := client.recv(65_536):
                answer += piece
    assert done.wait(10)
    site.close()

    assert answer.endswith(b"done")
    assert got == [body, b""]
    assert site.asked == snapshot(
        [
            """\
POST /x HTTP/1.1\r
Host: pub.test\r
Content-Length: 200000\r
Accept: */*\r
Connection: close\r
\r
"""
        ]
    )


def test_a_body_that_breaks_off_ends_it(tmp_path: Path, site: Site) -> None:
    with proxied(tmp_path, site) as proxy, socket.socket(socket.AF_UNIX) as client:
        client.connect(proxy.path)
        client.sendall(b"POST http://pub.test/ HTTP/1.1\r\nContent-Length: 500000\r\n\r\nabc")
        client.shutdown(socket.SHUT_WR)

        assert client.recv(99) == b""


def test_a_head_without_end_is_refused(tmp_path: Path, site: Site) -> None:
    with proxied(tmp_path, site) as proxy, socket.socket(socket.AF_UNIX) as client:
        client.connect(proxy.path)
        client.sendall(b"GET http://pub.test/ HTTP/1.1\r\n" + b"X: " + b"a" * 65_536)

        assert client.recv(99).startswith(b"HTTP/1.1 400 Bad Request")


def test_a_host_that_does_not_answer_is_said_to(tmp_path: Path) -> None:
    def nobody(_address: str, _port: int) -> socket.socket:
        raise ConnectionRefusedError

    guard = Guard(resolver=everywhere)
    with Proxy(LISTED, directory=tmp_path / "p", guard=guard, connect=nobody) as proxy:
        told = short(said(proxy, "CONNECT pub.test:443 HTTP/1.1\r\n\r\n"))

    assert told == snapshot("502 Bad Gateway: handrail: 'pub.test' does not respond.")


def test_a_tunnel_that_is_silent_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_proxy, "_IDLE_SECONDS", 0.05)
    site = Site({"*": lambda _: None})
    with proxied(tmp_path, site) as proxy:
        answer = said(proxy, "CONNECT pub.test:443 HTTP/1.1\r\n\r\n")
    site.close()

    assert answer == "HTTP/1.1 200 Connection established\r\n\r\n"


def test_a_tunnel_that_is_used_in_one_way_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_proxy, "_IDLE_SECONDS", 1.0)

    def drips(client: socket.socket) -> None:
        for _ in range(13):
            client.sendall(b".")
            time.sleep(0.1)

    site = Site({"*": drips})
    with proxied(tmp_path, site) as proxy:
        answer = said(proxy, "CONNECT pub.test:443 HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n")
    site.close()

    assert answer.endswith("\r\n\r\n" + "." * 13)


def test_both_ends_of_a_tunnel_may_send_without_reading(tmp_path: Path) -> None:
    much = b"x" * 8_000_000

    def sends(client: socket.socket) -> None:
        client.sendall(much)
        while client.recv(65_536):
            pass

    site = Site({"*": sends})
    with proxied(tmp_path, site) as proxy, socket.socket(socket.AF_UNIX) as client:
        client.connect(proxy.path)
        client.settimeout(20)
        client.sendall(b"CONNECT pub.test:443 HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n")
        head = client.recv(39)
        sending = threading.Thread(target=client.sendall, args=(much,))
        sending.start()
        got = len(head)
        while got < 39 + len(much):
            got += len(client.recv(65_536))
        sending.join(20)

    assert (got, sending.is_alive()) == (39 + len(much), False)
    site.close()


def test_closing_ends_what_is_under_way(tmp_path: Path) -> None:
    begun, ended = threading.Event(), threading.Event()

    def waits(client: socket.socket) -> None:
        begun.set()
        client.recv(1)
        ended.set()

    site = Site({"*": waits})
    with proxied(tmp_path, site) as proxy, socket.socket(socket.AF_UNIX) as client:
        client.connect(proxy.path)
        client.sendall(b"CONNECT pub.test:443 HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n")
        assert begun.wait(10)
        proxy.close()
        while client.recv(999):
            pass

        assert ended.wait(10)
        assert not Path(proxy.path).exists()
        with pytest.raises(OSError, match="No such file"):
            said(proxy, "x")
    site.close()


def test_a_connection_that_comes_too_late_is_ended(tmp_path: Path, site: Site) -> None:
    with proxied(tmp_path, site) as proxy:
        one, other = socket.socketpair()
        proxy.close()
        proxy._serve(one, 0)  # noqa: SLF001  what was accepted just before

        with other:
            assert other.recv(9) == b""


def test_a_moment_without_descriptors_does_not_end_it(tmp_path: Path, site: Site) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with proxied(tmp_path, site) as proxy, ExitStack() as stack:
        clients = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            for client in clients:  # for the first, a descriptor may be reserved already
                client.connect(proxy.path)
                client.settimeout(10)
                client.sendall(b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n")
            while _busy_in(proxy) != "_accept":
                os.sched_yield()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        answers = [client.recv(22) for client in clients]

    assert answers == [b"HTTP/1.1 403 Forbidden"] * 2


def _busy_in(proxy: Proxy) -> str:
    """The function that the accepting thread is in: of the socket, or our own while it pauses."""
    ident = proxy._accepting.ident  # noqa: SLF001
    return sys._current_frames()[ident or 0].f_code.co_name  # noqa: SLF001


def test_slow_clients_hold_up_only_their_own_command(tmp_path: Path, site: Site) -> None:
    code = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        "s.settimeout(5); s.sendall(b'CONNECT evil.test:443 HTTP/1.1\\r\\n\\r\\n'); print(s.recv(22))"
    )
    with proxied(tmp_path, site) as proxy, ExitStack() as stack:
        clients = [
            stack.enter_context(socket.socket(socket.AF_UNIX))
            for _ in range(_places.MAX_CONNECTIONS + _places.MAX_WAITING + 1)
        ]
        for client in clients:
            client.connect(proxy.path)  # without a timeout, it waits while the queue is full
            client.settimeout(10)
        last = clients[-1].recv(9)  # it was one too many, and all before it have their places
        words = [sys.executable, "-c", code, proxy.path]
        other = subprocess.run(words, capture_output=True, check=False)  # noqa: S603
        waiting = clients[_places.MAX_CONNECTIONS]
        waiting.sendall(b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n")
        clients[0].close()
        served = waiting.recv(22)

    assert (last, other.stdout, served) == (
        b"",
        b"b'HTTP/1.1 403 Forbidden'\n",
        b"HTTP/1.1 403 Forbidden",
    )


def test_the_socket_is_for_its_owner_alone(tmp_path: Path, site: Site) -> None:
    with proxied(tmp_path, site) as proxy:
        path = Path(proxy.path)

        assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    tmp_path.chmod(0o755)
    with pytest.raises(HandrailError, match="must belong to this user, with mode 0700"):
        Proxy([], directory=tmp_path)


def test_a_socket_that_is_there_already_is_not_taken(tmp_path: Path, site: Site) -> None:
    with proxied(tmp_path, site), pytest.raises(OSError, match="in use"):
        Proxy([], directory=tmp_path / "p")


def test_an_empty_list_allows_nothing(tmp_path: Path, site: Site) -> None:
    with proxied(tmp_path, site, []) as proxy:
        told = short(said(proxy, "CONNECT pub.test:443 HTTP/1.1\r\n\r\n"))

    assert told.startswith("403 Forbidden")


@pytest.mark.parametrize(
    "host", ["*", "*.", "*.org", "*example.org", "a.*.org", "*.10.0.0.1", "http://a.org", "a b", ""]
)
def test_a_list_has_exact_names_or_a_star_before_one(host: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Proxy([host], directory=tmp_path / "p")


def test_programs_are_told_where_it_is() -> None:
    assert proxy_variables(8080) == snapshot(
        {
            "http_proxy": "http://127.0.0.1:8080",
            "HTTP_PROXY": "http://127.0.0.1:8080",
            "https_proxy": "http://127.0.0.1:8080",
            "HTTPS_PROXY": "http://127.0.0.1:8080",
            "all_proxy": "http://127.0.0.1:8080",
            "ALL_PROXY": "http://127.0.0.1:8080",
            "no_proxy": "localhost,127.0.0.1,::1",
            "NO_PROXY": "localhost,127.0.0.1,::1",
        }
    )


def test_by_default_it_connects_for_itself(tmp_path: Path, site: Site) -> None:
    guard = Guard(networks=("127.0.0.0/8",), ports=frozenset({site.port}))
    with Proxy(["127.0.0.1"], directory=tmp_path / "p", guard=guard) as proxy:
        told = short(said(proxy, f"GET http://127.0.0.1:{site.port}/ HTTP/1.1\r\n\r\n"))

    assert told == "200 OK: hello"


def test_a_proxy_keeps_the_first_hosts_that_it_refused(tmp_path: Path, site: Site) -> None:
    hosts = [f"h{number}.test" for number in range(101)]
    with proxied(tmp_path, site) as proxy:
        for host in ("pub.test", *hosts, hosts[0]):
            said(proxy, f"GET http://{host}/ HTTP/1.1\r\n\r\n")

        assert proxy.refused == tuple(hosts[:100])
