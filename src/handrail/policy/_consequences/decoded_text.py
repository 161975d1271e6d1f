"""Finds text a command decodes or transforms, and then runs."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from itertools import pairwise

from handrail.policy._consequences.requests import FETCHERS
from handrail.policy._consequences.table import Argv, Kind, operands_of, values_of
from handrail.policy._rules.shell_command import ShellCommand
from handrail.policy._shell.editor_scripts import commands_in_script, scripts_of
from handrail.policy._shell.wrappers import SHELLS, program_name, without_version

INTERPRETERS = frozenset("python node perl ruby php deno bun lua elixir julia Rscript".split())
_RUNNERS = SHELLS | {"eval", "source", "."}
_DECODES = re.compile(
    r"\b(?:base(?:32|64)|basenc)\s[^|;&\n]{0,60}?-\w{0,4}[dD]|\bxxd\s[^|;&\n]{0,60}?-\w{0,4}r"
    r"|\buudecode\b|\bopenssl\s[^|;&\n]{0,200}?\s-d\b|\b(?:gunzip|zcat|bzcat|xzcat)\b"
    r"|\b(?:gzip|bzip2|xz|zstd)\s[^|;&\n]{0,60}?-\w{0,4}d"
)
_RUNS_OUTPUT = re.compile(
    r"(?:\beval|\bsource|(?<![\w./])\.|\b(?:ba|da|z|k)?sh[ \t]{1,9}-c)[ \t]{1,9}"
    r"[\"']?(?:\$\(|`|<\()"
)
"""A shell running a program's output."""
_MAX_OUTPUT_CHARS = 300
_TRANSFORMS = re.compile(
    r"\bprintf\s[^\n]{0,200}%[sbcdq]|\||\b(?:tr|rev|sed|awk|perl|python3?|node|ruby|php)\s|\b(?:printf|echo)\s[^\\]{0,200}\\"
)
"""Programs making other text out of text."""
_CODE_DECODES = re.compile(
    r"b64decode|b32decode|a85decode|decodebytes|decodestring|unhexlify|fromhex|\batob\b|decode_base64"
    r"|base64_decode|unpack1?\b|rot.?13|decompress|marshal\.loads|hex2bin|gzinflate|codecs\.decode"
    r"|Buffer\.from\([^)]{0,200}(?:base64|hex)|fromCharCode|\bchr\("
)
_CODE_RUNS = re.compile(
    r"\b(?:exec\w*|eval|system|popen|spawn\w*|subprocess|Function|vm\.run\w*|__import__)\b|`"
)
_ESCAPED = re.compile(
    r"\b(?:printf|echo)\b[^|;&\n]{0,300}?"
    r"(?:\\x[0-9a-fA-F]|\\0?[0-7]{2}|\\u[0-9a-fA-F]{4}|\w%[sbc]|%[sbc]\w)"
)
"""Text whose meaning only the printing program knows."""
_TO_SHELL = re.compile(
    r"\|\s*+(?:sudo\s++)?+(?:[\w/]*/)?+(?:ba|da|z|k|fi)?sh\b|\|\s*+(?:source|\.)\s"
)
_SETS = re.compile(
    r"\b(?:printf\s+-v|mapfile|readarray|read)\s++(?:-\w+\s++)*+([A-Za-z_]\w*)", re.ASCII
)
_SETS_TO_OUTPUT = re.compile(
    r"\b([A-Za-z_]\w*)=[\"']?(?:\$\(|`)\s*+(?!(?:which|command\s+-v|type\s+-[pP]|realpath|readlink"
    r"|mktemp|pwd|(?:py|rb|nod)env\s+which|brew|git\s+rev-parse|poetry\s+env|dirname)\b)",
    re.ASCII,
)
"""A variable holding a program's output, except for programs locating another one."""
_RUN_BY_SHELLS = re.compile(r"(?:^|[\s;&|(])BASH_ENV=\S")
"""A file each bash runs first."""
_STANDS_FOR = re.compile(r"\b(?:declare|local|typeset)\s+-\w*n")
"""A name reference: a variable naming another one."""
_TO_INTERPRETER = re.compile(
    r"\|\s*+(?:sudo\s++)?+(?:[\w/]*/)?+(?:python[\d.]*+|node|perl|ruby|php|lua)(?:\s++-)?+"
    r"\s*+(?:$|[;&|\n])"
)
_SETS_IFS = re.compile(r"(?:^|[\s;&|(])IFS=")
_USES = re.compile(r"\$\{?([A-Za-z_]\w*)[\[@*\]]*+\}?")
_SAVES = ("-o", "--output", "-O", "--output-document")
_IN_CLUSTER = re.compile(r"-[a-zA-Z]*[oO]")
_OWN_NAME = re.compile(r"-[a-zA-Z]*O[a-zA-Z]*|--remote-name(?:-all)?")
_EMPTYING = re.compile(r"(?:1,\$|\$?!?)?\s*d|s/\.\*//")
_IN_PLACE = re.compile(r"-[a-zA-Z]*i.*|--in-place.*")


def find_decoded(command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a shell or an interpreter runs text that only it can read."""
    programs, text = command.programs, command.text
    decodes = programs & _RUNNERS and (_DECODES.search(text) or _runs_transformed(text))
    in_code = not INTERPRETERS.isdisjoint(map(without_version, programs)) and (
        _CODE_DECODES.search(text) and _CODE_RUNS.search(text)
    )
    piped = _DECODES.search(text) and _TO_INTERPRETER.search(text)
    if command.unread or decodes or piped or in_code or _runs_escaped(command):
        yield "unread"


def _runs_escaped(command: ShellCommand) -> bool:
    """Return whether a shell runs text made by ``printf`` or ``echo`` from other characters."""
    if _ESCAPED.search(command.text) is None:
        return False
    return _TO_SHELL.search(command.text) is not None or _runs_any(command, {*command.created})


def _runs_any(command: ShellCommand, names: set[str]) -> bool:
    """Return whether a text runs one of these files."""
    places = set(map(posixpath.normpath, names))
    for argv in command.possible if places else ():
        program = program_name(argv[0])
        reads = program in _RUNNERS or without_version(program) in INTERPRETERS
        if posixpath.normpath(argv[0]) in places or (
            reads and not places.isdisjoint(map(posixpath.normpath, operands_of(argv)[:1]))
        ):
            return True
    return False


def find_downloaded_and_run(command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a text runs a file downloaded by it before."""
    saved = set[str]()
    for argv in command.possible:
        program = program_name(argv[0])
        if program in FETCHERS:
            named = [name for name in values_of(argv, _SAVES) if name and "://" not in name]
            named += [name for flag, name in pairwise(argv) if _IN_CLUSTER.fullmatch(flag)]
            own = program == "wget" or any(map(_OWN_NAME.fullmatch, argv[1:]))
            addresses = [word for word in operands_of(argv) if "://" in word]
            saved |= {*named, *(posixpath.basename(word) for word in addresses if own)}
            saved |= {*command.created}
    if _runs_any(command, {name for name in saved if name not in ("", "-")}):
        yield "others"


def find_run_variables(command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a text runs a variable whose value only the shell knows."""
    text, used, whole, passed = command.text, set[str](), set[str](), set[str]()
    for argv in command.possible:
        named = _USES.findall(argv[0])
        used.update(named)
        whole.update(named if _USES.fullmatch(argv[0]) else ())
        if argv[0] == "eval" or (program_name(argv[0]) in SHELLS and argv[1:2] == ("-c",)):
            passed.update(name for word in argv[1:] for name in _USES.findall(word))
    if (
        not used.union(passed).isdisjoint(_SETS.findall(text))
        or not whole.isdisjoint(_SETS_TO_OUTPUT.findall(text))
        or (used and (_SETS_IFS.search(text) or _STANDS_FOR.search(text)))
        or _RUN_BY_SHELLS.search(text)
    ):
        yield "unread"


def _runs_transformed(text: str) -> bool:
    """Return whether a shell runs a program's transformation of other text."""
    for found in _RUNS_OUTPUT.finditer(text):
        output = re.split(r"[)`]", text[found.end() : found.end() + _MAX_OUTPUT_CHARS])[0]
        if _TRANSFORMS.search(output):
            return True
    return False


def find_sed_losses(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether ``sed`` runs a command, or deletes every line in a file."""
    del command
    scripts = list(scripts_of(argv))
    if any(True for script in scripts for _ in commands_in_script(script)):
        yield "unread"
    if any(map(_IN_PLACE.fullmatch, argv[1:])) and any(map(_EMPTYING.fullmatch, scripts)):
        yield "files"
