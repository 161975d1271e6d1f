"""What is handrail's own on this machine: a model that may change it may do everything.

Settings, rules, trust and saved runs may lie in a workspace: in a home folder, for one. So may the
Python files that are run as tools or as a model.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from handrail.cli._settings import OWN, Settings, files


class OwnPlaces:
    """The places that are handrail's own, as seen from a workspace."""

    def __init__(self, workspace: Path, settings: Settings) -> None:
        from handrail.cli._saved import runs_folder  # noqa: PLC0415  see Kit

        config = files(workspace)["user"]
        self._workspace = workspace
        self.state = runs_folder().parent
        """What commands keep."""
        self._folders = (config.parent, self.state)
        linked = [config] if config.is_symlink() else []
        self._all = [*self._folders, *linked, *_sources(workspace, settings)]

    @property
    def kept(self) -> list[str]:
        """All of them, for a sandbox. A folder that could be made in the workspace is made."""
        root = self._workspace.resolve()
        for folder in self._folders:
            if folder.resolve().is_relative_to(root):
                with suppress(OSError):  # the sandbox says what is not there
                    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return list(map(str, self._all))

    @property
    def protected(self) -> list[str]:
        """How calls may name what is not to be changed unasked."""
        return [name for one in self._all for name in self._names(one)]

    @property
    def private(self) -> list[str]:
        """What of the workspace is not to be read: runs hold whatever tools have seen."""
        return [name for name in self._from_workspace(self.state) if name != "."]

    def _names(self, path: Path) -> Iterator[str]:
        """A path from the root, from the home, and from the workspace."""
        from handrail.policy import home  # noqa: PLC0415  see Kit

        for one in _both(path):
            yield str(one)
            if one.is_relative_to(home()):
                yield f"~/{one.relative_to(home())}"
        yield from self._from_workspace(path)

    def _from_workspace(self, path: Path) -> Iterator[str]:
        """A path as tools for coding name it, if it lies there."""
        root = self._workspace.resolve()
        for one in _both(path):
            if root.is_relative_to(one):
                yield "."  # all of the workspace
            elif one.is_relative_to(root):
                yield str(one.relative_to(root))


def _both(path: Path) -> Iterable[Path]:
    """A path as it is spelled, and with links resolved."""
    whole = Path(os.path.abspath(path))  # noqa: PTH100  it folds `..`, as accesses do
    return dict.fromkeys((whole, path.resolve()))


def _sources(workspace: Path, settings: Settings) -> Iterator[Path]:
    """The files that are run for what the settings name."""
    from handrail.cli._sources import code_of  # noqa: PLC0415  see Kit

    named = {"tools": settings["tools"], "model": [settings["model"] or ""]}
    for setting, sources in named.items():
        level = settings.origins[setting].level
        folder = files(workspace)[level].parent if level in OWN else workspace
        for one in sources:
            yield from code_of(one, folder)
