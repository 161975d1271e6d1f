"""Consequences: what a shell command can lose or change that its sandbox does not contain.

Commands are found in the rough reading of the text, in every spelling: ``git -C x``, ``env git``,
``sh -c``, text piped into a shell, strings in ``python -c``. They need approval, but this search is
not a boundary: the sandbox is.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import TypeAlias

from handrail.policy._decisions.consequence_table import (
    REASONS,
    ConsequenceRow,
    Kind,
    git_settings,
    rows,
)
from handrail.policy._rules.shell_command import ShellCommand, read_shell_command
from handrail.policy._shell.wrappers import SHELLS, matches, program_name

_Argv: TypeAlias = tuple[str, ...]
_Argvs: TypeAlias = Sequence[_Argv]

CHANGES_OTHERS: frozenset[Kind] = frozenset(["others"])
"""Consequences that need approval in every mode."""
_CLUSTER = re.compile(r"-[A-Za-z0-9]+")
_DRY_CLUSTER = re.compile(r"-[dfqxX]*n[dfqxX]*")
_KNOWN_VARIABLES = re.compile(r"\$\{?(TMPDIR|PWD)\b\}?")
_COMPUTED = re.compile(r"[$`]")
_MIN_ABBREVIATION = 4
"""Characters of the shortest abbreviation of a long flag, with its dashes."""

_MADE_NAMES = frozenset(
    """
    node_modules __pycache__ .pytest_cache .mypy_cache .ruff_cache .hypothesis .tox .nox .eggs
    htmlcov .nyc_output .next .nuxt .turbo .parcel-cache .cache .gradle .svelte-kit .angular
    .terraform .ipynb_checkpoints cmake-build-debug cmake-build-release _build .vite .expo
    storybook-static test-results playwright-report
    """.split()
)
"""Names of folders that builds, tests and tools make again, wherever they are."""
_BUILT_NAMES = frozenset(
    """
    build dist out target coverage tmp .tmp .coverage junit.xml coverage.xml coverage.json
    .DS_Store tsconfig.tsbuildinfo nohup.out
    """.split()
)
"""The same at the top of a workspace, or as the last part of a path."""
_MADE_SUFFIXES = (
    ".pyc .pyo .o .obj .class .log .tmp .swp .swo .egg-info .dist-info .tsbuildinfo .pid .gcda"
).split()
_TEMPORARY = ("/tmp/", "/var/tmp/", "/dev/null")  # noqa: S108

_REMOVERS = frozenset("find fd xargs rm".split())
_OTHER_FILES = frozenset("! -not -o -or -prune , ( \\( -newer -mtime".split())
"""Words of a search that make it find files with other names."""
_FETCHERS = frozenset("curl wget fetch aria2c http https xh curlie".split())
_INTERPRETERS = frozenset("python node perl ruby php deno bun lua".split())
_SCRIPT_RUNNERS = frozenset("npm yarn pnpm bun cargo".split())
_SENDING = frozenset(
    """
    -d --data --data-raw --data-binary --data-urlencode --data-ascii --json -F --form --form-string
    -T --upload-file --post-data --post-file --body-data --body-file
    """.split()
)
_INSTALLS = frozenset(("install", "i", "download"))
_DECLARED = ("-r", "--requirement", "-e", "--editable", "-c", "--constraint")
_METHOD = re.compile(r"(POST|PUT|PATCH|DELETE)\b", re.IGNORECASE)
_HARMLESS_METHOD = re.compile(r"(GET|HEAD|OPTIONS)\b", re.IGNORECASE)
_LOCAL = re.compile(
    r"(?:\w+://)?(?:[^/@\s]*@)?(?:localhost|127(?:\.\d+){3}|0\.0\.0\.0|\[::1?\]|[\w-]+\.localhost)?(?::\d+)?(?:/|$)"
)
_ADDRESS = re.compile(
    r"^(?:\w+://|[^/\s]+@|localhost\b|127\.|0\.0\.0\.0|\[::|:\d|:/)|^[\w-]+(?:\.[\w-]+)+(?:[:/]|$)"
)
_SQL_CLIENTS = frozenset(
    "psql mysql mariadb sqlite3 duckdb mongosh mongo clickhouse-client cqlsh sqlcmd sqlplus".split()
)
_SQL_LOSS = re.compile(
    r"\b(?:drop\s+(?:table|database|schema|view|index|user|role|collection)|truncate\b"
    r"|delete\s+from\s+\S+\s*(?:;|$|['\"])|dropDatabase|deleteMany\(\s*\{\s*\}|\.drop\(\))",
    re.IGNORECASE | re.MULTILINE,
)
_CODE_LOSS = re.compile(
    r"\b(?:rmtree|os\.remove|os\.unlink|os\.rmdir|removedirs|\w+\.unlink|rmSync|unlinkSync|rmdirSync"
    r"|fs\.(?:promises\.)?(?:rm|unlink)|FileUtils\.rm\w*|File\.delete|unlink|rimraf)\s*[(\s]"
)
_LIST = re.compile(r"""\[\s*(?:(['"])[^'"\n]*\1\s*,?\s*)+\]""")
_STRING = re.compile(r"""(['"])([^'"\n]*)\1""")
_FILE_NAME = re.compile(r".*\.[A-Za-z]\w{0,9}")
_USUAL_PATHS = frozenset(
    "src lib test tests docs app scripts pkg packages Makefile Dockerfile README LICENSE".split()
)
"""Names that are files or folders rather than branches."""
_TASKS = re.compile(r"(?:deploy|publish|release|upload)(?::.*)?|publish[A-Z]\w*")
"""Names of tasks that send something to others."""
_REMOTE_FILE = re.compile(r"(?:[\w.-]+@)?[\w.-]+:(?!\\)|rsync://")


def find_consequences(
    command: ShellCommand, chosen: AbstractSet[_Argv] = frozenset()
) -> dict[Kind, str]:
    """Return what a shell command can cause, each with the command that may cause it.

    ``chosen`` are commands that a written rule allows: their consequences were accepted.
    """
    found: dict[Kind, str] = {}
    if _KNOWN_VARIABLES.search(command.text):
        command = read_shell_command(_KNOWN_VARIABLES.sub(_replace_variable, command.text))
    possible = [*command.possible, *_quoted_lists(command.text)]
    if r"\n" in command.text:  # as `printf` prints it
        possible += read_shell_command(command.text.replace(r"\n", "\n")).possible
    for argv in possible:
        if argv in chosen:
            continue
        for kind in _kinds_of(argv, command.possible, command.text):
            found.setdefault(kind, " ".join(argv))
    for kind in _kinds_of_text(command):
        found.setdefault(kind, command.text)
    return found


def find_computed(command: ShellCommand) -> list[_Argv]:
    """Return the commands whose program is computed, such as ``$x push``."""
    return [argv for argv in command.possible if _COMPUTED.search(argv[0])]


def _replace_variable(variable: re.Match[str]) -> str:
    return "/tmp" if variable[1] == "TMPDIR" else "."  # noqa: S108  the sandbox has its own


def _quoted_lists(text: str) -> Iterator[_Argv]:
    """Yield lists of strings in code, such as the argument of ``subprocess.run``."""
    for found in _LIST.finditer(text):
        words = tuple(word for _, word in _STRING.findall(found[0]) if word)
        if words:
            yield words


def describe_consequence(kind: Kind) -> str:
    """Return why a command with a consequence needs approval, as a clause."""
    return REASONS[kind]


def _kinds_of(argv: _Argv, beside: _Argvs, text: str) -> Iterator[Kind]:
    program = program_name(argv[0])
    is_git = program == "git"  # a computed word may be any of its subcommands
    words = ["*" if is_git and _COMPUTED.search(word) else word for word in argv[1:]]
    for row in _rows_for(program):
        if _is_meant((row.words[0], *words), row):
            yield row.kind
    special = _SPECIAL.get(program)
    if special is not None:
        yield from special(argv, beside)
    if program in _SCRIPT_RUNNERS:
        yield from _task(argv, beside)
    if "-m" in argv[1:-1]:  # as in `python -m twine`
        yield from _kinds_of(argv[argv.index("-m") + 1 :], beside, text)
    if program in _SQL_CLIENTS and _SQL_LOSS.search(text):
        yield "data"
    if program.rstrip("0123456789.") in _INTERPRETERS and _CODE_LOSS.search(text):
        yield "files"


def _rows_for(program: str) -> Iterable[ConsequenceRow]:
    """Return the rows of a program. A computed one may be any that has a further word."""
    if not _COMPUTED.search(program):
        return rows().get(program, ())
    return (row for named in rows().values() for row in named if len(row.words) > 1)


def _kinds_of_text(command: ShellCommand) -> Iterator[Kind]:
    """Yield the consequences of redirections, and of a download that a shell runs."""
    programs = {program_name(argv[0]) for argv in command.possible}
    if programs & _FETCHERS and any(_runs_input(argv) for argv in command.possible):
        yield "others"
    if programs <= {":", "true"} and any(not _is_made(path) for path in command.files):
        yield "files"  # `: > file` and `> file` empty it


def _runs_input(argv: _Argv) -> bool:
    """Return whether a shell or an interpreter runs what it reads, or what a download printed."""
    program = program_name(argv[0]).rstrip("0123456789.")
    if program not in SHELLS and program not in _INTERPRETERS:
        return False
    operands = [word for word in argv[1:] if not word.startswith("-")]
    return not operands or operands[0] == "-" or "curl" in operands[0] or "wget" in operands[0]


def _is_meant(argv: _Argv, row: ConsequenceRow) -> bool:
    return (
        matches(argv, row.words)
        and (not row.flags or _has_flag(argv, row.flags))
        and not (row.harmless and _is_harmless(argv, row.harmless))
    )


def _is_harmless(argv: _Argv, harmless: Iterable[str]) -> bool:
    """Return whether a word makes a command harmless: exactly, or in a cluster without values."""
    dry = "-n" in harmless and any(map(_DRY_CLUSTER.fullmatch, argv[1:]))
    return dry or not set(harmless).isdisjoint(argv[1:])


def _has_flag(argv: _Argv, flags: Iterable[str]) -> bool:
    """Return whether a command has one of these flags: alone, in a cluster, or abbreviated."""
    return any(_may_be_flag(word, flag) for word in argv[1:] for flag in flags)


def _may_be_flag(word: str, flag: str) -> bool:
    name = word.partition("=")[0]
    if name == flag:
        return True
    if flag.startswith("--"):
        return len(name) >= _MIN_ABBREVIATION and flag.startswith(name) and name.startswith("--")
    is_short = flag.startswith("-") and len(flag) == 2  # noqa: PLR2004
    return is_short and _CLUSTER.fullmatch(word) is not None and flag[1] in word


def _operands(argv: _Argv) -> list[str]:
    words = list(argv[1:])
    if "--" in words:
        at = words.index("--")
        return [word for word in words[:at] if not word.startswith("-")] + words[at + 1 :]
    return [word for word in words if not word.startswith("-")]


def _is_made(path: str) -> bool:
    """Return whether a path names something temporary, or something that tools make again."""
    if _COMPUTED.search(path):
        return False
    if path.startswith(_TEMPORARY):
        return ".." not in path
    parts = posixpath.normpath(path.rstrip("*")).strip("/").split("/")
    if ".." in parts or path.startswith(("/", "~")) or parts == ["."]:
        return False
    if not _MADE_NAMES.isdisjoint(parts) or not _BUILT_NAMES.isdisjoint((parts[0], parts[-1])):
        return True
    return parts[-1].endswith(tuple(_MADE_SUFFIXES))


def _removal(argv: _Argv, beside: _Argvs) -> Iterator[Kind]:
    operands = [word for word in _operands(argv) if word not in ("{}", "+", ";", "\\;")]
    if operands:
        if not all(_is_made(path) for path in operands):
            yield "files"
    elif not _finds_only_made(beside):
        yield "files"


def _finds_only_made(beside: _Argvs) -> bool:
    """Return whether everything that is removed comes from searches for what tools make again."""
    searches = [argv for argv in beside if program_name(argv[0]) in ("find", "fd")]
    words = " ".join(word for argv in beside for word in argv[1:])
    names = {program_name(argv[0]) for argv in beside}
    others = {name for name in names if name not in words}  # an argument is no program
    return bool(searches) and others <= _REMOVERS and all(map(_finds_made, searches))


def _finds_made(argv: _Argv) -> bool:
    """Return whether a search is only for files that tools make again."""
    if not _OTHER_FILES.isdisjoint(argv):
        return False
    words = [
        value
        for flag, value in pairwise(argv)
        if flag in ("-name", "-iname", "-path", "-wholename", "-regex", "-g", "--glob", "-e")
    ]
    names = [word.strip("*/").removeprefix("*") for word in words]
    return bool(names) and all(
        _is_made(word) or name in _MADE_NAMES or f".{name}" in _MADE_SUFFIXES
        for word, name in zip(words, names, strict=True)
    )


def _search(argv: _Argv, beside: _Argvs) -> Iterator[Kind]:
    del beside
    if "-delete" in argv and not _finds_made(argv):
        yield "files"


def _git(argv: _Argv, beside: _Argvs) -> Iterator[Kind]:
    del beside
    if matches(argv, ("git", "restore")):
        staged, worktree = (
            _has_flag(argv, ("-S", "--staged")),
            _has_flag(argv, ("-W", "--worktree")),
        )
        if worktree or not staged:
            yield "work"
    elif matches(argv, ("git", "checkout")) and _checks_out_files(argv):
        yield "work"
    elif any(word.lower().startswith("alias.") for word in argv) and "-c" in argv:
        yield from ("work", "others")  # a word may be any subcommand
    elif matches(argv, ("git", "config")):
        keys = [word.lower() for word in argv[1:]]
        if any(key.startswith(git_settings()) for key in keys):
            yield "credentials"


def _checks_out_files(argv: _Argv) -> bool:
    """Return whether a checkout may overwrite files of the work tree."""
    rest = argv[argv.index("checkout") + 1 :] if "checkout" in argv else argv[1:]
    if "--" in rest:
        return len(rest) > rest.index("--") + 1
    if any(word.startswith("--pathspec-from") for word in rest):
        return True
    if _has_flag(("git", *rest), ("-b", "--orphan", "--detach", "-t", "--track")):
        return False
    operands = [word for word in rest if not word.startswith("-")]
    return len(operands) > 1 or any(_names_files(word) for word in operands)


def _names_files(word: str) -> bool:
    is_path = word in (".", "..") or word.startswith(("./", "../", ":")) or word.endswith("/")
    is_path = is_path or word in _USUAL_PATHS
    return is_path or "*" in word or _FILE_NAME.fullmatch(posixpath.basename(word)) is not None


def _request(argv: _Argv, beside: _Argvs) -> Iterator[Kind]:
    """Yield what a request to a server that is not this machine does there."""
    del beside
    methods = [*_values_of(argv, ("-X", "--request", "--method")), *argv[1:2]]
    sends = _has_flag(argv, _SENDING) and not any(map(_HARMLESS_METHOD.fullmatch, methods))
    changes = sends or any(map(_METHOD.fullmatch, methods))
    addresses = [word for word in argv[1:] if _ADDRESS.match(word) or "$" in word]
    if not (addresses and all(map(_LOCAL.match, addresses))):
        yield "others" if changes else "hosts"


def _values_of(argv: _Argv, flags: Sequence[str]) -> Iterator[str]:
    for word, value in zip(argv, (*argv[1:], ""), strict=True):
        name, equals, glued = word.partition("=")
        if name in flags:
            yield glued if equals else value
        elif word.startswith("-X"):
            yield word[2:]


def _task(argv: _Argv, beside: _Argvs) -> Iterator[Kind]:
    """Yield whether one of the tasks that a command names sends something to others."""
    del beside
    if any(map(_TASKS.fullmatch, argv[1:])):
        yield "others"


def _copy(argv: _Argv, beside: _Argvs) -> Iterator[Kind]:
    """Yield whether a copy goes to another machine."""
    del beside
    if any(_REMOTE_FILE.match(word) for word in _operands(argv)):
        yield "others"


def _install(argv: _Argv, beside: _Argvs) -> Iterator[Kind]:
    """Yield whether a package manager installs a package that the project does not declare."""
    del beside
    words = argv[1:]
    commands = [at for at, word in enumerate(words) if word in _INSTALLS]
    named = _operands(("", *words[commands[0] + 1 :])) if commands else []
    if _has_flag(argv, _DECLARED):
        named = [word for word in named if not _is_local_package(word)][1:]
    if any(not _is_local_package(word) for word in named):
        yield "hosts"


def _is_local_package(word: str) -> bool:
    return word in (".", "-") or word.startswith(("./", "../", ".[", "/")) or word.endswith(".whl")


def _run_package(argv: _Argv, beside: _Argvs) -> Iterator[Kind]:
    """Yield whether a package is downloaded to be run: its name has a version, or it creates."""
    del beside
    named = [word for word in argv[1:] if not word.startswith("-")][:1]
    if any("@" in word[1:] or word.startswith("create-") for word in named):
        yield "hosts"


_SPECIAL: dict[str, Callable[[_Argv, _Argvs], Iterator[Kind]]] = {
    "git": _git,
    "rm": _removal,
    "find": _search,
    "rsync": _copy,
    **dict.fromkeys(_FETCHERS, _request),
    **dict.fromkeys(
        ("pip", "pip3", "npm", "python", "python3", "uv", "yarn", "pnpm", "bun"), _install
    ),
    "npx": _run_package,
    **dict.fromkeys("make gmake rake task mvn mvnw gradle gradlew ant nox tox".split(), _task),
}
