r"""Wrap text from files for a model: in a tag naming the file, with nothing hidden.

Invisible characters and those changing the reading direction are escaped: ``\x1b``,
``\u{202e}``. The text cannot close its own tag.
"""

from __future__ import annotations

import re

from handrail._support.visible import list_unseen, spell_out

_OUR_TAG = re.compile(r"<(?=\s{0,9}/?\s{0,9}(?:instructions|skills?(?:-file)?)\b)", re.IGNORECASE)


def has_tags(text: str) -> bool:
    """Whether a text contains a handrail tag."""
    return bool(_OUR_TAG.search(text))


def to_one_line(text: str, max_chars: int) -> str:
    """Return a text on one line, truncated, with tags and invisible characters escaped."""
    line = escape_tags(spell_out(" ".join(text.split())))
    return line if len(line) <= max_chars else f"{line[: max_chars - 4].rstrip()} ..."


def escape_tags(text: str) -> str:
    """Escape everything that would open or close a handrail tag in a text."""
    return _OUR_TAG.sub("&lt;", text)


def wrap_in_tag(tag: str, text: str, **attributes: str) -> str:
    """Wrap a text in a tag. A note after it lists the escaped characters."""
    attribute_text = "".join(
        f' {name}="{_format_attribute(value)}"' for name, value in attributes.items()
    )
    hidden = list_unseen(text)
    note = f"\n[Invisible characters are escaped here: {hidden}.]" if hidden else ""
    return f"<{tag}{attribute_text}>\n{escape_tags(spell_out(text))}\n</{tag}>{note}"


def _format_attribute(value: str) -> str:
    line = spell_out(value).replace("\n", "\\x0a").replace("\t", "\\x09")
    return line.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
