"""Sign pending calls, to store them anywhere and detect every change.

Anyone can read the signed text. Only someone with the key can make or change one. Approving a
changed request would approve a call no one saw.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence

from handrail import HandrailError
from handrail.permissions import Pending

_VERSION = "handrail-pending-1"
_MIN_KEY_BYTES = 32


class Tampered(HandrailError):
    """A signed text was changed, or signed with another key."""


def sign_pending(pending: Pending, key: bytes) -> str:
    """Return a pending call as URL-safe signed text. The key must have at least 32 bytes.

    The text is signed, not encrypted. Raises ValueError if JSON cannot represent the call.
    """
    _check(key)
    body = pending.to_json()
    if Pending.from_json(body) != pending:
        raise ValueError("Cannot sign this pending call: JSON cannot represent it exactly.")
    head = f"{_VERSION}.{_text(_bytes(body))}"
    return f"{head}.{_signature(head, key)}"


def verify_pending(token: str, key: bytes | Sequence[bytes]) -> Pending:
    """Return the pending call signed with this key. Raises Tampered for other text.

    Pass several keys while you change keys: one of them must have signed it.
    """
    keys = [key] if isinstance(key, bytes) else list(key)
    for one in keys:
        _check(one)
    head, _, signature = token.rpartition(".")
    made = [_signature(head, one) for one in keys]
    if not any(hmac.compare_digest(_bytes(one), _bytes(signature)) for one in made):
        raise Tampered(
            "The signature does not match: the text was changed, or signed with another key."
        )
    version, _, body = head.partition(".")
    if version != _VERSION:
        raise Tampered("The text was signed by a version of handrail with another format.")
    try:
        padded = body + "=" * (-len(body) % 4)
        return Pending.from_json(base64.b64decode(padded, b"-_", validate=True).decode())
    except ValueError:
        raise Tampered("The signed text is not a pending call.") from None


def _check(key: bytes) -> None:
    if len(key) < _MIN_KEY_BYTES:
        raise ValueError(
            f"The key must have at least {_MIN_KEY_BYTES} bytes, got {len(key)}. "
            "Make one with `secrets.token_bytes()`."
        )


def _signature(head: str, key: bytes) -> str:
    return _text(hmac.new(key, _bytes(head), hashlib.sha256).digest())


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
