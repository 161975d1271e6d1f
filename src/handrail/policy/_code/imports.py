"""Which files does a code file import?

Only its text counts: names computed at run time are not read. Every file a name could mean counts,
even if the interpreter would prefer another one.
"""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Literal, TypeAlias

from handrail.policy._shell.wrappers import SHELLS, program_name, without_version

Language: TypeAlias = Literal["python", "javascript", "shell"]
_SCRIPTS = (".js", ".cjs", ".mjs", ".jsx", ".ts", ".cts", ".mts", ".tsx")
_SUFFIXES: dict[str, Language] = {
    **dict.fromkeys((".py", ".pyw"), "python"),
    **dict.fromkeys(_SCRIPTS, "javascript"),
    **dict.fromkeys((".sh", ".bash", ".zsh", ".ksh"), "shell"),
}
_INTERPRETERS: dict[str, Language] = {
    **dict.fromkeys(("python", "pypy"), "python"),
    **dict.fromkeys(("node", "nodejs", "deno", "bun", "tsx", "ts-node"), "javascript"),
    **dict.fromkeys(SHELLS, "shell"),
}
_FIRST_LINE = re.compile(rb"#!([^\n]*)")
_MODULE = re.compile(r"(\w+)(?:\.pyc?|(?:\.[\w-]+)?\.(?:so|pyd))")
"""A module file, compiled or not."""
_LOADED = re.compile(
    r"""\b(?:from|import|require)\s*+\(?+\s*+(?:"([^"\n]*+)"|'([^'\n]*+)'|`([^`\n]*+)`)"""
)
_ENDINGS = ("", *_SCRIPTS, ".json", ".node")
_MAX_KEPT = 512
"""Files whose imports are kept, as they are read again before each start."""


def language_of(path: Path, content: bytes) -> Language | None:
    """Return a file's language by its name or first line, or None if unknown.

    A text without either may be a shell script.
    """
    if language := _SUFFIXES.get(path.suffix):
        return language
    if first := _FIRST_LINE.match(content):
        words = first[1].decode(errors="replace").split()
        names = [without_version(program_name(word)) for word in words]
        return next((_INTERPRETERS[name] for name in names if name in _INTERPRETERS), None)
    return None if path.suffix or b"\0" in content else "shell"


def is_code(path: Path) -> bool:
    """Return whether a file is named like code in a known language."""
    return path.suffix in _SUFFIXES


@dataclass(slots=True)
class Imports:
    """Imports in code files. Each folder is listed once."""

    _modules: dict[Path, dict[str, list[Path]]] = field(
        default_factory=dict[Path, dict[str, list[Path]]]
    )
    """Modules by name, for each folder."""

    def of_python(self, path: Path, content: bytes, folders: Sequence[Path]) -> Iterator[Path]:
        """Yield the files that a Python file imports. Raises ValueError if it is not Python.

        Args:
            path: The file.
            content: Its content.
            folders: Where Python looks for modules.
        """
        for level, name in _read_python(content):
            starts = [path.parents[min(level, len(path.parents)) - 1]] if level else folders
            for start in starts:
                yield from self._find_module(start, name.split("."))

    def _find_module(self, folder: Path, parts: Sequence[str]) -> Iterator[Path]:
        for part in parts:
            yield from self._modules_in(folder).get(part, ())
            folder /= part
            yield from self._modules_in(folder).get("__init__", ())
        if parts[-1] == "*":
            for modules in self._modules_in(folder.parent).values():
                yield from modules

    def _modules_in(self, folder: Path) -> dict[str, list[Path]]:
        if folder not in self._modules:
            found: dict[str, list[Path]] = {}
            with suppress(OSError):
                for path in sorted(folder.iterdir()):
                    if module := _MODULE.fullmatch(path.name):
                        found.setdefault(module[1], []).append(path)
            self._modules[folder] = found
        return self._modules[folder]

    def of_javascript(self, path: Path, content: bytes) -> Iterator[Path]:
        """Yield the files imported by a JavaScript or TypeScript file.

        A folder with a package.json is yielded as a whole. Package names are not followed.
        """
        for name in _read_javascript(content):
            base = Path(os.path.normpath(path.parent / name))
            starts = [base, base / "index"]
            if base.suffix in {".js", ".cjs", ".mjs", ".jsx"}:  # from a TypeScript file
                starts.append(base.with_suffix(""))
            yield from _files(f"{start}{ending}" for start, ending in product(starts, _ENDINGS))
            if any(_files([f"{base}/package.json"])):
                yield base


def _files(names: Iterable[str]) -> Iterator[Path]:
    yield from (Path(name) for name in names if os.path.isfile(name))  # noqa: PTH113  raises nothing


@lru_cache(_MAX_KEPT)
def _read_python(content: bytes) -> tuple[tuple[int, str], ...]:
    """Return the modules imported by a text, each with the number of dots before its name."""
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(content)
    except (SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError(str(error)) from None
    names: dict[tuple[int, str], None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {(0, alias.name): None for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            prefix = f"{node.module}." if node.module else ""
            names |= {(node.level, f"{prefix}{alias.name}"): None for alias in node.names}
    return tuple(names)


@lru_cache(_MAX_KEPT)
def _read_javascript(content: bytes) -> tuple[str, ...]:
    """Return the paths imported by a text."""
    found = _LOADED.finditer(content.decode(errors="replace"))
    names = ("".join(filter(None, one.groups())) for one in found)
    return tuple(dict.fromkeys(name for name in names if re.match(r"\.{0,2}(?:/|$)", name)))
