"""Finds commands run by package managers and unknown programs, as ``x git push``."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache

from handrail.policy._consequences.table import Argv, rows
from handrail.policy._rules.shell_command import read_shell_command
from handrail.policy._shell.wrappers import SHELLS, matches, program_name, runs_others

_MANAGERS = frozenset("pnpm yarn bun deno".split())
_OWN_COMMANDS = frozenset(
    """
    add i install in ci up update upgrade rm remove un uninstall link ln unlink import dedupe prune
    rebuild rb fetch audit list ls la ll outdated why licenses run run-script exec x dlx create init
    test t tst start restart stop publish pack config c set get env store patch patch-commit
    patch-remove bin root server setup deploy cat-file cat-index find-hash approve-builds
    self-update global cache info versions node npm plugin workspaces constraints version login
    logout owner tag team stage search pm build repl fmt lint check task eval doc bench coverage
    compile types
    """.split()
)
"""Package manager commands. Another word is a project script, or a program."""
_VALUED = frozenset("-F --filter -C --dir --cwd --config --prefix --workspace".split())
_PACKAGE = re.compile(r"(?:npm:)?((?:@[^/@]+/)?[^@]+)(?:@.*)?")
_NAME = re.compile(r"[A-Za-z_.~/][\w./+~-]*", re.ASCII)
TAKE_TEXT = frozenset(
    """
    echo printf print yes say notify-send cowsay figlet toilet banner logger wall write tldr cheat
    man info apropos whatis which where type whereis hash whence help thefuck explain
    grep egrep fgrep zgrep rg ag ack ugrep fzf sk look expr seq
    for case select in test [ [[ ]] : true false return exit local declare typeset export readonly
    unset let read shift getopts complete compgen bind zstyle
    ls cat tac bat less more head tail wc nl sort uniq cut tr diff cmp comm stat file du df tree eza
    exa touch mkdir rmdir chmod chown cd pushd popd basename dirname realpath readlink open xdg-open
    code cursor subl nano pico micro hx jq yq tig lazygit delta apt-cache dpkg rpm pytest jest
    vitest mocha ruff mypy eslint prettier black pyright tsc
    """.split()
)
"""Programs with words for text or file names, and words for the shell itself."""
_MAX_WORDS = 16
"""Words searched for another program after an unknown program."""
_PLACEHOLDER = re.compile(r"\s(?:-I\s?|--replace=)([^\s'\"]{1,20})")
_RUNS_WORD = re.compile(r"-\w*c")
_ALL_OR_FORCED = re.compile(r"-(?:(?![rRf])\w)*+[rRf]\w*+|--(?:recursive|force)")


def find_wrapped(argv: Argv, known: Collection[str]) -> Iterator[Argv]:
    """Yield commands that an otherwise unknown program may run.

    ``known`` are the programs with word rules in other modules. The words after another program are
    a command if they have a consequence, as ``git push`` and ``rm -rf``.
    """
    program = program_name(argv[0])
    if program in _MANAGERS:
        yield from _find_package(argv)
    elif _NAME.fullmatch(argv[0]) and not _has_own_words(program, known):
        yield from _find_started(argv, known)


@lru_cache(maxsize=8)
def find_placeholders(text: str) -> frozenset[str]:
    """Return the words that ``xargs``, ``find`` or ``parallel`` replaces by its input."""
    return frozenset(["{}", *_PLACEHOLDER.findall(text)])


def _find_package(argv: Argv) -> Iterator[Argv]:
    """Yield a package's program run by a package manager: the first word not its own."""
    is_deno = program_name(argv[0]) == "deno"
    skipped = 0
    for at, word in enumerate(argv[1:], 1):
        if skipped:
            skipped -= 1
        elif word in _VALUED or word == "workspace":
            skipped = 1
        elif word.startswith("npm:") or not (is_deno or word.startswith("-")):
            if word not in _OWN_COMMANDS:
                yield (without_package(word), *argv[at + 1 :])
            return


def _find_started(argv: Argv, known: Collection[str]) -> Iterator[Argv]:
    for at in range(1, min(len(argv), _MAX_WORDS)):
        inner, program = argv[at:], program_name(argv[at])
        if program in SHELLS and _RUNS_WORD.fullmatch(" ".join(inner[1:2])):
            for text in inner[2:3]:
                yield from read_shell_command(text).possible
        elif _has_consequence(inner):
            yield inner
        if _has_own_words(program, known):
            return


def _has_own_words(program: str, known: Collection[str]) -> bool:
    return program in known or program in TAKE_TEXT or runs_others(program)


def _has_consequence(argv: Argv) -> bool:
    program = program_name(argv[0])
    if program == "rm":
        return any(map(_ALL_OR_FORCED.fullmatch, argv[1:2]))
    return any(len(row.words) > 1 and matches(argv, row.words) for row in rows().get(program, ()))


def without_package(name: str) -> str:
    """Return a program's name without package manager additions: ``npm:prisma@5``."""
    found = _PACKAGE.fullmatch(name)
    return name if found is None else found[1]
