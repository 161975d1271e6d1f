"""Code of a workspace: it runs as it was looked at, and only if its user has trusted it."""

from __future__ import annotations

import site
import sys
import sysconfig
from collections.abc import Sequence
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

import handrail
from handrail.cli._exits import Halt
from handrail.cli._settings import trusted
from handrail.cli._trusted import content_of


class Exactly(SourceFileLoader):
    """Loads a module from these bytes. A compiled file beside it could hold any other code."""

    def __init__(self, name: str, path: Path, content: bytes) -> None:
        super().__init__(name, str(path))
        self._content = content

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002  importlib's shape
        """The code of the bytes."""
        return self.source_to_code(self._content, self.path)


def trusted_content(path: Path, workspace: Path) -> bytes:
    """The content of a file of code, which its user must have trusted."""
    try:
        content = content_of(path)
    except OSError as error:
        raise Halt(f"{path}: {error.strerror}", code="tools", hint="check the path") from None
    if not trusted(workspace, path, content):
        raise Halt(
            f"{path} is not trusted as it is now, and its code is not run",
            code="untrusted",
            hint=f"look at it, then say `handrail trust {_near(path, workspace)}`",
        )
    return content


def guard(workspace: Path, folder: Path) -> None:
    """From here on, modules below a folder run only if they are trusted."""
    found = next((one for one in sys.meta_path if isinstance(one, _Guard)), None)
    if found is None:
        _installed()  # while nobody listens: to find out, Python imports something
        found = _Guard()
        sys.meta_path.insert(0, found)
    found.folders[folder.resolve()] = workspace


class _Guard:
    """Finds modules of some folders, before others do."""

    def __init__(self) -> None:
        self.folders: dict[Path, Path] = {}
        """Which folders, and by which workspace's trust."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where a module's code is, if it may run; None, if it is none of ours."""
        found = PathFinder.find_spec(name, path, target)
        workspace = self._workspace_of(found.origin) if found is not None else None
        if found is None or found.origin is None or workspace is None:
            return None
        file = Path(found.origin)
        if not isinstance(found.loader, SourceFileLoader):
            hint = "have it installed, or give its source"
            raise Halt(f"{file} is no Python source, and is not run", code="untrusted", hint=hint)
        content = trusted_content(file, workspace)
        return spec_from_file_location(
            name,
            file,
            loader=Exactly(name, file, content),
            submodule_search_locations=found.submodule_search_locations,
        )

    def _workspace_of(self, origin: str | None) -> Path | None:
        if origin is None:  # a folder without code of its own
            return None
        real = Path(origin).resolve()
        if any(real.is_relative_to(one) for one in _installed()):
            return None
        return next((own for one, own in self.folders.items() if real.is_relative_to(one)), None)


@cache
def _installed() -> tuple[Path, ...]:
    """Where this interpreter's own packages are, which may be in a workspace."""
    usual = {"stdlib", "platstdlib", "purelib", "platlib"}
    named = [path for name, path in sysconfig.get_paths().items() if name in usual]
    named += [site.getusersitepackages(), str(Path(handrail.__file__).parent)]
    return tuple(Path(one).resolve() for one in named)


def _near(path: Path, workspace: Path) -> str:
    return str(path.relative_to(workspace) if path.is_relative_to(workspace) else path)
