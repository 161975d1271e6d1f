"""Loads tools and models from a Python file, or by name from a file or a module.

Code named by an option or the user's settings runs without a check. Code named by the workspace's
settings runs only if the user has trusted exactly this code. The same holds for all its imports
from the workspace.
"""

from __future__ import annotations

import importlib
import re
import site
import sys
import sysconfig
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, TypeVar, cast

import handrail
from handrail import HandrailError, Registry, Tool, Toolset
from handrail._support.private_files import read_file
from handrail.cli._base.exits import Halt
from handrail.cli._base.settings import OWN, SettingOrigin, closest_name, files, is_trusted

_FILE = re.compile(r"(?P<file>.+\.py)(?::(?P<name>[^:]+))?")
_T = TypeVar("_T")
_DECORATE = "decorate a function with `@tool` from handrail, and pass FILE.py or FILE.py:NAME"
_SOURCES = "use coding, FILE.py, FILE.py:NAME or MODULE:NAME"


class NoModule(Halt):
    """A source names a missing module."""


def load_tools(source: str, workspace: Path, origin: SettingOrigin) -> Toolset:
    """Return a source's tools: FILE.py, FILE.py:NAME or MODULE:NAME."""
    if not source:
        raise Halt("an empty string is not a source of tools", code="tools", hint=_SOURCES)
    loaded = load_source(source, workspace, origin)
    given = _public(loaded) if isinstance(loaded, ModuleType) else [loaded]
    try:
        tools = Toolset(*(tool for each in given for tool in _tools(each)))
    except (HandrailError, TypeError) as error:
        raise Halt(f"{source}: {error}", code="tools", hint=_DECORATE) from None
    if not len(tools):
        raise Halt(f"{source} has no tools", code="tools", hint=_DECORATE)
    return tools


def load_source(source: str, workspace: Path, origin: SettingOrigin) -> Any:
    """Return a source's object: a module, or something in one."""
    if in_file := _FILE.fullmatch(source):
        where, name = in_file["file"], in_file["name"]
        loaded: Any = _file(where, workspace, origin)
    else:
        where, _, name = source.partition(":")
        loaded = _module(where, workspace, origin)
    for step in name.split(".") if name else ():
        loaded = _get_attribute(loaded, step, name, where)
    return loaded


def code_files(source: str, workspace: Path) -> list[Path]:
    """Return the workspace files whose code a source would run, by its name alone."""
    try:
        return [file for file in _candidate_files(source, workspace) if file.is_file()]
    except (OSError, RuntimeError):  # not a valid file name, or a missing home
        return []


def _candidate_files(source: str, workspace: Path) -> list[Path]:
    if in_file := _FILE.fullmatch(source):
        return [workspace / Path(in_file["file"]).expanduser()]
    steps = source.partition(":")[0].split(".")
    if not all(step.isidentifier() for step in steps):
        return []
    places = [workspace.joinpath(*steps[: depth + 1]) for depth in range(len(steps))]
    return [*(place / "__init__.py" for place in places), places[-1].with_suffix(".py")]


def _file(name: str, workspace: Path, origin: SettingOrigin) -> ModuleType:
    """Run a file as a module. In user or system settings, the path is relative to their folder."""
    base = files(workspace)[origin.level].parent if origin.level in OWN else workspace
    try:
        given = Path(name).expanduser()
        exists = (base / given).is_file()
    except (OSError, RuntimeError):  # see code_files
        given, exists = Path(name), False
    path = base / given
    if not exists:
        hint = f"use a path relative to {base}, or an absolute path"
        raise Halt(f"{path} does not exist", code="tools", hint=hint)
    # An absolute path always means the same file; a relative one depends on the workspace.
    if _is_foreign(origin) and not (origin.level == "environment" and given.is_absolute()):
        content = _read_trusted(path, workspace)
        _guard(workspace, path.parent)
    else:
        content = _run_foreign(path.read_bytes, str(path), _show_traceback(str(path)))
    return _execute_file(path.resolve(), content)


def _module(name: str, workspace: Path, origin: SettingOrigin) -> ModuleType:
    if _is_foreign(origin):
        _guard(workspace, workspace)
    if origin.level not in OWN:  # in user and system settings, a name is the same everywhere
        _import_path(workspace)
    importlib.invalidate_caches()
    try:
        return _run_foreign(lambda: importlib.import_module(name), name, _show_traceback(name))
    except Halt as halt:
        missing = halt.__cause__
        if isinstance(missing, ModuleNotFoundError) and missing.name == name:
            near = closest_name(name, ["coding"])
            hint = f"did you mean `{near}`?" if near else _SOURCES
            raise NoModule(f"there is no module {name!r}", code="tools", hint=hint) from None
        raise


def _is_foreign(origin: SettingOrigin) -> bool:
    """Return whether someone other than the user may have chosen the source."""
    return origin.level not in {"flag", "default", *OWN}


@cache
def _execute_file(path: Path, content: bytes) -> ModuleType:
    """Run a file's content as a module, once."""
    name = str(path)  # no imported module has such a name
    loader = _FixedSourceLoader(name, path, content)
    spec = cast("ModuleSpec", spec_from_file_location(name, path, loader=loader))
    module = sys.modules[name] = module_from_spec(spec)  # annotations are resolved there
    _import_path(path.parent)
    _run_foreign(lambda: loader.exec_module(module), name, _show_traceback(name))
    return module


def _import_path(folder: Path) -> None:
    """Add a folder to the import path, last, shadowing no installed module."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _get_attribute(owner: Any, step: str, name: str, where: str) -> Any:
    try:
        return _run_foreign(
            lambda: getattr(owner, step), f"{where}:{name}", f"fix {name!r} in {where}"
        )
    except Halt as halt:
        if not isinstance(halt.__cause__, AttributeError):
            raise
        near = closest_name(step, dir(owner))
        hint = f"did you mean {near!r}?" if near else f"define it in {where}, or use another name"
        raise Halt(f"{where} has no {name!r}", code="tools", hint=hint) from None


def _run_foreign(load: Callable[[], _T], what: str, hint: str) -> _T:
    """Run a user's code to load something; its errors end the command, its output is not data."""
    try:
        with redirect_stdout(sys.stderr):
            return load()
    except Halt:
        raise
    except (Exception, SystemExit) as error:
        raise Halt(
            f"cannot load {what}: {type(error).__name__}: {error}", code="tools", hint=hint
        ) from error


def _public(module: ModuleType) -> list[Any]:
    """Return a module's public tools and toolsets, including imported ones."""
    values = [value for name, value in vars(module).items() if not name.startswith("_")]
    return [value for value in values if isinstance(value, Tool | Toolset | Registry)]


def _tools(value: Any) -> Iterable[Any]:
    if isinstance(value, Registry):
        return value.snapshot()
    several: Iterable[Any] = value
    if isinstance(value, Toolset | list | tuple):
        return several
    return [value] if callable(value) else Toolset.from_object(value)


def _show_traceback(where: str) -> str:
    command = f"python {where}" if where.endswith(".py") else f"python -c 'import {where}'"
    return f"run `{command}` to see the traceback"


class _FixedSourceLoader(SourceFileLoader):
    """Loads a module from given bytes. A compiled file beside it could contain other code."""

    def __init__(self, name: str, path: Path, content: bytes) -> None:
        super().__init__(name, str(path))
        self._content = content

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002  importlib's signature
        """Compile the bytes."""
        return self.source_to_code(self._content, self.path)


def _read_trusted(path: Path, workspace: Path) -> bytes:
    """Return a code file's content, or a Halt if the user has not trusted it."""
    try:
        content = read_file(path)
    except OSError as error:
        hint = "make it a regular file that you can read, not a link"
        raise Halt(f"cannot read {path}: {error.strerror}", code="tools", hint=hint) from None
    if not is_trusted(workspace, path, content):
        raise Halt(
            f"not running {path}: not trusted, or changed since you trusted it",
            code="untrusted",
            hint=f"review it with `handrail trust {_short_path(path, workspace)}`",
        )
    return content


def _guard(workspace: Path, folder: Path) -> None:
    """From now on, import modules below a folder only if they are trusted."""
    finder = next((entry for entry in sys.meta_path if isinstance(entry, _TrustFinder)), None)
    if finder is None:
        _package_folders()  # computed before the finder is installed, as it imports modules
        finder = _TrustFinder()
        sys.meta_path.insert(0, finder)
    finder.folders[folder.resolve()] = workspace


class _TrustFinder:
    """Finds modules in the guarded folders, before any other finder."""

    def __init__(self) -> None:
        self.folders: dict[Path, Path] = {}
        """The guarded folders, and the workspace whose trust applies to each."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a trusted module's spec, or None if it is not in a guarded folder."""
        spec = PathFinder.find_spec(name, path, target)
        workspace = self._workspace_of(spec.origin) if spec is not None else None
        if spec is None or spec.origin is None or workspace is None:
            return None
        file = Path(spec.origin)
        if not isinstance(spec.loader, SourceFileLoader):
            hint = "install it as a package, or add its source file"
            raise Halt(f"not running {file}: not Python source", code="untrusted", hint=hint)
        content = _read_trusted(file, workspace)
        return spec_from_file_location(
            name,
            file,
            loader=_FixedSourceLoader(name, file, content),
            submodule_search_locations=spec.submodule_search_locations,
        )

    def _workspace_of(self, origin: str | None) -> Path | None:
        real = Path(origin or "/").resolve()  # a namespace package has no file
        if not origin or any(real.is_relative_to(folder) for folder in _package_folders()):
            return None
        return next(
            (own for folder, own in self.folders.items() if real.is_relative_to(folder)), None
        )


@cache
def _package_folders() -> tuple[Path, ...]:
    """Return the folders with this interpreter's packages, which may be inside a workspace."""
    usual = {"stdlib", "platstdlib", "purelib", "platlib"}
    named = [path for name, path in sysconfig.get_paths().items() if name in usual]
    named += [site.getusersitepackages(), str(Path(handrail.__file__).parent)]
    return tuple(Path(path).resolve() for path in named)


def _short_path(path: Path, workspace: Path) -> str:
    return str(path.relative_to(workspace) if path.is_relative_to(workspace) else path)
