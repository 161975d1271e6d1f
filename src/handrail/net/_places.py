"""Slots for a proxy's clients: each command has its own."""

from __future__ import annotations

import socket
import struct
import threading
from collections import Counter, deque

MAX_CONNECTIONS = 32
"""Connections served at a time for one command."""
MAX_WAITING = 64
"""More connections waiting for their turn in one command. The rest are closed."""
_CREDENTIALS = struct.Struct("3i")


def find_peer(client: socket.socket) -> int:
    """Return the id of the connecting process. A command in a sandbox has one bridge."""
    size = _CREDENTIALS.size
    peer: int
    peer, *_ = _CREDENTIALS.unpack(client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return peer


class Places:
    """The served and the waiting clients, by command. Slow clients hold up only their own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._served: Counter[int] = Counter()
        self._waiting: dict[int, deque[socket.socket]] = {}

    def enter(self, command: int, client: socket.socket) -> bool:
        """Return whether to serve a client now. If not, it waits, or is closed."""
        with self._lock:
            if self._served[command] < MAX_CONNECTIONS:
                self._served[command] += 1
                return True
            waiting = self._waiting.setdefault(command, deque())
            if len(waiting) < MAX_WAITING:
                waiting.append(client)
                return False
        client.close()
        return False

    def leave(self, command: int) -> socket.socket | None:
        """Return the next client for the place, or None: the place is free."""
        with self._lock:
            if waiting := self._waiting.get(command):
                return waiting.popleft()
            self._waiting.pop(command, None)
            self._served[command] -= 1
            if not self._served[command]:
                del self._served[command]
            return None
