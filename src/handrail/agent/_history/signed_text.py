"""Sign saved states, so they can be stored anywhere and cannot be changed."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence

from handrail.approvals import Tampered

_VERSION = "handrail-state-1"
_MIN_KEY_BYTES = 32


def sign_text(text: str, key: bytes) -> str:
    """Return a text after its signature. Anyone can read it."""
    return f"{_VERSION}.{_sign(text, key)}.{text}"


def is_signed(text: str) -> bool:
    """Return whether a text begins like one from ``sign_text``."""
    return text.startswith(f"{_VERSION}.")


def verify_text(signed: str, keys: bytes | Sequence[bytes]) -> str:
    """Return a text signed with any given key. Raises Tampered for any other."""
    if not is_signed(signed):
        raise Tampered("The state is not signed, and a key was passed: only a signed one is read.")
    _, signature, text = [*signed.split(".", 2), ""][:3]
    several = [keys] if isinstance(keys, bytes) else list(keys)
    made = [_encode(_sign(text, key)) for key in several]
    if not any(hmac.compare_digest(one, _encode(signature)) for one in made):
        raise Tampered(
            "The signature of the state does not match: it was changed, or signed with another key."
        )
    return text


def _sign(text: str, key: bytes) -> str:
    if len(key) < _MIN_KEY_BYTES:
        raise ValueError(
            f"The key must have at least {_MIN_KEY_BYTES} bytes, got {len(key)}. "
            "Make one with `secrets.token_bytes()`."
        )
    digest = hmac.new(key, _encode(f"{_VERSION}.{text}"), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
