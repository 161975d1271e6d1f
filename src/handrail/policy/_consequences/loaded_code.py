"""Finds code written to files loaded automatically by test runners and builds.

The sandbox contains what a command runs. It does not contain what people run later, outside.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from handrail.policy._consequences.table import Kind, operands_of
from handrail.policy._rules.shell_command import ShellCommand, find_strings_in_code
from handrail.policy._shell.wrappers import program_name, without_version

_CODE = re.compile(
    r"conftest\.py|(?:site|user)customize\.py|noxfile\.py|\w+\.pth|\.pnpmfile\.cjs"
    r"|(?:jest|vitest|vite|karma|babel|playwright|cypress|wdio|ava|webpack|rollup)\.(?:config|conf)"
    r"(?:\.\w+)?\.[cm]?[jt]s|(?:jest|vitest)\.setup\.[cm]?[jt]s|\.(?:mocharc|eslintrc)\.c?js"
    r"|(?:GNU)?[Mm]akefile|Rakefile|[Jj]ustfile|build\.rs|gulpfile\.\w+|Gruntfile\.\w+"
)
_SETTINGS = re.compile(
    r"\.?pytest\.ini|tox\.ini|setup\.cfg|\.npmrc|\.yarnrc(?:\.yml)?|\.mocharc(?:\.\w+)?|\.coveragerc"
    r"|jest\.config\.json|\.babelrc|pyproject\.toml|package\.json|Taskfile\.ya?ml"
)
_RUNNERS = frozenset(
    """
    pytest py.test tox nox jest vitest mocha karma ava playwright cypress make gmake rake task
    cargo npm yarn pnpm bun npx bunx webpack vite rollup gulp grunt pre-commit eslint unittest
    """.split()
)
_RUNS_CODE = re.compile(
    r"os\.system|subprocess|popen|child_process|exec(?:Sync|File)?\s*\(|spawn|rmtree|rmSync|__import__"
    r"|urlopen|requests\.|socket\.|script-shell|onload-script|\$\(shell|curl\s|wget\s|git\s+(?:push|reset)"
    r"|rm\s+-\w*[rf]",
    re.IGNORECASE,
)
"""Code fragments for running programs, deleting files or reaching other machines."""
_LOADS = re.compile(r"-p\s+\w|--require|node-options|commands_pre|setupFiles|globalSetup")
"""Settings naming code to load."""
_COPIERS = frozenset("cp mv install ln rsync".split())
_IN_PLACE = re.compile(r"-[a-zA-Z]*i.*|--in-place.*")
_MANAGERS = frozenset(["npm", "pnpm", "bun"])
_EDITORS = frozenset("sed gsed perl ruby".split())
_WRITES = re.compile(r"write|['\"][wax]b?\+?['\"]|copy|move|rename|replace\(")


def find_loaded_code(command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a text puts risky code into a file loaded by other programs."""
    edited = {posixpath.basename(path) for path in _edited_files(command)}
    replaced = {posixpath.basename(path) for path in _replaced_files(command)}
    text = command.text
    runs = not _RUNNERS.isdisjoint(_programs_in(command))
    if any(map(_CODE.fullmatch, replaced)):
        found = runs
    elif any(map(_CODE.fullmatch, edited)):
        found = runs and r"\n" in text  # a line is added
    elif any(map(_SETTINGS.fullmatch, edited | replaced)):
        found = runs and _LOADS.search(text) is not None
    else:
        return
    if found or _RUNS_CODE.search(text):
        yield "code"


def _programs_in(command: ShellCommand) -> set[str]:
    named = (argv for argv in command.possible if argv not in command.arguments)
    return {
        program_name(argv[2] if argv[1:2] == ("-m",) and argv[2:] else argv[0]) for argv in named
    }


def _replaced_files(command: ShellCommand) -> Iterator[str]:
    """Yield the files a text writes, or those its strings name if it writes any."""
    yield from command.files
    for argv in command.possible:
        program = program_name(argv[0])
        if program == "tee":
            yield from operands_of(argv)
        elif program in _COPIERS:
            *sources, target = operands_of(argv) or ("",)
            yield target
            if "." not in posixpath.basename(target.rstrip("./")):  # a folder, as far as is known
                yield from sources
        elif program == "dd":
            yield from (word.removeprefix("of=") for word in argv if word.startswith("of="))
    if _WRITES.search(command.text):
        yield from find_strings_in_code(command)


def _edited_files(command: ShellCommand) -> Iterator[str]:
    for argv in command.possible:
        program = program_name(argv[0])
        edits = without_version(program) in _EDITORS and any(map(_IN_PLACE.fullmatch, argv[1:]))
        if program in _MANAGERS and argv[1:3] == ("pkg", "set"):
            yield "package.json"
        if edits or program == "patch":
            yield from operands_of(argv)
