"""Finds text that a command decodes or transforms, and then runs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from handrail.policy._consequences.table import Argv, Kind
from handrail.policy._rules.shell_command import ShellCommand
from handrail.policy._shell.sed_scripts import commands_in_script, scripts_of
from handrail.policy._shell.wrappers import SHELLS, program_name, without_version

INTERPRETERS = frozenset("python node perl ruby php deno bun lua".split())
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
"""A shell that runs what a program prints."""
_MAX_OUTPUT_CHARS = 300
_TRANSFORMS = re.compile(
    r"\||\b(?:tr|rev|sed|awk|perl|python3?|node|ruby|php)\s|\b(?:printf|echo)\s[^\\]{0,200}\\"
)
"""What makes other text out of text."""
_CODE_DECODES = re.compile(
    r"b64decode|b32decode|a85decode|decodebytes|decodestring|unhexlify|fromhex|\batob\b|decode_base64"
    r"|base64_decode|unpack1?\b|rot.?13|decompress|marshal\.loads|hex2bin|gzinflate|codecs\.decode"
    r"|Buffer\.from\([^)]{0,200}(?:base64|hex)|fromCharCode|\bchr\("
)
_CODE_RUNS = re.compile(
    r"\b(?:exec\w*|eval|system|popen|spawn\w*|subprocess|Function|vm\.run\w*|__import__)\b|`"
)
_EMPTYING = re.compile(r"(?:1,\$|\$?!?)?\s*d|s/\.\*//")
_IN_PLACE = re.compile(r"-[a-zA-Z]*i.*|--in-place.*")


def find_decoded(command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a shell or an interpreter runs text that only it can read."""
    programs = {program_name(argv[0]) for argv in command.possible if argv not in command.arguments}
    text = command.text
    decodes = programs & _RUNNERS and (_DECODES.search(text) or _runs_transformed(text))
    in_code = not INTERPRETERS.isdisjoint(map(without_version, programs)) and (
        _CODE_DECODES.search(text) and _CODE_RUNS.search(text)
    )
    if command.unread or decodes or in_code:
        yield "unread"


def _runs_transformed(text: str) -> bool:
    """Return whether a shell runs what a program made out of other text."""
    for found in _RUNS_OUTPUT.finditer(text):
        output = re.split(r"[)`]", text[found.end() : found.end() + _MAX_OUTPUT_CHARS])[0]
        if _TRANSFORMS.search(output):
            return True
    return False


def find_sed_losses(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether ``sed`` runs a command, or deletes every line of a file."""
    del command
    scripts = list(scripts_of(argv))
    if any(True for script in scripts for _ in commands_in_script(script)):
        yield "unread"
    if any(map(_IN_PLACE.fullmatch, argv[1:])) and any(map(_EMPTYING.fullmatch, scripts)):
        yield "files"
