"""Remove logins and keys from addresses in settings."""

from __future__ import annotations

import re
from typing import Any

_LOGIN = re.compile(r"(?<=//)[^/?#]*@")
_BARE_LOGIN = re.compile(r"^[^/?#]*@")
"""A login in an address without a scheme."""
_WORD = "(?:key|token|secret|pass|sig|auth)"
_NAMED = rf"(?:(?!{_WORD})[^?&#;=])*+{_WORD}"
_SECRET = re.compile(rf"(?i)([?&#;]{_NAMED}(?:(?![?;]{_NAMED})[^=&#])*+=)[^&#]*+")


def redact_setting(name: str, value: Any) -> Any:
    """Return a setting's value without secrets."""
    if name == "base_url" and isinstance(value, str) and "://" not in value:
        return _SECRET.sub(r"\1***", _BARE_LOGIN.sub("***@", value))
    return redact_url(value)


def redact_url(value: Any) -> Any:
    """Return a value without logins and keys, if it is an address."""
    if not isinstance(value, str) or "://" not in value:
        return value
    return _SECRET.sub(r"\1***", _LOGIN.sub("***@", value))
