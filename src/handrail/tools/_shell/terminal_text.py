"""Converts a program's output to the text a terminal would show, for a model to read."""

from __future__ import annotations

import re
from itertools import chain

_SEQUENCE = re.compile(
    r"""
    (?: \x1b\[ | \x9b ) [0-?]* [\ -/]* [@-~]            # colors, movements
  | (?: \x1b\] | \x9d ) [^\x07\x1b\n\x90\x98\x9c-\x9f]* (?: \x07 | \x1b\\ | \x9c )   # titles, links
  | (?: \x1b[PX^_] | [\x90\x98\x9e\x9f] ) [^\x1b\n\x90\x98\x9c-\x9f]* (?: \x1b\\ | \x9c )  # devices
  | \x1b [\#%(-/] [0-~]                                 # character sets
  | \x1b [0-OQ-WYZ\\`-~]                                # single functions
    """,
    re.VERBOSE,
)
"""Control sequences. None crosses the end of a line, so an unfinished one hides nothing.

None crosses the beginning of another long one, either. Otherwise every beginning would be scanned
to the same end, which takes an hour for half a megabyte of them.
"""
_STEP = re.compile("(\r|\b|\x1b\\[[02]?K|\x9b[02]?K)")
_HIDDEN = (
    *(range(0x09), range(0x0B, 0x20), range(0x7F, 0xA0), range(0x200E, 0x2010)),
    *(range(0x2028, 0x202F), range(0x2060, 0x206A), range(0xFFF9, 0xFFFC), range(0xE0000, 0xE0080)),
    *([0x061C], [0x200B], [0xFEFF]),
)
"""Characters that control a display, or are invisible."""
_MAX_BYTE = 0xFF
_SPELLED = {
    code: f"\\x{code:02x}" if code <= _MAX_BYTE else f"\\u{{{code:x}}}" for code in chain(*_HIDDEN)
}


def clean_output(raw: bytes) -> str:
    """Return the text without control sequences and overwritten text, with the rest visible."""
    text = raw.decode("utf-8", "replace")
    if text.isprintable():
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(line if line.isprintable() else _clean_line(line) for line in lines)


def is_utf8(raw: bytes) -> bool:
    """Return whether all of it is UTF-8."""
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _clean_line(line: str) -> str:
    steps = _STEP.split(line)
    shown = _draw(steps) if len(steps) > 1 else _SEQUENCE.sub("", line)
    return shown.translate(_SPELLED)


def _draw(steps: list[str]) -> str:
    """Return one line after all overwriting. Each step costs only what it writes."""
    cells: list[str] = []
    at = 0
    for step in filter(None, steps):
        if step == "\r":
            at = 0
        elif step == "\b":
            at = max(0, at - 1)
        elif _STEP.fullmatch(step):
            at = 0 if "2" in step else at
            del cells[at:]
        else:
            text = step if step.isprintable() else _SEQUENCE.sub("", step)
            cells[at : at + len(text)] = text
            at += len(text)
    return "".join(cells)
