r"""Text as a model may see it: what cannot be seen, or misleads, is spelled out.

Control characters and bytes that are no text become ``\x1b``; marks that reverse the reading
direction and characters without a shape become ``\u{202e}``.
"""

from __future__ import annotations

import re

_DIRECTIONS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_SHAPELESS = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u2028\u2029\u2060-\u2065"
    "\u206a-\u206f\u2800\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff"
)
_JOINERS = "\u200c\u200d\ufe0e\ufe0f"
"""Part of emoji and of Persian and Indian words; elsewhere they hide."""
_SCRIPT = f"[^\\x00-\\xff{_DIRECTIONS}{_SHAPELESS}{_JOINERS}\ud800-\udfff]"

_DIRECTION = re.compile(f"[{_DIRECTIONS}]")
_UNSEEN = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\ud800-\udfff]"
    f"|[{_DIRECTIONS}{_SHAPELESS}]"
    f"|(?<!{_SCRIPT})(?<!{_SCRIPT}\ufe0f)[{_JOINERS}](?!\u20e3)"
)
_BYTES = range(0xDC80, 0xDD00)
_CONTROLS = bytes({*range(32), 127} - {*b"\t\n"})


def _plain(text: str) -> bool:
    """Whether there is surely nothing to spell out: the usual case, and quickly seen."""
    if not text.isascii():
        return False
    data = text.encode("ascii")
    return len(data) == len(data.translate(None, _CONTROLS))


def shown(text: str) -> str:
    """The text with everything unseen spelled out; line feeds and tabs stay."""
    if _plain(text):
        return text
    return _UNSEEN.sub(_spelled, text)


def spelled_out(text: str) -> tuple[str, str]:
    """The text as `shown`, and what `hidden` has to say of it."""
    return (text, "") if _plain(text) else (_UNSEEN.sub(_spelled, text), hidden(text))


def hidden(text: str) -> str:
    """What a model should know of the unseen characters in a text; nothing if there are none."""
    if _plain(text):
        return ""
    found = {_spelled(one) for one in _UNSEEN.finditer(text)}
    if not found:
        return ""
    some = ", ".join(sorted(found)[:8]) + (" ..." if len(found) > 8 else "")  # noqa: PLR2004
    if _DIRECTION.search(text):
        return (
            f"The text holds characters that change the reading direction ({some}): what a person "
            "sees may not be what runs. They are spelled out here."
        )
    return f"The text holds characters that cannot be seen ({some}). They are spelled out here."


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code in _BYTES:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code <= 0xFF and code != 0xAD else f"\\u{{{code:x}}}"  # noqa: PLR2004
