"""Runs a workspace's code only if its user has trusted exactly this content."""

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
from handrail._support.private_files import read_file
from handrail.cli._base.exits import Halt
from handrail.cli._base.settings import is_trusted


class FixedSourceLoader(SourceFileLoader):
    """Loads a module from given bytes. A compiled file beside it could contain other code."""

    def __init__(self, name: str, path: Path, content: bytes) -> None:
        super().__init__(name, str(path))
        self._content = content

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002  importlib's signature
        """Compile the bytes."""
        return self.source_to_code(self._content, self.path)


def read_trusted(path: Path, workspace: Path) -> bytes:
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


def guard(workspace: Path, folder: Path) -> None:
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
        content = read_trusted(file, workspace)
        return spec_from_file_location(
            name,
            file,
            loader=FixedSourceLoader(name, file, content),
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
