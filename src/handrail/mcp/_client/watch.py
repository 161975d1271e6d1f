"""Watch: what a transport notices about its connection, for the connection's owner."""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio

MAX_TAIL_BYTES = 4096
"""Bytes stored from a server's last output."""


@dataclass(slots=True, kw_only=True)
class Watch:
    """A transport's notes. Each connection has its own."""

    lost: anyio.Event = field(default_factory=anyio.Event)
    """Set when the connection has ended, or its session."""
    changed: anyio.Event = field(default_factory=anyio.Event)
    """Set when the server reports changed tools."""
    over: anyio.Event = field(default_factory=anyio.Event)
    """Set when the owner knows why the connection ended."""
    why: str = ""
    """Why the connection ended, if known."""
    expired: bool = False
    """Whether the server has forgotten the session and left a request unserved."""
    needs_login: bool = False
    """Whether the server rejected a request for want of a login."""
    challenge: str = ""
    """What the server said about the login."""
    noise: int = 0
    """Lines without a message."""
    tail: bytes = b""
    """The last part of the server's standard error."""

    def end(self, why: str = "") -> None:
        """Record the end of the connection. The first reason is kept."""
        self.why = self.why or why
        self.lost.set()

    def take_errors(self, written: bytes) -> None:
        """Store the last part of the server's standard error."""
        if written:
            self.tail = (self.tail + written)[-MAX_TAIL_BYTES:]
