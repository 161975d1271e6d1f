"""Forms from servers: bounded, flat, and without secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from handrail._support import is_list, is_object
from handrail.net import is_loopback

MAX_FIELDS = 20
MAX_CHOICES = 100
MAX_TEXT_CHARS = 4_000
"""Characters in one text of a form."""
_TYPES = frozenset({"string", "number", "integer", "boolean", "array"})
_TEXTS = ("title", "description", "const", "default", "pattern", "format")
_SECRET = re.compile(
    r"pass(?:word|phrase|code)|secret|(?:api|access|private|signing)[\s_-]*key|credential|bearer"
    r"|(?:auth|access|refresh|api|login|session)[\s_-]*token|\btoken\b|\bcvv\b|\bcvc\b|\bpin\b"
    r"|(?:card|account)[\s_-]*number|social security|\bssn\b|one[\s-]*time code|\botp\b|\bmfa\b",
    re.IGNORECASE,
)
_WARNS = re.compile(r"\b(?:do not|don't|never)\b", re.IGNORECASE)
"""A description that warns against a secret does not ask for it."""


def refuse_form(message: str, form: Mapping[str, Any]) -> str:
    """Return why a form is not shown to a person, or ""."""
    fields: Any = form.get("properties", {})
    if form.get("type", "object") != "object" or not is_object(fields):
        return "its form is not an object"
    if len(fields) > MAX_FIELDS or len(message) > MAX_TEXT_CHARS:
        return "it asks for too much"
    found = (_refuse_field(name, field) for name, field in fields.items())
    return next(filter(None, found), "")


def refuse_address(url: str) -> str:
    """Return why an address is not shown to a person, or ""."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return "its address is not valid"
    if not host or parts.username or len(url) > MAX_TEXT_CHARS or not url.isprintable():
        return "its address is not valid"
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)):
        return ""
    return "its address is not encrypted"


def _refuse_field(name: str, field: Any) -> str:
    if not is_object(field) or field.get("type", "string") not in _TYPES:
        return f"its field {name[:80]!r} is not a text, number, boolean or choice"
    items: Any = field.get("items", {})
    if not is_object(items) or "properties" in field or "properties" in items:
        return f"its field {name[:80]!r} is nested"
    texts = [name, *(str(field.get(key, "")) for key in _TEXTS)]
    choices = _list_choices(field) + _list_choices(items)
    if len(choices) > MAX_CHOICES or any(len(text) > MAX_TEXT_CHARS for text in texts):
        return f"its field {name[:80]!r} is too long"
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name)
    said = "" if _WARNS.search(texts[2]) else texts[2]
    if _SECRET.search(f"{spaced} {texts[1]} {said}") or field.get("format") == "password":
        return f"its field {name[:80]!r} is for a secret, which must never go into a form"
    return ""


def _list_choices(field: Mapping[str, Any]) -> list[Any]:
    found: list[Any] = []
    for key in ("enum", "oneOf", "anyOf"):
        value: Any = field.get(key)
        found += value if is_list(value) else []
    return found
