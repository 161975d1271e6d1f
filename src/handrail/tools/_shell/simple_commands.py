"""Splits a line into simple commands, or into none if a shell could read others."""

from __future__ import annotations

import re
import shlex

_TOKEN = re.compile(
    r"""
    [ \t]*+ (?:
        (?P<ignored> [12]?>[ \t]*+/dev/null (?![^\s;|&]) | 2>&1 (?![^\s;|&]) )
      | (?P<word> (?: [\w./:,@%+=\[\]-]++ | '[^'\n]*+' | "[^"$`\\!\n]*+" )++ )
      | (?P<operator> && | \|\| | ; | \| | \n )
      | (?P<end> \Z )
      | (?P<other> . )
    )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_MAX_CHARS = 4_000


def split_simple(command: str) -> list[list[str]]:
    """Return the simple commands, each after its operator; none if a shell could read others."""
    if len(command) > _MAX_CHARS:
        return []
    parts = [[""]]
    for token in _TOKEN.finditer(command):
        if token.lastgroup == "other":
            return []
        if token.lastgroup == "word":
            parts[-1] += shlex.split(token["word"])
        elif token.lastgroup == "operator":
            parts.append([token["operator"]])
    whole = [part for part in parts if len(part) > 1 or part[0] not in ("", ";", "\n")]
    return whole if all(len(part) > 1 for part in whole) else []
