"""Files loaded by a name without an ending, or in place of others with this name."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from handrail.policy._code.runners import (
    HARMLESS,
    find_modules,
    is_python,
    loads_safely,
    options_of,
)
from handrail.policy._shell.rough import ReadLine
from handrail.policy._shell.wrappers import program_name

_ENDINGS = tuple(
    ".js .cjs .mjs .ts .json .py .rb .lua .pl /index.js /index.cjs /index.mjs /index.ts".split()
)
_OPTIONS = ("NODE_OPTIONS", "RUBYOPT", "PERL5OPT")
_SAFE_PATH = "PYTHONSAFEPATH"
_MODULE = re.compile(r"(\w+)(?:\.pyc?|(?:\.[\w-]+)?\.(?:so|pyd))")
_MAX_FIRST_LINE = 200


def find_loaded(
    read: ReadLine, folders: Sequence[Path], variables: Mapping[str, str], named: Sequence[Path]
) -> Iterator[Path]:
    """Yield files loaded from folders by commands without their full names."""
    given = [word for name in _OPTIONS for word in variables.get(name, "").split()]
    running = [argv for argv in read.programs if program_name(argv[0]) not in HARMLESS]
    words = [word for argv in running for word in argv[1:]]
    parts = dict.fromkeys(part for word in (*given, *words) for part in _parts(word))
    for folder in folders:
        for part in parts:
            yield from with_endings(folder, part)
    for folder in dict.fromkeys(_module_folders(read, folders, variables, named)):
        yield from _find_shadows(folder)


def with_endings(folder: Path, word: str) -> Iterator[Path]:
    """Yield the files a word names with an added ending."""
    for start in (word, f"node_modules/{word}"):
        path = os.path.join(folder, start)  # noqa: PTH118  faster
        yield from (
            Path(path + ending)
            for ending in _ENDINGS
            if os.path.isfile(path + ending)  # noqa: PTH113  raises nothing
        )


def _parts(word: str) -> Iterator[str]:
    """Yield what may be a name in a word, as in ``--require=./lib/x`` or ``pkg.server:app``."""
    attached = re.sub(r"^-\w", "", word)  # as in `-r./lib/x`
    for part in (*re.split(r"[=:]", word), attached):
        if part and not part.endswith("/") and part not in {".", ".."}:
            yield part
            yield part.replace(".", "/").lstrip("/")


def _module_folders(
    read: ReadLine, folders: Sequence[Path], variables: Mapping[str, str], named: Sequence[Path]
) -> Iterator[Path]:
    """Yield the folders in which Python looks for modules before its standard library."""
    pythons = list(filter(is_python, read.commands))
    safe = bool(pythons) and all(map(loads_safely, pythons))
    if safe or _SAFE_PATH in {*variables, *read.assigned}:
        return
    yield from (path.resolve().parent for path in named if _is_python(path))
    for argv in pythons:
        if any(find_modules(argv)) or not options_of(argv, ("-W", "-X"))[1]:
            yield from folders
    for value in (variables.get("PYTHONPATH", ""), *read.assigned.get("PYTHONPATH", ())):
        yield from (folder / path for path in value.split(":") if path for folder in folders)


def _find_shadows(folder: Path) -> Iterator[Path]:
    """Yield a folder's modules and packages with standard library names."""
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            module = _MODULE.fullmatch(path.name)
            name = module[1] if module else path.name
            if name in sys.stdlib_module_names and (module or any(path.glob("__init__.*"))):
                yield path


def _is_python(path: Path) -> bool:
    """Return whether a file is a Python program, by its name or its first line."""
    if path.suffix in {".py", ".pyw"}:
        return True
    first = b""
    with suppress(OSError), path.open("rb") as file:
        first = file.readline(_MAX_FIRST_LINE)
    return first.startswith(b"#!") and b"python" in first
