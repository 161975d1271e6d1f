"""The class `Sandbox`: runs commands confined to a workspace by the kernel."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

from handrail import Refused, ToolFailed
from handrail.sandbox._bubblewrap.tier import BubblewrapTier
from handrail.sandbox._environment import safe_variables
from handrail.sandbox._git_names import has_entries
from handrail.sandbox._protected import is_beneath
from handrail.sandbox._setup import Setup
from handrail.sandbox._values import (
    MoreHosts,
    Report,
    ResourceLimits,
    Restriction,
    SandboxUnavailable,
    Streams,
)

if TYPE_CHECKING:
    from handrail.net import Proxy
    from handrail.sandbox._landlock_tier import LandlockTier
    from handrail.sandbox._process.running import Process

TierName: TypeAlias = Literal["auto", "bubblewrap", "landlock"]
FindRestricted: TypeAlias = Callable[[str], Mapping[str, Restriction]]
FindHosts: TypeAlias = Callable[[], Sequence[str]]
_NONE: Mapping[str, str] = MappingProxyType({})
_DEFAULT_LIMITS = ResourceLimits()
_OPENED = "hosts that a rule or an approval opens can be reached"


class Sandbox:
    """Runs commands with write access to one folder, without network and other processes.

    Args:
        root: The workspace.
        tier: The mechanism. "auto" uses bubblewrap, or Landlock if bubblewrap does not work.
        network: Hosts a command can reach, as names or as a proxy. Default: none.
        opened: Returns more hosts commands can reach, as of now, usually ``Rulebook.find_hosts``.
            It is called for each command. With it, models can also ask for hosts for one command.
            Landlock opens none.
        writable: The workspace's protected names to leave writable, and writable folders elsewhere.
            ``"."`` allows a workspace that is or contains the home folder.
        readable: Readable paths in the home folder, in addition to the programs and caches tools
            need.
        masked: Paths a command cannot read, in the workspace or absolute, in addition to the rest
            of the home folder.
        read_only: Paths a command cannot change, in the workspace or absolute, in addition to the
            protected names. They must exist, and this requires bubblewrap. With the workspace
            itself, a command cannot change anything in it.
        restricted: Returns, for a command's text, which workspace files it cannot read ("hidden")
            or change ("read-only"), usually ``Rulebook.find_restricted``. It is called for each
            command, and requires bubblewrap.
        variables: Environment variables for every command, in addition to a short safe list.
        limits: Resource limits for each process.

    Attributes:
        root: The workspace's real path.
        network: The hosts a command can reach. Empty for none.
        writable: The writable folders outside the workspace.
        protected: The workspace's names read-only for commands, if they exist.

    Raises:
        SandboxUnavailable: No sandbox works on this system. Nothing runs without one.
    """

    def __init__(  # noqa: PLR0913  each is an option with a default
        self,
        root: str | os.PathLike[str],
        *,
        tier: TierName = "auto",
        network: Sequence[str] | Proxy = (),
        opened: FindHosts | None = None,
        writable: Sequence[str] = (),
        readable: Sequence[str] = (),
        masked: Sequence[str] = (),
        read_only: Sequence[str] = (),
        restricted: FindRestricted | None = None,
        variables: Mapping[str, str] = _NONE,
        limits: ResourceLimits = _DEFAULT_LIMITS,
    ) -> None:
        setup = Setup(
            root,
            writable=writable,
            readable=readable,
            masked=masked,
            read_only=read_only,
            variables=variables,
            limits=limits,
            has_rules=restricted is not None,
        )
        self._find_restricted = restricted
        self._setup = setup
        self._find_hosts = opened
        self._lock = threading.Lock()
        """Commands are started from several threads, one at a time."""
        self.root = setup.root
        self._tier = _make_tier(tier, setup, network)
        self.network = self._tier.hosts
        self.writable = setup.written[1:]
        self.protected = self._tier.protected

    @property
    def own_programs(self) -> tuple[str, ...]:
        """The workspace's folders in front of PATH, as of now, such as `.venv/bin`."""
        return tuple(folder[len(self.root) + 1 :] for folder in self._tier.own_folders)

    @property
    def own_code(self) -> tuple[str, ...]:
        """The workspace's paths from which this process imports code, as of now.

        Commands cannot change them, in both tiers.
        """
        return tuple(path[len(self.root) + 1 :] for path in self._setup.find_own_code().kept)

    @property
    def shares_loopback(self) -> bool:
        """Whether a command can reach a server started by another one."""
        return self._tier.shares_loopback

    def report(self) -> Report:
        """Return what the sandbox enforces, and what it does not."""
        report = self._tier.report()
        if code := self.own_code:
            held = f"this program imports code from {', '.join(code)}: read-only for commands"
            report = replace(report, enforced=(*report.enforced, held))
        if self.opens_hosts:
            report = replace(report, not_enforced=(_OPENED, *report.not_enforced))
        return report

    @property
    def has_repository(self) -> bool:
        """Whether the workspace has a `.git`. If not, commands cannot create one by themselves."""
        return has_entries(f"{self.root}/.git")

    @property
    def opens_hosts(self) -> bool:
        """Whether models can ask for hosts for one command."""
        return self._find_hosts is not None and self._tier.opens_hosts

    def find_closed(self, hosts: Sequence[str]) -> list[str]:
        """Return the hosts missing from ``network``, normalized and each once.

        Raises ToolFailed or Refused for a host never to be opened: an invalid or non-public name.
        """
        return self._tier.find_closed(hosts)

    @property
    def restricts_files(self) -> bool:
        """Whether single workspace files can be hidden from commands."""
        return self._tier.restricts_files

    def find_restricted(self, command: str) -> Mapping[str, Restriction]:
        """Return the workspace files a command cannot read or change, as of now.

        They are found on disk, which takes time in a large workspace. Landlock restricts none.
        """
        if self._find_restricted is None or not self._tier.restricts_files:
            return {}
        return self._find_restricted(command)

    def can_open(self, name: str) -> bool:
        """Return whether a folder is read-only for commands, and can be opened for one.

        This includes environments and installed programs in the workspace, such as `.venv`. It
        excludes links, code imported by this process, and paths in ``read_only``. The file
        `.git/config` can be opened, too. With Landlock, there are no such paths.
        """
        return self._tier.restricts_files and self._setup.can_open(name)

    def prepare(self) -> None:
        """Do the first command's slow work: it runs git and bubblewrap.

        Call it from a thread if your event loop must not wait for it.
        """
        with self._lock:
            self._tier.prepare()

    def start(  # noqa: PLR0913  each is an option with a default
        self,
        command: str,
        *,
        cwd: str = "",
        variables: Mapping[str, str] = _NONE,
        restricted: Mapping[str, Restriction] | None = None,
        hosts: Sequence[str] = (),
        makes_repository: bool = False,
        installs_into: Sequence[str] = (),
        notes: bool = False,
        source: bool = False,
    ) -> Process:
        """Start a command in bash: no terminal, and one stream for all output.

        The first time, it takes longer: see ``prepare``.

        Args:
            command: The command for bash.
            cwd: A folder relative to the workspace.
            restricted: The result from ``find_restricted`` for the approved text, if that is not
                `command`.
            variables: Variables from an earlier command. Those steering programs are dropped.
            hosts: More hosts this command can reach. It then has its own localhost, to keep other
                commands from reaching them. Requires bubblewrap.
            makes_repository: Whether it can create `.git` in a workspace without one. Your git
                would then obey its settings and hooks.
            installs_into: Folders it can change despite being read-only for commands. See
                ``can_open``. Programs outside the sandbox run the code in them.
            notes: Whether the shell gets a file descriptor 3, read by `Process.notes`.
            source: Whether it gets a standard input, written by `Process.send`. Otherwise it has
                none.
        """
        folder = self._resolve_cwd(cwd)
        limits = self.find_restricted(command) if restricted is None else restricted
        safe = {**safe_variables(variables), **self._setup.index_variables(folder)}
        opened = tuple(self._list_opened())
        more = MoreHosts(opened, tuple(host for host in hosts if host not in opened))
        if self._tier.restricts_files and not all(map(self.can_open, installs_into)):
            raise SandboxUnavailable(f"{', '.join(installs_into)}: cannot be opened for a command.")
        try:
            with self._lock:
                return self._tier.start(
                    command,
                    folder,
                    safe,
                    limits,
                    more=more,
                    streams=Streams(notes, source),
                    opened=self._names_to_open(installs_into, makes_repository=makes_repository),
                )
        except FileNotFoundError:
            message = "The workspace or a temporary folder of the sandbox no longer exists."
            raise SandboxUnavailable(message) from None

    def _names_to_open(self, named: Sequence[str], *, makes_repository: bool) -> tuple[str, ...]:
        git = (".git",) if makes_repository and not self.has_repository else ()
        return (*git, *named)

    def _list_opened(self) -> Iterator[str]:
        """Yield the hosts opened by rules. An invalid one does no harm."""
        if self.opens_hosts and self._find_hosts is not None:
            for host in self._find_hosts():
                with suppress(Refused, ToolFailed):
                    yield from self._tier.find_closed([host])

    def _resolve_cwd(self, cwd: str) -> str:
        if not cwd:
            return self.root
        if "\0" in cwd:
            raise ToolFailed("The folder's name contains a NUL character. Remove it.")
        path = os.path.realpath(Path(self.root, cwd))
        if not is_beneath(path, self.root):
            raise Refused(f"Not run: {cwd!r} is outside the workspace. Use a folder inside it.")
        if not Path(path).is_dir():
            raise ToolFailed(f"The folder {cwd!r} does not exist in the workspace.")
        return path


def _make_tier(
    tier: TierName, setup: Setup, network: Sequence[str] | Proxy
) -> BubblewrapTier | LandlockTier:
    if tier == "landlock":
        return _make_landlock_tier(setup, network)
    try:
        return BubblewrapTier(setup, network)
    except SandboxUnavailable as first:
        if tier == "bubblewrap":
            raise
        try:
            return _make_landlock_tier(setup, network)
        except SandboxUnavailable as second:
            raise SandboxUnavailable(f"No sandbox is available. {first} {second}") from None


def _make_landlock_tier(setup: Setup, network: Sequence[str] | Proxy) -> LandlockTier:
    from handrail.sandbox._landlock_tier import LandlockTier  # the second choice

    return LandlockTier(setup, network)
