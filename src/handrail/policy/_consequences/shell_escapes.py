"""Finds commands passed to a shell by other programs: ``sqlite3 '.shell x'``, ``make --eval``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from handrail.policy._consequences.table import Argv, values_of
from handrail.policy._rules.shell_command import ShellCommand
from handrail.policy._shell.wrappers import program_name

_ESCAPES = {
    **dict.fromkeys(
        ("ed", "red", "dc", "ftp", "mail", "bc"), re.compile(r"(?:^|[\s'\"\n])!\s*(.+)")
    ),
    **dict.fromkeys(
        ("psql", "pgcli", "mysql", "mariadb", "mycli", "usql", "cqlsh", "sqlplus"),
        re.compile(r"(?:\\!|(?:^|[\s'\"\n;])(?:system|host|SHELL|!))\s*(.+)"),
    ),
    **dict.fromkeys(("sqlite3", "duckdb", "litecli"), re.compile(r"\.(?:shell|system|sh)\s+(.+)")),
    **dict.fromkeys(
        ("gdb", "lldb", "gnuplot", "octave", "maxima", "less", "more", "man"),
        re.compile(r"(?:^|[\s'\"\n;])(?:!|(?:platform\s+)?shell\s|system[\s(]+['\"]?)\s*(.+)"),
    ),
    "m4": re.compile(r"e?syscmd\s*\(\s*[`'\"]*(.+)"),
}
"""How a program's text marks the rest of a line for a shell."""
_ENDS = "\"'`)]} \t"
"""What may follow a command in code."""
_RECIPE = re.compile(r"[;\n\t]|\\n|\\t")
_MAKES = frozenset(["make", "gmake"])
_ANSI = re.compile(r"\$'((?:[^'\\]|\\.)*+)'", re.DOTALL)


def find_escaped(argv: Argv, command: ShellCommand) -> Iterator[str]:
    """Yield texts a program may pass to a shell."""
    program = program_name(argv[0])
    if program in _ESCAPES:
        yield from _find_lines(program, command.text)
    if program in _MAKES:
        for value in values_of(argv, ("--eval", "-E")):
            yield from filter(None, map(str.strip, _RECIPE.split(value)))
        yield from _find_recipes(command.text)


@lru_cache(maxsize=8)
def _find_lines(program: str, text: str) -> tuple[str, ...]:
    found = (line.rstrip(_ENDS) for line in _ESCAPES[program].findall(text))
    return tuple(dict.fromkeys(found))


@lru_cache(maxsize=8)
def _find_recipes(text: str) -> tuple[str, ...]:
    lines = (line.strip() for code in _ANSI.findall(text) for line in _RECIPE.split(code))
    return tuple(dict.fromkeys(filter(None, lines)))
