"""Untrusted text, made safe to print."""

from __future__ import annotations

from handrail.approvals import make_printable


def safe(text: str) -> str:
    """Return text safe to print: control and invisible characters are escaped.

    Text without such characters, or with all escaped already, is unchanged.
    """
    shown = make_printable(text, most=4 * len(text))
    return shown.text if shown.hidden else text


def one_line(text: object) -> str:
    """Return untrusted text on one line, safe to print."""
    return make_printable(str(text)).text.replace("\n", "\\u{A}")
