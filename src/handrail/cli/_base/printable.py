"""Untrusted text, made safe to print."""

from __future__ import annotations

from pathlib import Path

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


def clip(text: str, most: int) -> str:
    """Shorten a text to at most ``most`` characters."""
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def short(file: str | Path, workspace: Path) -> str:
    """Return a path relative to the workspace or the home folder, if it is inside."""
    path = Path(file)
    for above, begins in ((workspace, ""), (Path.home(), "~/")):
        if path.is_relative_to(above):
            return one_line(f"{begins}{path.relative_to(above)}")
    return one_line(path)
