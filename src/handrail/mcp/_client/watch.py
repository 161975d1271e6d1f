"""Watch: what a transport notices about its connection, for the connection's owner."""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio

MAX_TAIL_BYTES = 4096
"""Bytes of a server's last words that are kept."""


@dataclass(slots=True, kw_only=True)
class Watch:
    """Notes of a transport. Each connection has its own."""

    lost: anyio.Event = field(default_factory=anyio.Event)
    """Set when the connection has ended, or its session."""
    changed: anyio.Event = field(default_factory=anyio.Event)
    """Set when the server says that its tools have changed."""
    over: anyio.Event = field(default_factory=anyio.Event)
    """Set when the owner knows why the connection ended."""
    why: str = ""
    """Why the connection ended, if that is known."""
    expired: bool = False
    """Whether the server has forgotten the session, so that a request was not served."""
    needs_login: bool = False
    """Whether the server refused a request for want of a login."""
    challenge: str = ""
    """What the server said about the login."""
    noise: int = 0
    """Lines that were no messages."""
    tail: bytes = b""
    """The end of what the server wrote to its standard error."""

    def end(self, why: str = "") -> None:
        """Note that the connection has ended. The first reason counts."""
        self.why = self.why or why
        self.lost.set()

    def take_errors(self, written: bytes) -> None:
        """Keep the end of what the server wrote to its standard error."""
        if written:
            self.tail = (self.tail + written)[-MAX_TAIL_BYTES:]
