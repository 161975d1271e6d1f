"""Task runners as data: the files deciding what each one runs."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from handrail._support import is_object
from handrail._support.private_files import read_file
from handrail.policy._shell.wrappers import (
    feeds_arguments,
    program_name,
    program_texts,
    runs_others,
    runs_text,
    without_version,
)

_FEEDING = frozenset("xargs parallel entr find fd fdfind".split())


def _table(text: str) -> dict[str, tuple[str, ...]]:
    """Read a table: names before the colon, files after it."""
    rows = (line.split(":") for line in text.split("\n") if ":" in line)
    return {name: tuple(files.split()) for names, files in rows for name in names.split()}


_FILES = _table("""
    make gmake bmake: GNUmakefile BSDmakefile makefile Makefile
    npm npx pnpm pnpx: package.json .npmrc .pnpmfile.cjs
    yarn yarnpkg bun bunx: package.json .npmrc .yarnrc .yarnrc.yml bunfig.toml
    task go-task: Taskfile.y*ml taskfile.y*ml Taskfile.dist.y*ml taskfile.dist.y*ml
    rake: Rakefile rakefile Rakefile.rb rakefile.rb
    uv uvx poetry pdm rye: pyproject.toml uv.toml poetry.toml pdm.toml
    hatch pipenv pixi: pyproject.toml hatch.toml Pipfile pixi.toml
    bundle: Gemfile .bundle/config
    composer: composer.json
    deno: deno.json deno.jsonc
    direnv: .envrc
    mise: mise.toml .mise.toml mise.local.toml .tool-versions
""")
"""Task and start-up files by program name."""
_FILES["just"] = ("justfile", "Justfile", ".justfile")
_PACKAGES = ("node_modules/.bin", "node_modules")
_ENVIRONMENTS = (".venv/bin", "venv/bin")
_FOLDERS = {
    **dict.fromkeys("npm npx pnpm pnpx yarn yarnpkg bun bunx".split(), _PACKAGES),
    **dict.fromkeys("uv poetry pdm hatch pipenv rye pixi".split(), _ENVIRONMENTS),
    "bundle": ("bin", "vendor/bin"),
    "composer": ("vendor/bin",),
}
"""Folders searched for programs by a runner."""
HARMLESS = frozenset(
    """
    : [ [[ awk basename black break case cat cd chmod clear continue cp curl cut date declare df
    dirname du echo exit export false fc-list for function gawk grep head hostname id jq kill local
    logger ls mawk mkdir mktemp mv notify-send paste popd printf ps pushd pwd read readlink realpath
    return rm rmdir ruff sed seq set sha256sum shift sleep sort ssh stat sync tail tee test touch tr
    trap true tty umask uname uniq unset wait wall wc which who whoami yes
    """.split()
)
"""Programs running no code from a folder, unless one word is a command, which is read."""
_WHOLE = frozenset(
    """
    ant ava bazel bazelisk buck2 cabal cargo celery cmake coverage ctest cypress django doctest
    dotnet eslint fastapi flask go gradle gradlew grunt gulp gunicorn hypercorn java jest jupyter
    lerna meson mix mocha mvn mvnw mypy next ninja nix nodemon nox nx phpunit pip pip3 playwright
    pre-commit py.test pylint pytest rebar3 rollup rspec run-parts sbt scons sphinx-build stack
    streamlit swift tox turbo unittest uvicorn vite vitest webpack zig
    """.split()
)
"""Programs building or running code from all over a workspace."""
TASK_RUNNERS = frozenset("make gmake bmake task go-task rake".split()) | {"just"}
"""Programs running the contents of one file."""
_SCRIPTED = frozenset("npm pnpm yarn yarnpkg bun".split())
_ALIASES = {
    **dict.fromkeys(("t", "tst"), ("test",)),
    "restart": ("restart", "stop", "start"),
}
"""npm words for scripts with other names."""
_EACH_PACKAGE = re.compile(
    r"--?w(?:s|orkspaces?)?(?:=.*)?|-r|--recursive|-F|--filter(?:=.*)?|workspaces?|foreach"
)
"""Words making a command run in other folders."""
_MODULE = re.compile(r"-[A-Za-z]*m(.*)")
_PYTHON = frozenset(["python", "pypy", "ipython"])
_CONFIGS = ("{}.config.*", ".{}rc", ".{}rc.*")
"""JavaScript settings files, often code themselves."""


def options_of(
    argv: tuple[str, ...], valued: Collection[str]
) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
    """Split a command into its first options, those with a value, and the words after them."""
    values: list[tuple[str, str]] = []
    at = 1
    while at < len(argv) and argv[at].startswith("-") and argv[at] != "--":
        option, sign, value = argv[at].partition("=")
        if argv[at] in valued:
            at += 1
            value, sign = "".join(argv[at : at + 1]), "="
        if sign and option in valued:
            values.append((option, value))
        at += 1
    return values, argv[at + (argv[at : at + 1] == ("--",)) :]


def find_modules(argv: tuple[str, ...]) -> Iterator[str]:
    """Yield the module run by Python, as in ``python -m checks``."""
    if not is_python(argv):
        return
    rest = options_of(argv, ("-W", "-X"))[1]
    for before, word in pairwise((*argv, "")):
        if option := _MODULE.fullmatch(before):
            yield option[1] or word
            return
        if rest and before is rest[0]:
            return


def loads_safely(argv: tuple[str, ...]) -> bool:
    """Return whether Python looks for no modules in its folder, as with ``-I`` or ``-P``."""
    rest = options_of(argv, ("-W", "-X", "-m", "-c"))[1]
    options = argv[1 : len(argv) - len(rest)]
    return any(re.fullmatch(r"-[A-Za-z]*[IP][A-Za-z]*", word) for word in options)


def is_python(argv: tuple[str, ...]) -> bool:
    """Return whether a command is Python."""
    return without_version(program_name(argv[0])) in _PYTHON


def runs_scripts(argv: tuple[str, ...]) -> bool:
    """Return whether a command runs package.json lines, all from one folder."""
    others = any(map(_EACH_PACKAGE.fullmatch, argv[1:]))
    return program_name(argv[0]) in _SCRIPTED and not others


def names_of(argv: tuple[str, ...]) -> list[str]:
    """Return the names under which a command is in the tables here."""
    name = program_name(argv[0])
    tops = [module.partition(".")[0] for module in find_modules(argv)]
    return [name, without_version(name), *tops]


def config_patterns(argv: tuple[str, ...]) -> Iterator[str]:
    """Yield patterns for the files deciding what a command runs, for the folder it runs in."""
    for name in filter(None, names_of(argv)):
        yield from _FILES.get(name, ())
        if re.fullmatch(r"[\w-]+", name):
            yield from (pattern.format(name) for pattern in _CONFIGS)


def program_folders(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the folders a runner searches for a program."""
    return _FOLDERS.get(program_name(argv[0]), ())


def runs_everything(argv: tuple[str, ...]) -> bool:
    """Return whether a command runs code from all over the workspace."""
    return not _WHOLE.isdisjoint(names_of(argv))


# an unread file may have more rights than a command, so doubt needs trust: decision 084
def describe_unknown(argv: tuple[str, ...]) -> str:
    """Return why a command may run more files than it names; empty if it does not."""
    name = program_name(argv[0])
    if runs_everything(argv):
        return f"`{name}` runs code from all over the workspace"
    if runs_text(argv) and not any(find_modules(argv)):
        return f"`{name}` runs text that is not in a file"
    if any("system" in text or "|" in text for text in program_texts(argv)):
        return f"`{name}` may run other programs"
    if name in _FEEDING and any(map(runs_others, argv[1:])) and not feeds_arguments(argv):
        return f"`{name}` may run any file"
    return ""


def read_scripts(argv: tuple[str, ...], folder: Path) -> Iterator[str]:
    """Yield the package.json lines run by a command there."""
    if program_name(argv[0]) not in _SCRIPTED:
        return
    scripts: Any = {}
    with suppress(OSError, ValueError, RecursionError, AttributeError):
        scripts = json.loads(read_file(folder / "package.json")).get("scripts")
    if is_object(scripts):
        words = [name for word in argv[1:] for name in _ALIASES.get(word, (word,))]
        names = {f"{hook}{word}" for word in words for hook in ("", "pre", "post")}
        yield from (
            line for name, line in scripts.items() if name in names and isinstance(line, str)
        )
