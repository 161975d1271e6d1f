"""The sandbox settings both tiers need to run a command."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Final

from handrail._support.git_settings import find_git_paths
from handrail.sandbox import _environment as environment
from handrail.sandbox._environment import REFRESHES_INDEX
from handrail.sandbox._home import HomeFolder, require_no_home
from handrail.sandbox._own_code import OwnCode, OwnFileSearch, find_own_code, hold_database
from handrail.sandbox._protected import (
    ProtectedPaths,
    find_kept,
    find_protected,
    find_restricted,
    find_secrets,
    has_index_hook,
    is_beneath,
    is_beneath_any,
    list_secret_names,
)
from handrail.sandbox._values import TMP, ResourceLimits, Restriction, SandboxUnavailable

_NONE: Final[Mapping[str, Restriction]] = MappingProxyType({})
_GIT_SETTINGS = ".git/config"
_NO_VARIABLES: Final[Mapping[str, str]] = MappingProxyType({})


class Setup:
    """A workspace, and what commands in it can write and read."""

    def __init__(  # noqa: PLR0913 each is a sandbox option
        self,
        root: str | os.PathLike[str],
        *,
        writable: Sequence[str],
        readable: Sequence[str],
        masked: Sequence[str],
        read_only: Sequence[str],
        variables: Mapping[str, str],
        limits: ResourceLimits,
        has_rules: bool,
    ) -> None:
        self.root = os.path.realpath(root)
        if self.root == "/" or not Path(self.root).is_dir():
            raise SandboxUnavailable(
                f"{self.root} cannot be a workspace. Choose an existing folder other than /."
            )
        shell = shutil.which("bash", path=os.pathsep.join(environment.program_folders(self.root)))
        if shell is None:
            raise SandboxUnavailable(
                "bash was not found in any folder of PATH outside the workspace. Install it."
            )
        opened = [os.path.normpath(f"{Path(self.root, path)}") for path in writable]
        if self.root not in opened:
            require_no_home(self.root)
        self.shell = shell
        self.opened = [
            os.path.relpath(path, self.root) for path in opened if is_beneath(path, self.root)
        ]
        """Protected workspace names left writable."""
        elsewhere = [os.path.realpath(path) for path in opened if not is_beneath(path, self.root)]
        self.written = (self.root, *elsewhere)
        """The workspace and other folders, by their real paths."""
        self.variables = environment.check_variables(variables)
        self.limits = limits
        self.has_rules = has_rules
        """Whether rules may restrict workspace files."""
        self._named = [*list_secret_names(self.root, masked), *_own_folders()]
        self._kept = [f"{Path(self.root, path)}" for path in read_only]
        self._own_files = OwnFileSearch(self.root)
        self.paths_to_keep()  # raises before anything runs
        self.find_own_code()  # as above
        self.temporary = tempfile.mkdtemp(prefix="handrail-room-")
        """A private folder, which is removed with the sandbox."""
        weakref.finalize(self, remove_folder, self.temporary)
        self.home = HomeFolder(
            self.root,
            written=self.written,
            readable=[os.path.normpath(f"{Path(self.root, path)}") for path in readable],
            folders=[*environment.program_folders(self.root), _python_folder()],
            git_file=Path(self.temporary, "gitconfig"),
        )

    def make_folder(self, name: str) -> str:
        """Make a private folder in the private folder."""
        path = Path(self.temporary, name)
        path.mkdir(mode=0o700)
        return str(path)

    def find_secrets(self) -> list[str]:
        """Return the real paths no command can read, as of now."""
        return find_secrets(self._named, self.written)

    def find_protected(
        self,
        own: Iterable[str] = (),
        restricted: Mapping[str, Restriction] = _NONE,
        opened: Sequence[str] = (),
    ) -> ProtectedPaths:
        """Return what to protect in the workspace, as of now, with its program folders.

        ``opened`` are more names left writable. A folder among them cannot be moved away: that
        would end running commands' mounts.
        """
        folders = [path for name in opened if os.path.isdir(path := f"{self.root}/{name}")]  # noqa: PTH112
        secret = self.find_secrets()
        hidden, held = find_restricted(self.root, self.written, restricted, masked=secret)
        code = self.find_own_code()
        kept = {
            *self.paths_to_keep(),
            *held,
            *({folder.removesuffix("/bin") for folder in own} - {*folders}),
            *code.kept,
            *(path for path in self._find_own_files() if path not in folders),
        }
        free = [*self.opened, *opened]
        found = find_protected(self.root, free, secret, sorted(kept), reserved=code.missing)
        if not hidden and not folders:
            return found
        return replace(found, hidden=tuple(hidden), opened=tuple(folders))

    def can_open(self, name: str) -> bool:
        """Return whether a folder is read-only, and can be opened for one command.

        It is not a link, and contains neither this process's code nor anything git runs or obeys.
        The settings of the repository can be opened, too.
        """
        path = f"{self.root}/{name}"
        if os.path.realpath(path) != path:
            return False
        if name == _GIT_SETTINGS and os.path.isfile(path):  # noqa: PTH113
            return path in self.find_protected(self.find_own_folders()).kept
        if not os.path.isdir(path):  # noqa: PTH112
            return False
        git = (os.path.realpath(f"{self.root}/{one}") for one in chain(*find_git_paths(self.root)))
        fixed = [*self.paths_to_keep(), *self.find_own_code().kept, *git]
        held = path in self.find_protected(self.find_own_folders()).kept
        return held and not any(is_beneath(one, path) or is_beneath(path, one) for one in fixed)

    def find_own_code(self) -> OwnCode:
        """Return this process's code in the workspace, as of now."""
        return find_own_code(self.root, self.opened)

    def _find_own_files(self) -> list[str]:
        """Return environments and run databases, except those left writable."""
        opened = [f"{self.root}/{path}" for path in self.opened]
        return [
            path
            for found in self._own_files.find()
            if not is_beneath_any(found, opened)
            for path in ([found] if os.path.isdir(found) else hold_database(found))  # noqa: PTH112
        ]

    def find_own_folders(self) -> list[str]:
        """Return the workspace's program folders used by commands, as of now.

        They must be read-only for commands, and so must the environment around a `bin`.
        """
        opened = [f"{self.root}/{path}" for path in self.opened]
        return [
            folder
            for folder in environment.find_own_folders(self.root)
            if not any(is_beneath(folder, path) or is_beneath(path, folder) for path in opened)
        ]

    def paths_to_keep(self) -> list[str]:
        """Return the workspace's real paths to preserve unchanged, as of now."""
        return find_kept(self.root, self._kept)

    def visible_variables(
        self, temporary: str, *, offline: bool, own: Sequence[str] = ()
    ) -> dict[str, str]:
        """Return the environment variables for every command."""
        return {
            **environment.base_variables(
                self.root, temporary=temporary, shell=self.shell, offline=offline, own=own
            ),
            **self.variables,
        }

    def index_variables(self, folder: str) -> Mapping[str, str]:
        """Return the variables letting git refresh its index for a command in a folder."""
        own = "GIT_CONFIG_COUNT" in self.variables
        return _NO_VARIABLES if own or has_index_hook(self.root, folder) else REFRESHES_INDEX


def _own_folders() -> list[str]:
    """Return the folders with handrail's own settings, rules, trust and saved runs."""
    home = os.path.expanduser("~")  # noqa: PTH111  without a home folder, pathlib would raise
    given = (
        (os.environ.get("XDG_CONFIG_HOME", ""), ".config"),
        (os.environ.get("XDG_STATE_HOME", ""), ".local/state"),
    )
    tops = (top if top.startswith("/") else f"{home}/{usual}" for top, usual in given)
    return [f"{top}/handrail" for top in tops]


def is_python_usable(root: str) -> bool:
    """Return whether this Python can run the bridge to hosts: commands see it, and cannot write it.

    ``root`` is the workspace.
    """
    python = os.path.realpath(sys.executable)
    return not is_beneath_any(python, (root, TMP, f"/var{TMP}"))


def _python_folder() -> str:
    """Return this Python's folder, which the bridge to allowed hosts runs."""
    return os.path.dirname(os.path.realpath(sys.executable))  # noqa: PTH120  a string is needed


def remove_folder(path: str) -> None:
    """Remove a folder, including inner folders a command has made inaccessible."""
    for folder, names, _ in os.walk(path):
        for inner in (Path(folder, name) for name in names):
            if not inner.is_symlink():
                with suppress(OSError):
                    inner.chmod(0o700)
    shutil.rmtree(path, ignore_errors=True)
