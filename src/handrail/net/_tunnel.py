"""Forwards bytes between two sockets until both have finished."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress

_CHUNK_BYTES = 65_536


def carry(first: socket.socket, second: socket.socket, *, idle: float) -> None:
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


def forward_bytes(source: socket.socket, target: socket.socket, count: int) -> None:
    """Forward some bytes, one way."""
    while count:
        piece = source.recv(min(count, _CHUNK_BYTES))
        if not piece:
            raise ConnectionError("The body is shorter than its Content-Length.")
        target.sendall(piece)
        count -= len(piece)
