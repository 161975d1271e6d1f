r"""Spell out invisible and misleading characters.

Control characters and bytes other than text become ``\x1b``. Marks that reverse the reading
direction, and characters without a shape, become ``\u{202e}``.
"""

from __future__ import annotations

import re

_DIRECTIONS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_SHAPELESS = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2028\u2029\u2060-\u2065"
    "\u206a-\u206f\u2800\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_JOINERS = "\u200c\u200d\ufe0e\ufe0f"
"""Parts of emoji and of Persian and Indian words. Invisible elsewhere."""
_SCRIPT = f"[^\\x00-\\xff{_DIRECTIONS}{_SHAPELESS}{_JOINERS}\ud800-\udfff]"

_DIRECTION = re.compile(f"[{_DIRECTIONS}]")
_UNSEEN = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\ud800-\udfff]"
    f"|[{_DIRECTIONS}{_SHAPELESS}]"
    f"|(?<!{_SCRIPT})(?<!{_SCRIPT}\ufe0f)[{_JOINERS}](?!\u20e3)"
)
_BYTES = range(0xDC80, 0xDD00)
_CONTROLS = bytes({*range(32), 127} - {*b"\t\n"})
_LAST_CONTROL = 0x9F
_MAX_NAMED = 8


def spell_out(text: str) -> str:
    """Spell out all invisible characters except line feeds and tabs."""
    return text if _is_plain(text) else _UNSEEN.sub(_spelling, text)


def list_unseen(text: str) -> str:
    """Return a text's first invisible characters, spelled out, or ""."""
    if _is_plain(text):
        return ""
    spellings = sorted({_spelling(match) for match in _UNSEEN.finditer(text)})
    more = " ..." if len(spellings) > _MAX_NAMED else ""
    return ", ".join(spellings[:_MAX_NAMED]) + more


def describe_unseen(text: str) -> str:
    """Return a note for a model about a text's invisible characters, or ""."""
    unseen = list_unseen(text)
    if not unseen:
        return ""
    if _DIRECTION.search(text):
        return (
            f"The text has characters that change the reading direction ({unseen}): what a "
            "person sees may not be what runs. They are spelled out here."
        )
    return f"The text has invisible characters ({unseen}). They are spelled out here."


def _is_plain(text: str) -> bool:
    """Return whether a text certainly has nothing to spell out. Fast in the usual case."""
    if not text.isascii():
        return False
    data = text.encode("ascii")
    return len(data) == len(data.translate(None, _CONTROLS))


def _spelling(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code in _BYTES:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code <= _LAST_CONTROL else f"\\u{{{code:x}}}"
