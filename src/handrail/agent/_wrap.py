r"""Text from files as a model may see it: within a tag that names the file, and nothing hidden.

What cannot be seen, or turns the reading direction, is spelled out: ``\x1b``, ``\u{202e}``. A text
cannot close the tag that it stands in.
"""

from __future__ import annotations

import re

_DIRECTIONS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_SHAPELESS = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2028\u2029\u2060-\u2065"
    "\u206a-\u206f\u2800\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_JOINERS = "\u200c\u200d\ufe0e\ufe0f"
"""Part of emoji and of some scripts' words, after a character of these; elsewhere they hide."""
_SEEN = f"[^\x00-\xff{_DIRECTIONS}{_SHAPELESS}{_JOINERS}\ud800-\udfff]"
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]"
    f"|[{_DIRECTIONS}{_SHAPELESS}]"
    f"|(?<!{_SEEN})(?<!{_SEEN}\ufe0f)[{_JOINERS}](?!\u20e3)"
)
_OUR_TAG = re.compile(r"<(?=\s{0,9}/?\s{0,9}(?:instructions|skills?(?:-file)?)\b)", re.IGNORECASE)
_BYTES = range(0xDC80, 0xDD00)
_LATIN = 0xFF
_SOME = 8


def plain(text: str) -> str:
    """The text with everything unseen spelled out; line feeds and tabs stay."""
    return _UNSEEN.sub(_spelled, text)


def unseen(text: str) -> str:
    """Which characters are spelled out, some of them by name; empty where there are none."""
    found = sorted({_spelled(one) for one in _UNSEEN.finditer(text)})
    return ", ".join(found[:_SOME]) + (" ..." if len(found) > _SOME else "")


def has_tags(text: str) -> bool:
    """Whether a text holds a tag like those that it is wrapped in."""
    return bool(_OUR_TAG.search(text))


def one_line(text: str, most: int) -> str:
    """A text on one line, clipped; it cannot begin a line or a tag of its own."""
    line = escaped(plain(" ".join(text.split())))
    return line if len(line) <= most else f"{line[: most - 4].rstrip()} ..."


def escaped(text: str) -> str:
    """A text that opens and closes none of our tags."""
    return _OUR_TAG.sub("&lt;", text)


def wrapped(tag: str, text: str, **attributes: str) -> str:
    """A text within a tag; what was spelled out is named under it."""
    told = "".join(f' {name}="{_attribute(value)}"' for name, value in attributes.items())
    hidden = unseen(text)
    note = f"\n[Characters that cannot be seen are spelled out here: {hidden}.]" if hidden else ""
    return f"<{tag}{told}>\n{escaped(plain(text))}\n</{tag}>{note}"


def _attribute(value: str) -> str:
    line = plain(value).replace("\n", "\\x0a").replace("\t", "\\x09")
    return line.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code in _BYTES:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < _LATIN and code != 0xAD else f"\\u{{{code:x}}}"  # noqa: PLR2004
