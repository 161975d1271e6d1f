"""Name a run or a request in an address."""

from __future__ import annotations

import base64
import re

_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.~-]{,127}")


def to_path(text: str) -> str:
    """Return an id for an address. Ids come from outside, so most are encoded.

    The address of an id no database can store is its stored form.
    """
    if _PLAIN.fullmatch(text):
        return text
    stored = text.replace("\0", "\ufffd").encode("utf-8", "replace")
    return f"~{base64.urlsafe_b64encode(stored).decode().rstrip('=')}"


def from_path(path: str) -> str:
    """Return the id encoded by ``to_path``, or an unused id for any other text."""
    if not path.startswith("~"):
        return path if _PLAIN.fullmatch(path) else ""
    try:
        plain = path[1:].encode("ascii")
        data = base64.b64decode(plain + b"=" * (-len(plain) % 4), altchars=b"-_", validate=True)
        text = data.decode("utf-8")
    except ValueError:
        return ""
    return text if to_path(text) == path else ""
