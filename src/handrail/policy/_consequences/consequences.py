"""Consequences: what a shell command can lose or change that its sandbox does not contain.

Commands are found in the rough reading of the text, in every spelling: ``git -C x``, ``env git``,
``sh -c``, text piped into a shell, strings in ``python -c``. They need approval, but this search is
not a boundary: the sandbox is.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from itertools import pairwise

from handrail.policy._consequences.removals import (
    Check,
    find_copied_over,
    find_deleted,
    find_emptied_by_tee,
    find_moved_away,
    find_named_files,
    find_removed,
    is_kept,
)
from handrail.policy._consequences.requests import (
    CLOUDS,
    FETCHERS,
    PROBES,
    find_connections,
    find_database_hosts,
    find_installs,
    find_packages_run,
    find_requests,
    find_requests_in_code,
    find_service_calls,
    find_synchronized,
)
from handrail.policy._consequences.table import (
    COMPUTED,
    Argv,
    ConsequenceRow,
    Kind,
    git_settings,
    has_flag,
    is_meant,
    operands_of,
    rows,
)
from handrail.policy._rules.shell_command import ShellCommand, read_shell_command
from handrail.policy._shell.wrappers import SHELLS, matches, program_name, without_version

IN_EVERY_MODE: frozenset[Kind] = frozenset(["others", "settings", "unread"])
"""Consequences that need approval in every mode."""
_INTERPRETERS = frozenset("python node perl ruby php deno bun lua".split())
_SCRIPT_RUNNERS = frozenset("npm yarn pnpm bun cargo".split())
_SQL_CLIENTS = frozenset(
    "psql mysql mariadb sqlite3 duckdb mongosh mongo clickhouse-client cqlsh sqlcmd sqlplus".split()
)
_SQL_LOSS = re.compile(
    r"\b(?:drop\s+(?:table|database|schema|view|index|user|role|collection)|truncate\b"
    r"|delete\s+from\s+\S+\s*(?:;|$|['\"])|dropDatabase|deleteMany\(\s*\{\s*\}|\.drop\(\))",
    re.IGNORECASE | re.MULTILINE,
)
_CODE_LOSS = re.compile(
    r"\b(?:rmtree|os\.remove|os\.rmdir|removedirs|truncate|\w+\.unlink|rmSync|unlinkSync|rmdirSync"
    r"|truncateSync|fs\.(?:promises\.)?(?:rm|unlink|truncate)|FileUtils\.rm\w*|(?:File|Dir)\.(?:delete|unlink)"
    r"|unlink|rimraf|Deno\.remove\w*)\s*\((?!\s*['\"]/tmp/)|\)\.rm\("
    r"|open\([^()]*['\"]w['\"]\)\.close\("
)
_PERL_LOSS = re.compile(r"\b(?:unlink|rmtree|remove_tree|FileUtils\.rm\w*|File\.delete)\b")
"""The same in languages that need no brackets for a call."""
_RUNS_PROGRAMS = re.compile(
    r"system|popen|subprocess|exec|spawn|pty|child_process|Popen|run\(|call\(|shell|sh\(|`|%x|qx|eval|getline|\|"
)
"""Parts of code that can run a string as a command."""
_AWKS = frozenset("awk gawk mawk nawk".split())
_CODE_FLAG = re.compile(r"-\w*[ceEr]|--(?:eval|print|execute|run)")
_DECODES = re.compile(
    r"\bbase64\s++(?:-(?!\S*\bbase64\s)\S++\s++)*(?:-\w*[dD]|--d)|\buudecode\b"
    r"|\bxxd\s++(?:-(?!\S*\bxxd\s)\S++\s++)*-\w*r"
    r"|\bopenssl\s+(?:enc|base64)\b(?:(?!\bopenssl\s+(?:enc|base64)\b)[^|;&\n])*\s-d\b"
)
_SOURCES = re.compile(
    r"\b(?:PIP_(?:EXTRA_)?INDEX_URL|npm_config_registry|UV_(?:DEFAULT_|EXTRA_)?INDEX(?:_URL)?"
    r"|YARN_NPM_REGISTRY_SERVER|CARGO_REGISTRIES_\w+)=",
    re.IGNORECASE,
)
"""Variables that decide where packages come from."""
_LIST = re.compile(r"""\[\s*+(?:(['"])[^'"\n]*+\1\s*+,?+\s*+)+\]""")
_STRING = re.compile(r"""(['"])([^'"\n]*)\1""")
_FILE_NAME = re.compile(r".*\.[A-Za-z]\w{0,9}")
_USUAL_PATHS = frozenset(
    "src lib test tests docs app scripts pkg packages Makefile Dockerfile README LICENSE".split()
)
"""Names that are files or folders rather than branches."""
_TASKS = re.compile(
    r"(?!test|check|lint|build|\S*\s)(?:\w++[:-])*(?:\w+_)?(?:deploy|publish)(?:[:_-]\S*)?"
    r"|(?:release|upload)(?::\S*)?"
    r"|publish[A-Z]\w*"
)
"""Names of tasks that send something to others."""
_SENDING_SCRIPT = re.compile(r"(?:deploy|publish|release)(?:[_-][\w-]+)?(?:\.\w+)?")
"""Names of programs that do."""
_BEFORE_SCRIPTS = frozenset("run run-script workspace".split())
_NO_SCRIPTS = frozenset("test t build check start exec x install i add why info view ls".split())
"""Commands of package managers that are not followed by the name of a script."""


def find_consequences(
    command: ShellCommand, chosen: AbstractSet[Argv] = frozenset()
) -> dict[Kind, str]:
    """Return what a shell command can cause, each with the command that may cause it.

    ``chosen`` are commands that a written rule allows: their consequences were accepted.
    """
    found: dict[Kind, str] = {}
    for argv in commands_in(command):
        if argv not in chosen:
            for kind in kinds_of(argv, command):
                found.setdefault(kind, " ".join(argv))
    for kind in _kinds_of_text(command):
        found.setdefault(kind, command.text)
    return found


def find_computed(command: ShellCommand) -> list[Argv]:
    """Return the commands whose program is computed, such as ``$x push``."""
    return [argv for argv in command.possible if COMPUTED.search(argv[0])]


def commands_in(command: ShellCommand) -> Iterator[Argv]:
    """Yield the commands that a text runs, as far as it can be read."""
    programs, aliases = _programs_in(command), _aliases_in(command)
    printed = set(_printed_commands(command))
    for argv in command.possible:
        if argv not in command.arguments and argv not in printed:
            yield argv
            if len(argv) == 1 and "xargs" in programs and argv[0] in rows():
                yield (*argv, "*")
            if argv[0] in aliases:
                yield (*aliases[argv[0]], *argv[1:])
    if not _INTERPRETERS.isdisjoint(map(without_version, programs)):
        yield from _quoted_commands(command.text)
    if r"\n" in command.text and not SHELLS.isdisjoint(programs):  # as `printf` prints it
        yield from read_shell_command(command.text.replace(r"\n", "\n")).possible


def _aliases_in(command: ShellCommand) -> dict[str, list[str]]:
    named = (
        word.partition("=") for argv in command.possible if argv[0] == "alias" for word in argv
    )
    return {name: value.split() for name, _, value in named if value}


def _programs_in(command: ShellCommand) -> set[str]:
    return {program_name(argv[0]) for argv in command.possible if argv not in command.arguments}


def _printed_commands(command: ShellCommand) -> Iterator[Argv]:
    """Yield commands that are only strings in code that runs no program."""
    code = [
        word
        for argv in command.possible
        for flag, word in pairwise(argv)
        if _is_code(program_name(argv[0]), flag) and not _RUNS_PROGRAMS.search(word)
    ]
    rest = command.text
    for word in code:
        rest = rest.replace(word, "0")
    if rest != command.text:
        others = read_shell_command(rest).possible
        for argv in command.possible:
            if argv not in others and not set(argv).intersection(code):
                yield argv


def _is_code(program: str, flag: str) -> bool:
    """Return whether a program takes the word after a flag, or any word, for program text."""
    in_language = without_version(program) in _INTERPRETERS
    return program in _AWKS or (in_language and _CODE_FLAG.fullmatch(flag) is not None)


def _quoted_commands(text: str) -> Iterator[Argv]:
    """Yield strings and lists of strings in code, such as the argument of ``subprocess.run``."""
    for found in _LIST.finditer(text):
        words = tuple(word for _, word in _STRING.findall(found[0]) if word)
        if words:
            yield words
    if _RUNS_PROGRAMS.search(text):
        for _, line in _STRING.findall(text):
            yield from read_shell_command(line).possible


def kinds_of(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield the consequences of one of the commands in a shell command."""
    program = program_name(argv[0])
    is_git = program == "git"  # a computed word may be any of its subcommands
    words = ["*" if is_git and COMPUTED.search(word) else word for word in argv[1:]]
    for row in _rows_for(program):
        if is_meant((row.words[0], *words), row):
            yield row.kind
    check = _CHECKS.get(program)
    if check is not None:
        yield from check(argv, command)
    if program in _SCRIPT_RUNNERS:
        yield from _find_tasks(argv, command)
    if "-m" in argv[1:-1]:  # as in `python -m twine`
        yield from kinds_of(argv[argv.index("-m") + 1 :], command)
    yield from _kinds_of_code(program, command.text)


def _kinds_of_code(program: str, text: str) -> Iterator[Kind]:
    """Yield what the text of a program loses: in SQL, or in the language of an interpreter."""
    language = without_version(program)
    if program in _SQL_CLIENTS and _SQL_LOSS.search(text):
        yield "data"
    if language in _INTERPRETERS and _CODE_LOSS.search(text):
        yield "files"
    if language in ("perl", "ruby") and _PERL_LOSS.search(text):
        yield "files"
    if language in _INTERPRETERS:
        yield from find_requests_in_code(text)


def _rows_for(program: str) -> Iterable[ConsequenceRow]:
    """Return the rows of a program. A computed one may be any that has a further word."""
    if not COMPUTED.search(program):
        return rows().get(program, ())
    return (row for named in rows().values() for row in named if len(row.words) > 1)


def _kinds_of_text(command: ShellCommand) -> Iterator[Kind]:
    """Yield the consequences of redirections, of downloads and of text that a shell runs."""
    programs = _programs_in(command)
    if programs & FETCHERS and any(_runs_input(argv) for argv in command.possible):
        yield "others"
    if command.unread or (
        _DECODES.search(command.text) and programs & (SHELLS | {"eval", "source", "."})
    ):
        yield "unread"
    if any(map(is_kept, command.emptied)):
        yield "files"
    if any(map(_is_sending_script, programs)) and not _only_checks_syntax(command):
        yield "others"
    if _SOURCES.search(command.text):
        yield "credentials"


def _is_sending_script(program: str) -> bool:
    return _SENDING_SCRIPT.fullmatch(program) is not None


def _only_checks_syntax(command: ShellCommand) -> bool:
    return any(program_name(argv[0]) in SHELLS and "-n" in argv for argv in command.possible)


def _runs_input(argv: Argv) -> bool:
    """Return whether a shell or an interpreter runs what it reads, or what a download printed."""
    program = without_version(program_name(argv[0]))
    if program not in SHELLS and program not in _INTERPRETERS:
        return False
    operands = [word for word in argv[1:] if not word.startswith("-")]
    return not operands or operands[0] == "-" or "curl" in operands[0] or "wget" in operands[0]


def _find_git(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    if matches(argv, ("git", "restore")):
        staged, worktree = has_flag(argv, ("-S", "--staged")), has_flag(argv, ("-W", "--worktree"))
        if worktree or not staged:
            yield "work"
    elif matches(argv, ("git", "checkout")) and _checks_out_files(argv):
        yield "work"
    elif matches(argv, ("git", "clone")):
        if not any(word.startswith((".", "/", "~", "file://")) for word in operands_of(argv)[1:2]):
            yield "hosts"
    elif matches(argv, ("git", "config")) and _changes_settings(argv):
        yield "settings"
    for meaning in _expand_aliases(argv):
        yield from kinds_of(meaning, command)


def _expand_aliases(argv: Argv) -> Iterator[Argv]:
    """Yield what ``git -c alias.x=... x`` runs."""
    for at, word in enumerate(argv):
        if word.lower().startswith("alias.") and argv[at - 1] == "-c":
            yield ("git", *word.partition("=")[2].split(), *argv[at + 2 :])


def _changes_settings(argv: Argv) -> bool:
    """Return whether ``git config`` changes a setting that others obey, or one of the user."""
    words = argv[argv.index("config") + 1 :] if "config" in argv else argv[1:]
    operands = [word for word in words if not word.startswith("-")]
    reads = any(word.startswith(("--get", "--list", "-l")) for word in words)
    reads = reads or operands[:1] in (["get"], ["list"])
    removes = any(word.startswith(("--un", "--re", "--ed", "-e")) for word in words)
    if reads or (len(operands) <= 1 and not removes):
        return False
    shared = any(word.startswith(("--gl", "--sy")) for word in words)
    return shared or any(word.lower().startswith(git_settings()) for word in operands)


def _checks_out_files(argv: Argv) -> bool:
    """Return whether a checkout may overwrite files of the work tree."""
    rest = argv[argv.index("checkout") + 1 :] if "checkout" in argv else argv[1:]
    if "--" in rest:
        return len(rest) > rest.index("--") + 1
    if any(word.startswith("--pathspec-from") for word in rest):
        return True
    if has_flag(
        ("git", *rest), ("-b", "--orphan", "--detach", "-t", "--track", "--ours", "--theirs")
    ):
        return False
    operands = [word for word in rest if not word.startswith("-")]
    return len(operands) > 1 or any(_names_files(word) for word in operands)


def _names_files(word: str) -> bool:
    is_path = word in (".", "..") or word.startswith(("./", "../", ":")) or word.endswith("/")
    is_path = is_path or word in _USUAL_PATHS
    return is_path or "*" in word or _FILE_NAME.fullmatch(posixpath.basename(word)) is not None


def _find_tasks(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether one of the tasks that a command names sends something to others."""
    del command
    words = argv[1 : argv.index("--")] if "--" in argv else argv[1:]
    if program_name(argv[0]) in _SCRIPT_RUNNERS:
        scripts = [
            word
            for word in words
            if word not in _BEFORE_SCRIPTS and word[:1] not in ("-", "+", "@")
        ]
        words = () if scripts[:1] and scripts[0] in _NO_SCRIPTS else tuple(scripts[:2])
    if any(map(_TASKS.fullmatch, words)) and not {"-n", "--dry-run", "--just-print"} & set(argv):
        yield "others"


_CHECKS: dict[str, Check] = {
    "git": _find_git,
    "rm": find_removed,
    "find": find_deleted,
    "cp": find_copied_over,
    "install": find_copied_over,
    "mv": find_moved_away,
    "tee": find_emptied_by_tee,
    "just": _find_tasks,
    "rsync": find_synchronized,
    "npx": find_packages_run,
    "go": find_packages_run,
    "deno": find_packages_run,
    **dict.fromkeys("shred srm wipe truncate unlink trash rimraf del dd".split(), find_named_files),
    **dict.fromkeys(("nc", "ncat", "netcat", "socat", "telnet", *PROBES), find_connections),
    **dict.fromkeys(FETCHERS, find_requests),
    **dict.fromkeys(CLOUDS, find_service_calls),
    **dict.fromkeys((*_SQL_CLIENTS, "redis-cli", "pg_dump", "mysqldump"), find_database_hosts),
    **dict.fromkeys("pip pip3 npm python python3 uv yarn pnpm bun".split(), find_installs),
    **dict.fromkeys(
        "make gmake rake task mvn mvnw gradle gradlew ant nox tox".split(), _find_tasks
    ),
}
