"""Consequences: losses and changes by a shell command that its sandbox does not contain.

Commands are found in the rough reading of the text, in every spelling: ``git -C x``, ``env git``,
``sh -c``, text piped into a shell, strings in ``python -c``. They need approval, but this search is
not a boundary: the sandbox is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import pairwise
from types import MappingProxyType

from handrail.policy._consequences.databases import (
    DATABASE_PROGRAMS,
    REDIS,
    find_database_hosts,
)
from handrail.policy._consequences.decoded_text import (
    INTERPRETERS,
    find_decoded,
    find_downloaded_and_run,
    find_run_variables,
    find_sed_losses,
)
from handrail.policy._consequences.git_commands import (
    expand_aliases,
    find_git_by_environment,
    find_git_losses,
    find_restored,
    has_many_aliases,
)
from handrail.policy._consequences.in_place import (
    find_emptied_by_awk,
    find_emptied_by_code,
    find_emptied_by_editor,
    find_emptied_in_loops,
    find_nothing_written,
)
from handrail.policy._consequences.loaded_code import find_loaded_code
from handrail.policy._consequences.program_text import (
    RUNS_PROGRAMS,
    find_in_program_text,
    find_quoted_commands,
)
from handrail.policy._consequences.remote import find_production, find_remote_engines
from handrail.policy._consequences.removals import (
    Check,
    find_copied_over,
    find_deleted,
    find_emptied_by_tee,
    find_linked_over,
    find_moved_away,
    find_named_files,
    find_removed,
    is_kept,
)
from handrail.policy._consequences.requests import (
    CLOUDS,
    FETCHERS,
    INSTALLERS,
    MESSENGERS,
    PROBES,
    find_connections,
    find_installs,
    find_messages,
    find_named_sources,
    find_packages_run,
    find_requests,
    find_sent_in_addresses,
    find_service_calls,
    find_set_sources,
    find_sockets,
    find_synchronized,
)
from handrail.policy._consequences.secrets import (
    CONTAINERS,
    LENDERS,
    find_container_secrets,
    find_environments,
    find_lent_secrets,
    find_named_secrets,
    find_printed_settings,
    find_shown_environments,
    find_shown_passwords,
)
from handrail.policy._consequences.shell_escapes import find_escaped
from handrail.policy._consequences.table import (
    SAME_ROWS,
    Argv,
    Kind,
    find_in_table,
    is_harmless,
    rows,
)
from handrail.policy._consequences.wrapped import (
    TAKE_TEXT,
    find_placeholders,
    find_wrapped,
    without_package,
)
from handrail.policy._rules.shell_command import (
    COMPUTED,
    ShellCommand,
    join_literals,
    read_shell_command,
)
from handrail.policy._shell.editor_scripts import EDITORS
from handrail.policy._shell.words import GLOB
from handrail.policy._shell.wrappers import (
    SHELLS,
    may_expand,
    program_name,
    reads_makefile,
    without_version,
)

IN_EVERY_MODE: frozenset[Kind] = frozenset(  # no mode makes them harmless: decision 088
    ["workspace", "others", "settings", "unread", "secrets", "sources"]
)
"""Consequences needing approval in every mode."""
_SCRIPT_RUNNERS = frozenset("npm yarn pnpm bun cargo".split())
_REDIS_LOSS = frozenset("del unlink flushdb flushall".split())
_AWKS = frozenset("awk gawk mawk nawk".split())
_CODE_FLAG = re.compile(r"-\w*[ceEr]|--(?:eval|print|execute|run)")
_MAX_MODULES = 8
"""Maximum modules per command: ``python -m coverage run -m pytest`` has two."""
_TASKS = re.compile(
    r"(?!test|check|lint|build|\S*\s)(?:\w++[:-])*(?:\w+_)?(?:deploy|publish)(?:[:_-]\S*)?"
    r"|(?:release|upload)(?::\S*)?"
    r"|publish[A-Z]\w*"
)
"""Names of tasks that send something to others."""
_FETCHED = re.compile(rf"(?:\$\(|`|<\()\s*(?:{'|'.join(sorted(FETCHERS))})\s")
"""A substitution with a server's response."""
_SENDING_SCRIPT = re.compile(r"(?:deploy|publish|release)(?:[_-][\w-]+)?(?:\.\w+)?")
"""Names of programs that do."""
_TAKE_WORDS = frozenset(["git", "make", "go", *_SCRIPT_RUNNERS, *INTERPRETERS, *TAKE_TEXT])
"""Programs with words for any text, or for task names."""
_BEFORE_SCRIPTS = frozenset("run run-script workspace".split())
_NO_SCRIPTS = frozenset("test t build check start exec x install i add why info view ls".split())
"""Package manager commands not followed by a script name."""


@lru_cache(maxsize=8)
def find_consequences(
    command: ShellCommand, chosen: frozenset[Argv] = frozenset()
) -> Mapping[Kind, str]:
    """Return a shell command's possible consequences, each with the command causing it.

    ``chosen`` are commands allowed by a written rule: their consequences were accepted.
    """
    found: dict[Kind, str] = {}
    for argv in commands_in(command):
        if argv not in chosen:
            for kind in kinds_of(argv, command):
                found.setdefault(kind, " ".join(argv))
    for kind in _kinds_of_text(command):
        found.setdefault(kind, command.text)
    return MappingProxyType(found)


def find_computed(command: ShellCommand) -> list[Argv]:
    """Return the commands whose program is computed, such as ``$x push``."""
    return [argv for argv in command.possible if COMPUTED.search(argv[0])]


def commands_in(command: ShellCommand) -> Iterator[Argv]:
    """Yield the commands run by a text, where it can be read."""
    programs, aliases = command.programs, _aliases_in(command)
    printed = set(_printed_commands(command))
    own = {simple.argv for simple in command.simple or ()}
    is_shell = INTERPRETERS.isdisjoint(map(without_version, programs))  # and has no other text
    for argv in command.possible:
        if argv not in command.arguments and argv not in printed:
            yield argv
            if len(argv) == 1 and "xargs" in programs and argv[0] in rows():
                yield (*argv, "*")
            yield from _find_started(argv, command, is_own=is_shell or argv in own)
            if argv[0] in aliases:
                yield (*aliases[argv[0]], *argv[1:])
    if not is_shell:
        yield from find_quoted_commands(join_literals(command.text))
    runs_printed = not SHELLS.isdisjoint(programs) or any(map(reads_makefile, command.possible))
    if r"\n" in command.text and runs_printed:  # as `printf` prints it
        yield from read_shell_command(command.text.replace(r"\n", "\n")).possible


def _find_started(argv: Argv, command: ShellCommand, *, is_own: bool) -> Iterator[Argv]:
    """Yield commands started by a program: its operands, or its texts for a shell."""
    if is_own:
        yield from find_wrapped(argv, _known_programs())
    for text in find_escaped(argv, command):
        yield from read_shell_command(text).possible


@cache
def _known_programs() -> frozenset[str]:
    return frozenset([*_CHECKS, *rows(), *INTERPRETERS, *_SCRIPT_RUNNERS, *SAME_ROWS])


def _aliases_in(command: ShellCommand) -> dict[str, list[str]]:
    named = (
        word.partition("=") for argv in command.possible if argv[0] == "alias" for word in argv
    )
    found = {name: value.split() for name, _, value in named if value}
    for argv in command.possible:  # `hash -p /usr/bin/git ls` makes `ls` another program
        if argv[0] == "hash" and argv[1:2] == ("-p",):
            found |= {name: [*argv[2:3]] for name in argv[3:]}
    return found


def _printed_commands(command: ShellCommand) -> Iterator[Argv]:
    """Yield commands found only as strings in code that runs no program."""
    code = dict.fromkeys(  # each once, and none empty: a text must not grow
        word
        for argv in command.possible
        if (takes_code := _takes_code(program_name(argv[0])))
        for flag, word in pairwise(argv)
        if word and takes_code(flag) and not RUNS_PROGRAMS.search(word)
    )
    rest = command.text
    for word in code:
        rest = rest.replace(word, "0")
    if rest != command.text:
        others = read_shell_command(rest).possible
        for argv in command.possible:
            if argv not in others and not set(argv).intersection(code):
                yield argv


def _takes_code(program: str) -> Callable[[str], object] | None:
    """Return after which words a program takes the next one for program text; None if never."""
    if program in _AWKS:
        return lambda _: True
    return _CODE_FLAG.fullmatch if without_version(program) in INTERPRETERS else None


def kinds_of(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield the consequences of one command within a shell command."""
    modules = [at + 1 for at, word in enumerate(argv[:-1]) if at and word == "-m"]
    if len(modules) > _MAX_MODULES:
        yield "unread"
    if without_version(program_name(argv[0])) not in _TAKE_WORDS:
        yield from find_named_secrets(argv)
    for start in (0, *modules[:_MAX_MODULES]):  # as in `python -m twine`
        for program in _find_meant(program_name(without_package(argv[start]))):
            yield from _kinds_of_program((program, *argv[start + 1 :]), command)


def _find_meant(program: str) -> Iterable[str]:
    """Return the programs a name can mean: ``r[m]`` may be any it matches."""
    if not GLOB.search(program) or not re.search(r"\w", program):
        return (program,)
    return [name for name in {**_CHECKS, **rows()} if may_expand(program, name)]


def _kinds_of_program(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    program = argv[0]
    is_git = program == "git"  # a computed word may be any subcommand
    given = find_placeholders(command.text)
    words = [
        "*" if word in given or (is_git and COMPUTED.search(word)) else word for word in argv[1:]
    ]
    yield from find_in_table("$" if COMPUTED.search(program) else program, tuple(words))
    if program in REDIS and not _REDIS_LOSS.isdisjoint(map(str.lower, words)):
        yield "data"
    yield from find_remote_engines(argv, command)
    check = _CHECKS.get(program)
    if check is not None:
        yield from check(argv, command)
    if program in _SCRIPT_RUNNERS:
        yield from _find_tasks(argv, command)
        yield from find_printed_settings(argv)
    if program in INSTALLERS:
        yield from find_named_sources(argv)
    if is_git and has_many_aliases(argv):
        yield "unread"
    else:
        for meaning in expand_aliases(argv) if is_git else ():
            yield from kinds_of(meaning, command)
    yield from find_in_program_text(program, join_literals(command.text))


def _kinds_of_text(command: ShellCommand) -> Iterator[Kind]:
    """Yield the consequences of redirections, downloads and text run by a shell."""
    programs = command.programs
    if programs & FETCHERS and any(_runs_input(argv) for argv in command.possible):
        yield "others"
    if any(map(is_kept, command.emptied)):
        yield "files"
    if _runs_sending_script(command):
        yield "others"
    for find in _FIND_IN_TEXT:
        yield from find(command)


def _runs_sending_script(command: ShellCommand) -> bool:
    """Return whether a program or an interpreter's script sends something, by its name."""
    return any(
        _SENDING_SCRIPT.fullmatch(program_name(name)) and not _only_checks(name, command)
        for argv in command.possible
        if argv not in command.arguments
        for name in argv[without_version(program_name(argv[0])) in INTERPRETERS :][:1]
    )


def _only_checks(script: str, command: ShellCommand) -> bool:
    """Return whether a text only checks a script's syntax, as ``bash -n`` does."""
    uses = [
        argv[1] for argv in command.possible if program_name(argv[0]) in SHELLS and script in argv
    ]
    runs = re.search(rf"(?:^|[;&|\n(])[ \t]{{0,9}}{re.escape(script)}", command.text)
    return bool(uses) and set(uses) == {"-n"} and runs is None


def _runs_input(argv: Argv) -> bool:
    """Return whether a shell or an interpreter runs what it reads, or what a download printed."""
    if argv[0] in ("eval", "source", "."):
        return any(map(_FETCHED.search, argv[1:]))
    program = without_version(program_name(argv[0]))
    if program not in SHELLS and program not in INTERPRETERS:
        return False
    operands = [word for word in argv[1:] if not word.startswith("-")]
    return not operands or operands[0] == "-" or "curl" in operands[0] or "wget" in operands[0]


def _find_tasks(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a named task sends something to others."""
    del command
    words = argv[1 : argv.index("--")] if "--" in argv else argv[1:]
    if program_name(argv[0]) in _SCRIPT_RUNNERS:
        scripts = [
            word
            for word in words
            if word not in _BEFORE_SCRIPTS and word[:1] not in ("-", "+", "@")
        ]
        words = () if scripts[:1] and scripts[0] in _NO_SCRIPTS else tuple(scripts[:2])
    tries = is_harmless(argv, ("-n", "--dry-run", "--just-print"), ("-k", "-s", "-B"))
    if any(map(_TASKS.fullmatch, words)) and not tries:
        yield "others"


_FIND_IN_TEXT: tuple[Callable[[ShellCommand], Iterator[Kind]], ...] = (
    find_decoded,
    find_run_variables,
    find_downloaded_and_run,
    find_sockets,
    find_sent_in_addresses,
    find_git_by_environment,
    find_restored,
    find_set_sources,
    find_environments,
    find_loaded_code,
    find_production,
    find_emptied_in_loops,
    find_nothing_written,
)
_CHECKS: dict[str, Check] = {
    "git": find_git_losses,
    "rm": find_removed,
    "find": find_deleted,
    "cp": find_copied_over,
    "install": find_copied_over,
    "mv": find_moved_away,
    "ln": find_linked_over,
    "sed": find_sed_losses,
    "gsed": find_sed_losses,
    "fd": find_deleted,
    **dict.fromkeys(("tee", "sponge"), find_emptied_by_tee),
    "just": _find_tasks,
    "rsync": find_synchronized,
    "npx": find_packages_run,
    "go": find_packages_run,
    "deno": find_packages_run,
    **dict.fromkeys(CONTAINERS, find_container_secrets),
    **dict.fromkeys(("perl", "ruby"), find_emptied_by_code),
    **dict.fromkeys(_AWKS, find_emptied_by_awk),
    **dict.fromkeys((*EDITORS, "ed", "red"), find_emptied_by_editor),
    **dict.fromkeys(MESSENGERS, find_messages),
    **dict.fromkeys(LENDERS, find_lent_secrets),
    "ps": find_shown_environments,
    **dict.fromkeys(("pass", "gopass"), find_shown_passwords),
    **dict.fromkeys("shred srm wipe truncate unlink trash rimraf del dd".split(), find_named_files),
    **dict.fromkeys(("nc", "ncat", "netcat", "socat", "telnet", *PROBES), find_connections),
    **dict.fromkeys(FETCHERS, find_requests),
    **dict.fromkeys(CLOUDS, find_service_calls),
    **dict.fromkeys(DATABASE_PROGRAMS, find_database_hosts),
    **dict.fromkeys("pip pip3 npm python python3 uv yarn pnpm bun".split(), find_installs),
    **dict.fromkeys(
        "make gmake rake task mvn mvnw gradle gradlew ant nox tox".split(), _find_tasks
    ),
}
