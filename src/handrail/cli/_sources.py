"""Tools and models from anywhere: a Python file, or a name in a file or a module.

What a flag or the user's own file names is run as it is. What a workspace's own settings name is
run only when its user has trusted that exact code, and so is all that it imports from there.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from handrail import HandrailError, Registry, Tool, Toolset
from handrail.cli._exits import Halt
from handrail.cli._guard import Exactly, guard, trusted_content
from handrail.cli._settings import OWN, Origin, close, files

_FILE = re.compile(r"(?P<file>.+\.py)(?::(?P<name>[^:]+))?")
_UNSAID = Origin("project")
"""Where nobody says who named a source, it counts as the workspace's own."""
_T = TypeVar("_T")


def tools_at(source: str, workspace: Path, origin: Origin = _UNSAID) -> Toolset:
    """The tools that a source names: FILE.py, FILE.py:NAME or MODULE:NAME."""
    found = at(source, workspace, origin)
    given = _public(found) if isinstance(found, ModuleType) else [found]
    try:
        made = Toolset(*(one for each in given for one in _tools(each)))
    except (HandrailError, TypeError) as error:
        raise Halt(f"{source}: {error}", code="tools", hint=_HOW) from None
    if not len(made):
        raise Halt(f"there are no tools in {source}", code="tools", hint=_HOW)
    return made


def at(source: str, workspace: Path, origin: Origin = _UNSAID) -> Any:
    """What a source names: a module, or something in one."""
    if in_file := _FILE.fullmatch(source):
        where, name = in_file["file"], in_file["name"]
        found: Any = _file(where, workspace, origin)
    else:
        where, _, name = source.partition(":")
        found = _module(where, workspace, origin)
    for step in name.split(".") if name else ():
        found = _below(found, step, f"there is no {name!r} in {where}")
    return found


def code_of(source: str, workspace: Path) -> list[Path]:
    """The files of a workspace whose code a source would run, as far as its name tells."""
    try:
        return [one for one in _named(source, workspace) if one.is_file()]
    except (OSError, RuntimeError):  # no file has such a name, or nobody such a home
        return []


def _named(source: str, workspace: Path) -> list[Path]:
    if in_file := _FILE.fullmatch(source):
        return [workspace / Path(in_file["file"]).expanduser()]
    steps = source.partition(":")[0].split(".")
    if not all(step.isidentifier() for step in steps):
        return []
    places = [workspace.joinpath(*steps[: depth + 1]) for depth in range(len(steps))]
    return [*(one / "__init__.py" for one in places), places[-1].with_suffix(".py")]


def _file(name: str, workspace: Path, origin: Origin) -> ModuleType:
    """The module that a file makes; in the user's or the machine's settings, a file beside them."""
    base = files(workspace)[origin.level].parent if origin.level in OWN else workspace
    try:
        given = Path(name).expanduser()
        is_there = (base / given).is_file()
    except (OSError, RuntimeError):  # see code_of
        given, is_there = Path(name), False
    path = base / given
    if not is_there:
        raise Halt(f"there is no file {path}", code="tools", hint="check the path")
    # A path from the root is one file for ever; a relative one is whatever lies here.
    if _is_foreign(origin) and not (origin.level == "environment" and given.is_absolute()):
        content = trusted_content(path, workspace)
        guard(workspace, path.parent)
    else:
        content = _in_words(path.read_bytes, str(path))
    return _executed(path.resolve(), content)


def _module(name: str, workspace: Path, origin: Origin) -> ModuleType:
    if _is_foreign(origin):
        guard(workspace, workspace)
    if origin.level not in OWN:  # there, a name means the same in every workspace
        _import_path(workspace)
    importlib.invalidate_caches()
    try:
        return _in_words(lambda: importlib.import_module(name), name)
    except Halt as halt:
        missing = halt.__cause__
        if isinstance(missing, ModuleNotFoundError) and missing.name == name:
            hint = "give coding, FILE.py, FILE.py:NAME or MODULE:NAME"
            raise Halt(f"there is no module {name!r}", code="tools", hint=hint) from None
        raise


def _is_foreign(origin: Origin) -> bool:
    """Whether whoever named a source need not be whoever runs this, here and now."""
    return origin.level not in {"flag", "built in", *OWN}


@cache
def _executed(path: Path, content: bytes) -> ModuleType:
    """The module that a file's content makes, run once."""
    name = str(path)  # nothing that is imported has this name
    spec = spec_from_file_location(name, path, loader=Exactly(name, path, content))
    assert spec is not None  # noqa: S101  it has a loader
    module = sys.modules[name] = module_from_spec(spec)  # annotations are looked up there
    _import_path(path.parent)
    _in_words(lambda: spec.loader.exec_module(module), name)  # type: ignore[union-attr]
    return module


def _import_path(folder: Path) -> None:
    """Let modules of a folder be found, after all that is installed: none takes another's place."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _below(found: Any, step: str, missing: str) -> Any:
    try:
        return _in_words(lambda: getattr(found, step), step)
    except Halt as halt:
        if not isinstance(halt.__cause__, AttributeError):
            raise
        near = close(step, dir(found))
        hint = f"did you mean {near!r}?" if near else "check the spelling"
        raise Halt(missing, code="tools", hint=hint) from None


def _in_words(load: Callable[[], _T], where: str) -> _T:
    """What a load gives; an error of somebody's code is told as theirs, its prints as no data."""
    try:
        with redirect_stdout(sys.stderr):
            return load()
    except Halt:
        raise
    except (Exception, SystemExit) as error:
        raise Halt(
            f"{where} cannot be loaded: {type(error).__name__}: {error}",
            code="tools",
            hint="mend it there; `python FILE.py` shows the whole error",
        ) from error


def _public(module: ModuleType) -> list[Any]:
    """The tools and toolsets of a module that were made in it or brought there by name."""
    found = [one for name, one in vars(module).items() if not name.startswith("_")]
    return [one for one in found if isinstance(one, Tool | Toolset | Registry)]


def _tools(found: Any) -> Iterable[Any]:
    if isinstance(found, Registry):
        return found.snapshot()
    several: Iterable[Any] = found
    if isinstance(found, Toolset | list | tuple):
        return several
    return [found] if callable(found) else Toolset.of(found)


_HOW = "decorate a function with @tool from handrail, and name it or the file that it is in"
