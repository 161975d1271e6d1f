"""All that the tiers have to know to run a command, besides the command."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

from handrail.sandbox import _environment as environment
from handrail.sandbox._protected import Scene, beneath, kept_in, named_secrets, scene, secrets
from handrail.sandbox._words import Limits, Unavailable


class Room:
    """A workspace, with what may be written and seen from it."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        writable: Sequence[str],
        masked: Sequence[str],
        kept: Sequence[str],
        variables: Mapping[str, str],
        limits: Limits,
    ) -> None:
        self.root = os.path.realpath(root)
        if self.root == "/" or not Path(self.root).is_dir():
            raise Unavailable(f"{self.root} cannot be a workspace: it has to be a folder, not all")
        shell = shutil.which("bash", path=os.pathsep.join(environment.folders(self.root)))
        if shell is None:
            raise Unavailable("bash was not found in a folder that commands cannot write")
        opened = [os.path.normpath(f"{Path(self.root, one)}") for one in writable]
        self.shell = shell
        self.opened = [os.path.relpath(one, self.root) for one in opened if beneath(one, self.root)]
        """Protected names of the workspace that are left open."""
        elsewhere = [os.path.realpath(one) for one in opened if not beneath(one, self.root)]
        self.written = (self.root, *elsewhere)
        """The workspace and other folders, by their real paths."""
        self.variables = environment.checked(variables)
        self.limits = limits
        self._named = named_secrets(self.root, masked)
        self._kept = [f"{Path(self.root, one)}" for one in kept]
        self.kept()  # what cannot be kept is said before anything runs
        self.temporary = tempfile.mkdtemp(prefix="handrail-room-")
        """A private folder, which goes with the sandbox."""
        weakref.finalize(self, shutil.rmtree, self.temporary, ignore_errors=True)

    def folder(self, name: str) -> str:
        """A private folder in the private folder."""
        path = Path(self.temporary, name)
        path.mkdir(mode=0o700)
        return str(path)

    def secrets(self) -> list[str]:
        """The real paths that no command may read, as it is now."""
        return secrets(self._named, self.written)

    def scene(self) -> Scene:
        """What there is to protect, as it is now."""
        return scene(self.root, self.opened, self.secrets(), self.kept())

    def kept(self) -> list[str]:
        """The real paths in the workspace that the host program wants kept, as it is now."""
        return kept_in(self.root, self._kept)

    def seen(self, temporary: str) -> dict[str, str]:
        """The variables that every command sees."""
        return {
            **environment.base(self.root, temporary=temporary, shell=self.shell),
            **self.variables,
        }
