"""Finds programs and loops emptying whole files, as ``perl -i -ne ''`` does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from handrail.policy._consequences.removals import is_kept
from handrail.policy._consequences.table import Argv, Kind, operands_of
from handrail.policy._rules.shell_command import ShellCommand

_FLAGS = re.compile(r"-[a-zA-Z0]*")
_CODE = re.compile(r"-[a-zA-Z0]*[eE]")
_PRINTS = re.compile(r"\b(?:print|say|puts|write|warn|p|\$stdout|STDOUT)\b")
_NEVER = re.compile(
    r"\s*(?:print|say|puts)\w*\s*(?:(?:if|and|&&)\s*(?:0|false)|unless\s+1)\s*+;?+\s*+"
)
_ERASES = re.compile(
    r"\s*(?:\$_\s*=\s*(?:\"\"|''|undef|nil)|undef\s+\$_|s/\.\*(?:\\n)?//s?g?)\s*+;?+\s*+"
)
"""Code for emptying each line."""
_ACTION = re.compile(r"(?<![^{}\n;])[^{}\n;]*+\{[^{}]*+\}")
_SHELL_LOOP = re.compile(
    r"\bfor\s+(?P<name>\w+)\s+in\s+(?P<words>[^;\n]*)|\bread\s+(?:-\w+\s+)*(?P<line>\w+)"
)
_EMPTIED = re.compile(
    r"(?:^|[;&|{]|\bdo|\bthen)[ \t]*+(?:(?::|true)[ \t]*+)?>\|?[ \t]*+"
    r"[\"']?\$\{?(\w+)\}?[\"']?[ \t]*+(?=[;&}]|$|done)",
    re.MULTILINE,
)

_DELETES_ALL = re.compile(
    r"(?:^|[\s+:|'\"\n])(?:%|1,\$|,|0,\$)d(?=[\s|'\"\n\\]|$)|\bgg\"?_?dG", re.MULTILINE
)
_NOTHING = re.compile(
    r"\b(?:head|tail)\s+-[cn]\s*+0(?![\d.])[^|;&>\n]{0,200}>\|?\s*+[\"']?([^\s;&|\"']+)"
)


def find_emptied_by_code(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether Perl or Ruby code for each line in files prints none of them."""
    del command
    flags, codes = list[str](), list[str]()
    for word, following in pairwise((*argv[1:], "")):
        if word.startswith("-i") and not _CODE.fullmatch(word):
            flags.append("i")
        elif _FLAGS.fullmatch(word):
            flags.append(word)
            codes += [following] if _CODE.fullmatch(word) else []
    letters, code = "".join(flags), ";".join(codes)
    if "i" not in letters or not codes:
        return
    silent = not _PRINTS.search(code) or _NEVER.fullmatch(code)
    empties = bool(_ERASES.fullmatch(code)) if "p" in letters else "n" in letters and silent
    files = [word for word in operands_of(argv) if word not in codes]
    if empties and any(map(is_kept, files)):
        yield "files"


def find_emptied_by_awk(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether ``awk -i inplace`` prints no line from a file."""
    del command
    words = operands_of(argv)
    if words[:1] != ["inplace"]:
        return
    _, program, *files = [*words, ""]
    rest = _ACTION.sub("", program).strip(" \t\n;")
    if (
        "print" not in program
        and rest in ("", "0", '""')
        and any(map(is_kept, filter(None, files)))
    ):
        yield "files"


def find_emptied_in_loops(command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a loop empties files, as ``for f in src/*; do : > $f; done`` does."""
    emptied = set(_EMPTIED.findall(command.text))
    for found in _SHELL_LOOP.finditer(command.text) if emptied else ():
        words = (found["words"] or "$").split()
        if (found["name"] or found["line"]) in emptied and any(map(is_kept, words)):
            yield "files"
            return


def find_emptied_by_editor(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether an editor script deletes all lines in a file, and writes it."""
    if _deletes_all(command.text) and any(map(is_kept, operands_of(argv))):
        yield "files"


@lru_cache(maxsize=8)
def _deletes_all(text: str) -> bool:
    return _DELETES_ALL.search(text) is not None


def find_nothing_written(command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a text overwrites files with the first 0 bytes or lines of something."""
    if any(map(is_kept, _NOTHING.findall(command.text))):
        yield "files"
