"""A way out for a sandbox: an HTTP proxy on a UNIX socket that knows which hosts are allowed.

It runs in threads of its own with blocking sockets, so that no event loop has to be alive for it.
"""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from handrail import HandrailError, Refused, ToolFailed, Transient
from handrail.net._guard import Guard
from handrail.net._hosts import canonical, literal, shown
from handrail.net._request import Bad, Request, read_head, read_request
from handrail.net._tunnel import carry, pass_on

Connect: TypeAlias = Callable[[str, int], socket.socket]
"""Connects to a literal address and a port."""

MOST_CONNECTIONS = 64
_HEAD_WITHIN = 10.0
_CONNECT_WITHIN = 10.0
_IDLE = 120.0
_MOST_TRIES = 4
_PIECE = 65_536


def dial(address: str, port: int) -> socket.socket:
    """Connect to an address, within ten seconds."""
    return socket.create_connection((address, port), _CONNECT_WITHIN)


class Allowed:
    """Host names that may be reached. Exact ones, and by ``*.example.org`` all names below one."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._exact = frozenset(_listed(one) for one in hosts if not one.startswith("*"))
        self._below = tuple(_below(one) for one in hosts if one.startswith("*"))

    def __contains__(self, host: str) -> bool:
        """Whether a canonical host is listed. An address is only listed as itself."""
        if host in self._exact:
            return True
        return literal(host) is None and host.endswith(self._below)


def _below(pattern: str) -> str:
    """The end that all names have that a pattern means."""
    name = _listed(pattern[2:]) if pattern.startswith("*.") else ""
    if "." not in name or literal(name) is not None:
        raise ValueError(f"{pattern!r} cannot be allowed: a star stands as in *.example.org")
    return f".{name}"


def _listed(host: str) -> str:
    try:
        return canonical(host)
    except ToolFailed as error:
        raise ValueError(f"{host!r} cannot be allowed: {error}") from None


class Proxy:
    """Serves from when it is made until ``close``. An empty list allows nothing.

    The socket is at ``path``, in a directory that nobody else may enter.
    """

    def __init__(
        self,
        allowed: Sequence[str],
        *,
        directory: str | os.PathLike[str],
        guard: Guard = Guard(),  # noqa: B008  a frozen value
        connect: Connect = dial,
    ) -> None:
        self._allowed = Allowed(allowed)
        self._guard = guard
        self._connect = connect
        self._places = threading.Semaphore(MOST_CONNECTIONS)
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        _private(Path(directory))
        self.path = str(Path(directory) / "proxy.sock")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with ExitStack() as undo:
            undo.callback(self._listener.close)
            self._listener.bind(self.path)
            Path(self.path).chmod(0o600)
            self._listener.listen(MOST_CONNECTIONS)
            undo.pop_all()
        self._accepting = threading.Thread(target=self._accept, daemon=True, name="handrail-proxy")
        self._accepting.start()

    def close(self) -> None:
        """Stop serving, and end what is under way."""
        with self._lock:
            self._closed = True
            open_now = list(self._open)
        for one in (self._listener, *open_now):
            with suppress(OSError):  # it may be gone already
                one.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()
        Path(self.path).unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            self._places.acquire()
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            with suppress(OSError), self._kept(client):
                self._answer(client)
        finally:
            self._places.release()

    def _answer(self, client: socket.socket) -> None:
        try:
            head, rest = read_head(client, _HEAD_WITHIN)
            request = read_request(head)
            far = self._reached(request)
        except Bad as error:
            client.sendall(_refusal(error))
            return
        with self._kept(far):
            client.settimeout(_IDLE)
            if request.head:
                _exchange(client, far, request, rest)
            else:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                far.sendall(rest)
                carry(client, far, idle=_IDLE)

    def _reached(self, request: Request) -> socket.socket:
        """A connection to where a request goes, if it may go there."""
        host, port = request.host, request.port
        if host not in self._allowed:
            raise Bad("403 Forbidden", f"{shown(host)} is not among the hosts that may be reached")
        try:
            addresses = self._guard.find(host, port)
        except Refused as error:
            raise Bad("403 Forbidden", str(error)) from None
        except (ToolFailed, Transient) as error:
            raise Bad("502 Bad Gateway", str(error)) from None
        for address in addresses[:_MOST_TRIES]:
            with suppress(OSError):
                return self._connect(address, port)
        raise Bad("502 Bad Gateway", f"{shown(host)} does not answer")

    @contextmanager
    def _kept(self, one: socket.socket) -> Generator[None]:
        """Close a socket in the end; until then, ``close`` of the proxy ends it."""
        with one:
            with self._lock:
                if self._closed:
                    raise ConnectionError("the proxy is closed")
                self._open.add(one)
            try:
                yield
            finally:
                with self._lock:
                    self._open.discard(one)


def _exchange(client: socket.socket, far: socket.socket, request: Request, rest: bytes) -> None:
    """One request, one answer. What a client sends beyond its body is dropped, not passed on."""
    far.settimeout(_IDLE)
    first = rest[: request.body]
    far.sendall(request.head + first)
    pass_on(client, far, request.body - len(first))
    while piece := far.recv(_PIECE):
        client.sendall(piece)


def _refusal(error: Bad) -> bytes:
    words = f"handrail: {str(error).rstrip('.')}.\n".encode("ascii", "replace")
    head = f"HTTP/1.1 {error.status}\r\nContent-Type: text/plain\r\nContent-Length: {len(words)}"
    return f"{head}\r\nConnection: close\r\n\r\n".encode("ascii") + words


def _private(directory: Path) -> None:
    """Make a directory that nobody else may enter, or make sure that it is one."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = directory.stat()
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise HandrailError("the proxy needs a directory that nobody else may enter (mode 0700)")


def bridge() -> str:
    """The source of the program that carries from inside a sandbox to the proxy.

    Run it there as ``python3 -I -S -c SOURCE PATH PORT FILTER COMMAND...``.
    """
    source = Path(__file__).with_name("_bridge.py").read_text(encoding="utf-8")
    return f"{source}\n\nimport sys\n\nmain(*sys.argv[1:])\n"


def variables(port: int) -> dict[str, str]:
    """What tells programs in a sandbox to go through the bridge at a port."""
    place = f"http://127.0.0.1:{port}"
    names = ("http_proxy", "https_proxy", "all_proxy")
    return {one: place for name in names for one in (name, name.upper())} | {"no_proxy": ""}
