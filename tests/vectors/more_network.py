"""More answers of servers that mislead, and clients that block others."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from handrail import Call, Executor, Result, Toolset
from handrail.net import Guard, Proxy
from handrail.policy import Rulebook
from handrail.tools import web_fetch
from net.web_stage import Script, Web, names, packed, redirect, reply
from vectors.ssrf import check_then_get
from vectors.stage import Check, rules

REQUEST = b"CONNECT example.org:443 HTTP/1.1\r\n\r\n"
ALLOW = '[[rule]]\ndecide = "allow"\naccess = "write net:pub.test:80/**"\n'
DENY = '[[rule]]\ndecide = "deny"\naccess = "* net:pub.test:80/admin/**"\n'


def _fetch(scripts: Mapping[str, Script], path: str, *, judged: bool) -> Result:
    """What a model gets; the control checks the first address, and follows."""

    async def run() -> Result:
        with Web(scripts) as web:
            options = web.options()
            options["guard"] = Guard(resolver=names, ports=frozenset((80, 443, 8080)))
            made = (web_fetch if judged else check_then_get)(**options)
            policy = Rulebook(rules(ALLOW + DENY), mode="ask") if judged else None
            async with Executor(Toolset(made), policy=policy) as executor:
                url = f"http://pub.test{path}"
                return await executor.run(Call("web_fetch", {"url": url}, "1"))

    return anyio.run(run)


def _redirected(target: str, _given: Any, _root: Path, *, judged: bool) -> bool:
    scripts = {"/open": redirect(target, Connection="close"), "*": reply(b"SECRET")}
    assert "SECRET" in _fetch(scripts, "/other", judged=judged).text
    assert not judged or "SECRET" not in _fetch(scripts, "/admin/secret", judged=judged).text
    return "SECRET" not in _fetch(scripts, "/open", judged=judged).text


def _cut(_given: Any, _root: Path, *, judged: bool) -> bool:
    cut = reply(packed(b"all of it")[:-9], Content_Encoding="gzip")
    result = _fetch({"*": cut}, "/cut", judged=judged)
    return "incomplete" in result.text


class Naive:
    """The control: an accept loop that an error ends, and places that all clients share."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "naive.sock")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(128)
        self._places = threading.Semaphore(64)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        try:
            while True:
                self._places.acquire()
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()
        except OSError:
            return

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head and (piece := client.recv(1_000)):
                head += piece
            client.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
        self._places.release()


@contextmanager
def _served(folder: Path, *, judged: bool) -> Iterator[tuple[str, threading.Thread]]:
    """The path of a proxy that allows nothing, and the thread that accepts."""
    before = set(threading.enumerate())
    made = (
        Proxy([], directory=folder / "p", guard=Guard(resolver=names)) if judged else Naive(folder)
    )
    [accepting] = set(threading.enumerate()) - before
    try:
        yield made.path, accepting
    finally:
        made.close()


def _answered(client: socket.socket, *, judged: bool) -> bool:
    client.settimeout(10 if judged else 0.5)
    try:
        return client.recv(22) == b"HTTP/1.1 403 Forbidden"
    except TimeoutError:
        return False


def _without_descriptors(_given: Any, root: Path, *, judged: bool) -> bool:
    """It answers whoever came while none was left."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with _served(root.parent, judged=judged) as (path, accepting), ExitStack() as stack:
        clients = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(3)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            for client in clients:  # for the first, a descriptor may be reserved already
                client.connect(path)
                client.sendall(REQUEST)
            while accepting.is_alive() and _function(accepting) != "_accept":
                os.sched_yield()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return all(_answered(client, judged=judged) for client in clients)


def _function(thread: threading.Thread) -> str:
    """The one that a thread is in: ``accept`` of the socket, or that around it while it pauses."""
    return sys._current_frames()[thread.ident or 0].f_code.co_name  # noqa: SLF001


SLOW = """
import socket, sys
some = [socket.socket(socket.AF_UNIX) for _ in range(64)]
for one in some:
    one.connect(sys.argv[1])
    one.sendall(b"C")
print(flush=True)
sys.stdin.read()
"""


def _slow_clients(_given: Any, root: Path, *, judged: bool) -> bool:
    """Another command is answered soon, though one has taken all places that it can take."""
    with (
        _served(root.parent, judged=judged) as (path, _),
        subprocess.Popen(  # noqa: S603  our own interpreter
            [sys.executable, "-I", "-S", "-c", SLOW, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as slow,
        socket.socket(socket.AF_UNIX) as client,
    ):
        assert slow.stdin is not None
        assert slow.stdout is not None
        slow.stdout.readline()
        client.connect(path)
        client.sendall(REQUEST)
        try:
            return _answered(client, judged=judged)
        finally:
            slow.stdin.close()


CHECKS: dict[str, Check] = {
    "t3-fetch-001": partial(_redirected, "/admin/secret"),
    "t3-fetch-002": partial(_redirected, "http://pub.test:8080/"),
    "t3-fetch-003": _cut,
    "t3-proxy-001": _without_descriptors,
    "t3-proxy-002": _slow_clients,
}
