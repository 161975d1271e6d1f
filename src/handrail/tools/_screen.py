"""What a terminal would have shown of a program's output, as text that a model can read."""

from __future__ import annotations

import re
from itertools import chain

_SEQUENCE = re.compile(
    r"""
    (?: \x1b\[ | \x9b ) [0-?]* [\ -/]* [@-~]            # colours, movements
  | (?: \x1b\] | \x9d ) [^\x07\x1b\n\x90\x98\x9c-\x9f]* (?: \x07 | \x1b\\ | \x9c )   # titles, links
  | (?: \x1b[PX^_] | [\x90\x98\x9e\x9f] ) [^\x1b\n\x90\x98\x9c-\x9f]* (?: \x1b\\ | \x9c )  # devices
  | \x1b [\#%(-/] [0-~]                                 # character sets
  | \x1b [0-OQ-WYZ\\`-~]                                # single functions
    """,
    re.VERBOSE,
)
"""Control sequences. None goes over the end of a line: what is not ended hides nothing.

None goes over the beginning of another that might be as long, either: what was read in vain from
one beginning would be read again from the next, which is an hour for half a megabyte of them.
"""
_STEP = re.compile("(\r|\b|\x1b\\[[02]?K|\x9b[02]?K)")
_HIDDEN = (
    *(range(0x09), range(0x0B, 0x20), range(0x7F, 0xA0), range(0x200E, 0x2010)),
    *(range(0x2028, 0x202F), range(0x2060, 0x206A), range(0xFFF9, 0xFFFC), range(0xE0000, 0xE0080)),
    *([0x061C], [0x200B], [0xFEFF]),
)
"""What would steer whatever shows it, or show as nothing."""
_SPELLED = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"  # noqa: PLR2004  one byte
    for code in chain(*_HIDDEN)
}


def screened(raw: bytes) -> str:
    """The text without control sequences, with overwritten text gone and the rest made visible."""
    text = raw.decode("utf-8", "replace")
    if text.isprintable():
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(line if line.isprintable() else _line(line) for line in lines)


def is_text(raw: bytes) -> bool:
    """Whether all of it is UTF-8; else something stands in for what is not."""
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _line(line: str) -> str:
    steps = _STEP.split(line)
    shown = _drawn(steps) if len(steps) > 1 else _SEQUENCE.sub("", line)
    return shown.translate(_SPELLED)


def _drawn(steps: list[str]) -> str:
    """One line after all overwriting. Each step costs what it writes, so none can be dear."""
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
