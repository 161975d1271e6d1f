"""HTTP proxy on a UNIX socket, connecting a sandbox to the allowed hosts.

It runs in its own threads with blocking sockets, and needs no event loop.
"""

from __future__ import annotations

import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Self, TypeAlias
from weakref import WeakSet

from handrail import HandrailError, Refused, ToolFailed, Transient
from handrail.net._guard import Guard
from handrail.net._hosts import display_host, normalize_host, parse_address
from handrail.net._places import Places, find_peer
from handrail.net._request import BadRequest, ProxyRequest, read_head, read_request

Connect: TypeAlias = Callable[[str, int], socket.socket]
"""Connects to a literal address and a port."""

_BACKLOG = 64
_DEFAULT_GUARD = Guard()
_ACCEPT_PAUSE_SECONDS = 0.05
_HEAD_SECONDS = 10.0
_CONNECT_SECONDS = 10.0
_IDLE_SECONDS = 120.0
_MAX_ADDRESSES = 4
_CHUNK_BYTES = 65_536
_MAX_REFUSED = 100
"""Maximum stored rejected hosts."""


def dial(address: str, port: int) -> socket.socket:
    """Connect to an address, within ten seconds."""
    return socket.create_connection((address, port), _CONNECT_SECONDS)


class AllowedHosts:
    """The reachable hosts: exact names, or ``*.example.org`` for all its subdomains."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._exact = frozenset(
            _canonical_entry(host) for host in hosts if not host.startswith("*")
        )
        self._below = tuple(_suffix_of(host) for host in hosts if host.startswith("*"))

    def __contains__(self, host: str) -> bool:
        """Return whether a normalized host is allowed. Patterns never match an address."""
        if host in self._exact:
            return True
        return parse_address(host) is None and host.endswith(self._below)


def _suffix_of(pattern: str) -> str:
    """Return the common suffix of all names matching a pattern."""
    name = _canonical_entry(pattern[2:]) if pattern.startswith("*.") else ""
    if "." not in name or parse_address(name) is not None:
        raise ValueError(f"The host {pattern!r} is not valid. Write a pattern as *.example.org.")
    return f".{name}"


def _canonical_entry(host: str) -> str:
    try:
        return normalize_host(host)
    except ToolFailed as error:
        raise ValueError(f"The host {host!r} is not valid. {error}") from None


class Proxy:
    """A proxy serving until ``close``. An empty list allows no host.

    ``allowed`` has the reachable hosts. The socket is at ``path``, in a directory only this user
    can enter. ``name`` is its file name.
    """

    def __init__(
        self,
        allowed: Sequence[str],
        *,
        directory: str | os.PathLike[str],
        guard: Guard = _DEFAULT_GUARD,
        connect: Connect = dial,
        name: str = "proxy.sock",
    ) -> None:
        self.allowed = tuple(allowed)
        self.guard = guard
        self._allowed = AllowedHosts(allowed)
        self._connect = connect
        self._names = (f"{number}-{name}" for number in count(1))
        """Socket names for further proxies."""
        self._further: WeakSet[Proxy] = WeakSet()
        self._refused: dict[str, None] = {}
        self._places = Places()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        _make_private(Path(directory))
        self.path = str(Path(directory) / name)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with ExitStack() as undo:
            undo.callback(self._listener.close)
            self._listener.bind(self.path)
            Path(self.path).chmod(0o600)
            self._listener.listen(_BACKLOG)
            undo.pop_all()
        self._accepting = threading.Thread(target=self._accept, daemon=True, name="handrail-proxy")
        self._accepting.start()

    @property
    def refused(self) -> tuple[str, ...]:
        """The hosts clients asked for without permission."""
        with self._lock:
            return tuple(self._refused)

    def with_hosts(self, hosts: Sequence[str]) -> Proxy:
        """Return a further proxy also allowing these hosts, until it or this one is closed.

        Its socket is in the same directory, and it has the same guard.
        """
        with self._lock:
            if self._closed:
                raise HandrailError("The proxy is closed.")
            further = Proxy(
                (*self.allowed, *hosts),
                directory=Path(self.path).parent,
                guard=self.guard,
                connect=self._connect,
                name=next(self._names),
            )
            self._further.add(further)
        return further

    def find_closed(self, hosts: Sequence[str]) -> list[str]:
        """Return those of these hosts not yet allowed, normalized and each once.

        Raises ToolFailed or Refused for a host the guard would always reject.
        """
        port = min(self.guard.ports)
        normal = dict.fromkeys(self.guard.check(host, port) for host in hosts)
        return [host for host in normal if host not in self._allowed]

    def close(self) -> None:
        """Stop serving, and close open connections."""
        with self._lock:
            self._closed = True
            open_now, further = list(self._open), list(self._further)
        for proxy in further:
            proxy.close()
        for sock in (self._listener, *open_now):
            with suppress(OSError):  # it may be closed already
                sock.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()
        Path(self.path).unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed, or there is no free file descriptor for the moment
                time.sleep(0.0 if self._closed else _ACCEPT_PAUSE_SECONDS)
                continue
            command = find_peer(client)
            if self._places.enter(command, client):
                threading.Thread(target=self._serve, args=(client, command), daemon=True).start()

    def _serve(self, client: socket.socket, command: int) -> None:
        """Serve a client, and then the same command's waiting ones."""
        serving: socket.socket | None = client
        while serving is not None:
            with suppress(OSError), self._track(serving):
                self._answer(serving)
            serving = self._places.leave(command)

    def _answer(self, client: socket.socket) -> None:
        try:
            head, rest = read_head(client, _HEAD_SECONDS)
            request = read_request(head)
            upstream = self._connect_to(request)
        except BadRequest as error:
            client.sendall(_refusal(error))
            return
        with self._track(upstream):
            client.settimeout(_IDLE_SECONDS)
            if request.head:
                _exchange(client, upstream, request, rest)
            else:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                upstream.sendall(rest)
                _carry(client, upstream, idle=_IDLE_SECONDS)

    def _connect_to(self, request: ProxyRequest) -> socket.socket:
        """Connect to a request's target, if allowed."""
        host, port = request.host, request.port
        if host not in self._allowed:
            with self._lock:
                if len(self._refused) < _MAX_REFUSED:
                    self._refused[host] = None
            raise BadRequest("403 Forbidden", f"{display_host(host)} is not an allowed host")
        try:
            addresses = self.guard.find(host, port)
        except Refused as error:
            raise BadRequest("403 Forbidden", str(error)) from None
        except (ToolFailed, Transient) as error:
            raise BadRequest("502 Bad Gateway", str(error)) from None
        for address in addresses[:_MAX_ADDRESSES]:
            with suppress(OSError):
                return self._connect(address, port)
        raise BadRequest("502 Bad Gateway", f"{display_host(host)} does not respond")

    @contextmanager
    def _track(self, sock: socket.socket) -> Generator[None]:
        """Close a socket in the end, or earlier if the proxy is closed."""
        with sock:
            with self._lock:
                if self._closed:
                    raise ConnectionError("The proxy is closed.")
                self._open.add(sock)
            try:
                yield
            finally:
                with self._lock:
                    self._open.discard(sock)


def _exchange(
    client: socket.socket, upstream: socket.socket, request: ProxyRequest, rest: bytes
) -> None:
    """Forward one request and its response. Bytes after the body are dropped."""
    upstream.settimeout(_IDLE_SECONDS)
    first = rest[: request.body]
    upstream.sendall(request.head + first)
    _forward_bytes(client, upstream, request.body - len(first))
    while piece := upstream.recv(_CHUNK_BYTES):
        client.sendall(piece)


def _refusal(error: BadRequest) -> bytes:
    text = f"handrail: {str(error).rstrip('.')}.\n".encode("ascii", "replace")
    head = f"HTTP/1.1 {error.status}\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}"
    return f"{head}\r\nConnection: close\r\n\r\n".encode("ascii") + text


def _make_private(directory: Path) -> None:
    """Create a directory only this user can enter, or check it."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = directory.stat()
    if about.st_uid != os.geteuid() or stat.S_IMODE(about.st_mode) & 0o077:
        raise HandrailError(
            f"The proxy's directory {directory} must belong to this user, with mode 0700."
        )


def bridge() -> str:
    """Return the source of the program forwarding from inside a sandbox to the proxy.

    Run it there as ``python3 -I -S -c SOURCE PATH PORT FILTER COMMAND...``.
    """
    source = Path(__file__).with_name("_bridge.py").read_text(encoding="utf-8")
    return f"{source}\n\nimport sys\n\nmain(*sys.argv[1:])\n"


def proxy_variables(port: int) -> dict[str, str]:
    """Return the variables to make programs in a sandbox use the bridge at a port.

    They reach each other directly: the proxy allows no local host.
    """
    place = f"http://127.0.0.1:{port}"
    names = ("http_proxy", "https_proxy", "all_proxy")
    lower, upper = dict.fromkeys(names, place), dict.fromkeys(map(str.upper, names), place)
    return lower | upper | dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1,::1")


def _carry(first: socket.socket, second: socket.socket, *, idle: float) -> None:
    """Forward both ways, until both ends finish, one breaks, or the connection is idle.

    Each direction has its own thread: an end that only sends must not block the other.
    """
    tunnel = _Tunnel(idle)
    for end in (first, second):
        end.settimeout(idle)
    back = threading.Thread(target=tunnel.carry, args=(second, first), daemon=True)
    back.start()
    tunnel.carry(first, second)
    back.join()


class _Tunnel:
    """Two directions sharing the last activity's time."""

    def __init__(self, idle: float) -> None:
        self._idle = idle
        self._last_received = time.monotonic()

    def carry(self, source: socket.socket, target: socket.socket) -> None:
        """Forward one way."""
        with suppress(OSError):
            while piece := self._receive(source):
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)
            return
        for end in (source, target):
            with suppress(OSError):  # it may be gone already
                end.shutdown(socket.SHUT_RDWR)

    def _receive(self, source: socket.socket) -> bytes:
        while True:
            try:
                piece = source.recv(_CHUNK_BYTES)
            except TimeoutError:
                if time.monotonic() - self._last_received >= self._idle:
                    raise
            else:
                self._last_received = time.monotonic()
                return piece


def _forward_bytes(source: socket.socket, target: socket.socket, count: int) -> None:
    """Forward some bytes, one way."""
    while count:
        piece = source.recv(min(count, _CHUNK_BYTES))
        if not piece:
            raise ConnectionError("The body is shorter than its Content-Length.")
        target.sendall(piece)
        count -= len(piece)
