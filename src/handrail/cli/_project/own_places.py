"""Paths to handrail's own files: a model able to change them can do anything.

Settings, rules, trust and saved runs may be inside a workspace, for example if it is the home
folder. So may files run as tools, as a model or as hooks.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from handrail.cli._base.hook_table import programs_of
from handrail.cli._base.settings import OWN, Settings, files, runs_folder

if TYPE_CHECKING:
    from handrail.cli._project.workspace_code import StartedLine

_MAX_UNDO_SECONDS = 30 * 24 * 3600.0


class OwnPlaces:
    """Paths to handrail's own files, as seen from a workspace."""

    def __init__(self, workspace: Path, settings: Settings) -> None:
        config = files(workspace)["user"]
        self._workspace = workspace
        self._settings = settings
        self.state = runs_folder().parent
        """The folder with saved runs and chat history."""
        self._folders = (config.parent, self.state)
        linked = [config] if config.is_symlink() else []
        self._all = [*self._folders, *linked, *_sources(workspace, settings)]

    def make_for_sandbox(self) -> list[str]:
        """Return all paths, to make them read-only in a sandbox; create missing folders first.

        Otherwise a command in the sandbox could create them.
        """
        root = self._workspace.resolve()
        for folder in self._folders:
            if folder.resolve().is_relative_to(root):
                with suppress(OSError):  # the sandbox reports what is missing
                    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return list(map(str, self._all))

    @property
    def hook_programs(self) -> list[str]:
        """Files outside the workspace named by hooks, and readable for them in the sandbox."""
        lines = _hook_lines(self._workspace, self._settings)
        return [str(path) for line in lines for path in line.find_code(self._workspace).elsewhere]

    @property
    def skills(self) -> Path:
        """The user's own skills folder."""
        from handrail.policy import user_home

        return user_home() / ".agents" / "skills"

    @property
    def undo_folder(self) -> Path | None:
        """The undo log's folder; None if it would be in the workspace."""
        if self.state.resolve().is_relative_to(self._workspace.resolve()):
            return None
        import hashlib  # slow, and most commands undo nothing

        name = hashlib.sha256(os.fsencode(self._workspace.resolve())).hexdigest()[:16]
        return self.state / "undo" / name

    def drop_old_undo_folders(self) -> None:
        """Delete undo logs for workspaces without changes for a month."""
        oldest = time.time() - _MAX_UNDO_SECONDS
        for folder in (self.state / "undo").glob("*"):
            with suppress(OSError):  # another process may delete it, too
                if folder.stat().st_mtime < oldest:
                    shutil.rmtree(folder)

    @property
    def protected(self) -> list[str]:
        """The names calls can use for these paths; changing them always needs approval."""
        return [name for path in self._all for name in self._names(path)]

    @property
    def private(self) -> list[str]:
        """Paths in the workspace no call can read: saved runs hold everything tools saw."""
        return [name for name in self._from_workspace(self.state) if name != "."]

    def _names(self, path: Path) -> Iterator[str]:
        """Yield a path as absolute, relative to the home folder, and relative to the workspace."""
        from handrail.policy import user_home

        for spelling in _both(path):
            yield str(spelling)
            if spelling.is_relative_to(user_home()):
                yield f"~/{spelling.relative_to(user_home())}"
        yield from self._from_workspace(path)

    def _from_workspace(self, path: Path) -> Iterator[str]:
        """Yield a path relative to the workspace, if it is inside."""
        root = self._workspace.resolve()
        for spelling in _both(path):
            if root.is_relative_to(spelling):
                yield "."  # the whole workspace
            elif spelling.is_relative_to(root):
                yield str(spelling.relative_to(root))


def _both(path: Path) -> Iterable[Path]:
    """Return a path as it is spelled, and with links resolved."""
    whole = Path(os.path.abspath(path))  # noqa: PTH100  it resolves `..`, as accesses do
    return dict.fromkeys((whole, path.resolve()))


def _sources(workspace: Path, settings: Settings) -> Iterator[Path]:
    """Yield files run by the settings: Python files with tools and models, and hooks."""
    from handrail.cli._project.sources import code_files

    named = {"tools": settings["tools"], "model": [settings["model"] or ""]}
    for setting, sources in named.items():
        level = settings.origins[setting].level
        folder = files(workspace)[level].parent if level in OWN else workspace
        for source in sources:
            yield from code_files(source, folder)
    from handrail.cli._project.servers import line_of, started_servers

    servers = started_servers(workspace, trusted=True)
    for line in (*_hook_lines(workspace, settings), *map(line_of, servers)):
        yield from line.find_pinned(workspace)


def _hook_lines(workspace: Path, settings: Settings) -> Iterator[StartedLine]:
    """Yield the hooks' lines."""
    hooks = list(programs_of(settings["hooks"]))
    if not hooks:
        return
    from handrail.cli._project.settings_hooks import line_of

    for hook in hooks:
        outside = settings["unsandboxed_hooks"] or not hook.sandboxed
        yield line_of(hook, workspace, outside=outside)
