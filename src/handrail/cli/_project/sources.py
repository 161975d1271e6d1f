"""Loads tools and models from a Python file, or by name from a file or a module.

Code named by an option or the user's settings runs without a check. Code named by the workspace's
settings runs only if the user has trusted exactly this code. The same holds for all its imports
from the workspace.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

from handrail import HandrailError, Registry, Tool, Toolset
from handrail.cli._base.exits import Halt
from handrail.cli._base.settings import OWN, SettingOrigin, closest_name, files
from handrail.cli._project.trusted_code import FixedSourceLoader, guard, read_trusted

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
        content = read_trusted(path, workspace)
        guard(workspace, path.parent)
    else:
        content = _run_foreign(path.read_bytes, str(path), _show_traceback(str(path)))
    return _execute_file(path.resolve(), content)


def _module(name: str, workspace: Path, origin: SettingOrigin) -> ModuleType:
    if _is_foreign(origin):
        guard(workspace, workspace)
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
    loader = FixedSourceLoader(name, path, content)
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
