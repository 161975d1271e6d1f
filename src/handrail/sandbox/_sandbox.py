"""The class `Sandbox`: commands that the kernel keeps inside a workspace."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

from handrail import Refused, ToolFailed
from handrail.sandbox import _bubblewrap as bubblewrap
from handrail.sandbox._environment import harmless
from handrail.sandbox._protected import beneath
from handrail.sandbox._room import Room
from handrail.sandbox._words import Limits, Report, Unavailable

if TYPE_CHECKING:
    from handrail.net import Proxy
    from handrail.sandbox import _landlocked as landlocked
    from handrail.sandbox._running import Running

Tier: TypeAlias = Literal["auto", "bubblewrap", "landlock"]
_NONE: Mapping[str, str] = MappingProxyType({})


class Sandbox:
    """Runs commands that can write to one folder, and reach no network and no other process.

    Args:
        root: The workspace.
        tier: How; "auto" takes bubblewrap, and Landlock where that does not work.
        network: Hosts that a command may reach, as names or as a proxy that knows them; none by
            default.
        writable: Protected names of the workspace that are left open, and folders elsewhere that
            a command may write.
        masked: What a command may not read, in the workspace or absolute, besides the usual
            secrets of the home folder.
        kept: What a command may not change, in the workspace or absolute, besides the usual
            names. It has to be there; only bubblewrap can do this.
        variables: What a command sees in its environment, besides a short harmless list.
        limits: What one process may use up.

    Raises:
        Unavailable: This machine cannot do it. Nothing runs without a sandbox instead.
    """

    def __init__(  # noqa: PLR0913  each is an option with a default
        self,
        root: str | os.PathLike[str],
        *,
        tier: Tier = "auto",
        network: Sequence[str] | Proxy = (),
        writable: Sequence[str] = (),
        masked: Sequence[str] = (),
        kept: Sequence[str] = (),
        variables: Mapping[str, str] = _NONE,
        limits: Limits = Limits(),  # noqa: B008  a frozen value
    ) -> None:
        room = Room(
            root, writable=writable, masked=masked, kept=kept, variables=variables, limits=limits
        )
        self.root = room.root
        self._tier = _tier(tier, room, network)

    def report(self) -> Report:
        """Which layers are on, and what stays open."""
        return self._tier.report()

    def start(
        self,
        command: str,
        *,
        cwd: str = "",
        variables: Mapping[str, str] = _NONE,
        notes: bool = False,
    ) -> Running:
        """Start a command in bash: no input, no terminal, one stream for all that it says.

        Args:
            command: What bash is to run.
            cwd: A folder, from the workspace.
            variables: Kept from an earlier command. Those that steer programs are left out.
            notes: Give the shell a file descriptor 3 that `Running.notes` reads.
        """
        folder = self._folder(cwd)
        try:
            return self._tier.start(command, folder, harmless(variables), notes=notes)
        except FileNotFoundError:
            words = "The workspace, or what the sandbox is made of, is not there any more."
            raise Unavailable(words) from None

    def _folder(self, cwd: str) -> str:
        if not cwd:
            return self.root
        if "\0" in cwd:
            raise ToolFailed("The folder has a NUL character in its name. Send it without.")
        path = os.path.realpath(Path(self.root, cwd))
        if not beneath(path, self.root):
            raise Refused(f"{cwd!r} is outside the workspace. Give a folder that is in it.")
        if not Path(path).is_dir():
            raise ToolFailed(f"There is no folder {cwd!r} in the workspace.")
        return path


def _tier(
    tier: Tier, room: Room, network: Sequence[str] | Proxy
) -> bubblewrap.Tier | landlocked.Tier:
    if tier == "landlock":
        return _landlocked(room, network)
    try:
        return bubblewrap.Tier(room, network)
    except Unavailable as first:
        if tier == "bubblewrap":
            raise
        try:
            return _landlocked(room, network)
        except Unavailable as second:
            raise Unavailable(f"There is no sandbox to be had. {first} {second}") from None


def _landlocked(room: Room, network: Sequence[str] | Proxy) -> landlocked.Tier:
    from handrail.sandbox import _landlocked as landlocked  # noqa: PLC0415  the second choice

    return landlocked.Tier(room, network)
