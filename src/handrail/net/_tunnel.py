"""Carrying bytes between two sockets until both have said all."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress

_PIECE = 65_536


def carry(one: socket.socket, other: socket.socket, *, idle: float) -> None:
    """Carry both ways, until both ends are done, one breaks, or nothing has come for a while.

    Each way has its thread: an end that sends and does not read must not keep the other waiting.
    """
    tunnel = _Tunnel(idle)
    for end in (one, other):
        end.settimeout(idle)
    back = threading.Thread(target=tunnel.carry, args=(other, one), daemon=True)
    back.start()
    tunnel.carry(one, other)
    back.join()


class _Tunnel:
    """Two ways that know of each other when something last came."""

    def __init__(self, idle: float) -> None:
        self._idle = idle
        self._came = time.monotonic()

    def carry(self, source: socket.socket, target: socket.socket) -> None:
        """Carry one way."""
        with suppress(OSError):
            while piece := self._received(source):
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)
            return
        for end in (source, target):
            with suppress(OSError):  # it may be gone already
                end.shutdown(socket.SHUT_RDWR)

    def _received(self, source: socket.socket) -> bytes:
        while True:
            try:
                piece = source.recv(_PIECE)
            except TimeoutError:
                if time.monotonic() - self._came >= self._idle:
                    raise
            else:
                self._came = time.monotonic()
                return piece


def pass_on(source: socket.socket, target: socket.socket, count: int) -> None:
    """So many bytes, one way."""
    while count:
        piece = source.recv(min(count, _PIECE))
        if not piece:
            raise ConnectionError("the body is shorter than was said")
        target.sendall(piece)
        count -= len(piece)
