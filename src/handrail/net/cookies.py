"""Text signatures, and cookies a browser stores and cannot change."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

_SKEW_SECONDS = 30.0
"""Clocks differ between machines sharing a key."""


def sign(key: bytes, purpose: str, *parts: str) -> str:
    """Return a signature for texts. Texts divided otherwise have another one."""
    text = json.dumps([purpose, *parts]).encode("ascii")
    return base64.urlsafe_b64encode(hmac.digest(key, text, hashlib.sha256)).decode().rstrip("=")


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedCookie:
    """A cookie with texts, signed together with its name and the time at which it was made.

    Who has the browser can read the texts.
    """

    name: str
    path: str
    key: bytes = field(repr=False)
    clock: Callable[[], float]
    seconds: float
    """How long it is valid, whatever the browser says."""
    attributes: str = "HttpOnly; SameSite=Strict"

    def make(self, *texts: str) -> str:
        """Return the header to set it."""
        made = json.dumps([int(self.clock()), *texts]).encode("ascii")
        body = base64.urlsafe_b64encode(made).decode()
        return self._header(f"{body}.{sign(self.key, 'cookie', self.name, body)}")

    def end(self) -> str:
        """Return the header to remove it from the browser."""
        return f"{self._header('')}; Max-Age=0"

    def read(self, cookies: Mapping[str, str]) -> list[str]:
        """Return its texts, or none if it is missing, not ours, or too old."""
        body, _, mac = cookies.get(self.name, "").rpartition(".")
        wanted = sign(self.key, "cookie", self.name, body)
        if not hmac.compare_digest(mac.encode(), wanted.encode()):
            return []
        made, *texts = json.loads(base64.urlsafe_b64decode(body))
        return texts if -_SKEW_SECONDS <= self.clock() - made < self.seconds else []

    def _header(self, value: str) -> str:
        return f"{self.name}={value}; Path={self.path}; {self.attributes}"
