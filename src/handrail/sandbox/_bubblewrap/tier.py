"""The first tier: bubblewrap, which gives a command separate namespaces and mounts."""

from __future__ import annotations

import functools
import os
import shutil
import stat
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from handrail.sandbox import _environment as environment
from handrail.sandbox._bubblewrap.git_excludes import GitExcludes
from handrail.sandbox._bubblewrap.loopback import ALONE, Loopback
from handrail.sandbox._bubblewrap.mount_check import (
    MountCheck,
    MountPlan,
    count_added,
    read_host_mounts,
)
from handrail.sandbox._bubblewrap.placeholders import has_list
from handrail.sandbox._home import HomeView
from handrail.sandbox._kernel import seccomp
from handrail.sandbox._protected import ProtectedPaths, is_beneath_any, list_protected_names
from handrail.sandbox._setup import Setup, is_python_usable
from handrail.sandbox._values import (
    TMP,
    MoreHosts,
    Report,
    Restriction,
    SandboxUnavailable,
    Streams,
)

if TYPE_CHECKING:
    from handrail.net import Proxy
    from handrail.sandbox._bubblewrap.mount_points import MountPoints
    from handrail.sandbox._bubblewrap.network import NetworkBridge, Route
    from handrail.sandbox._process.running import Process

_ALONE: Final = """
    --unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try
    --disable-userns --die-with-parent --new-session --cap-drop ALL --clearenv
""".split()
_VIEW: Final = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
_SETTINGS: Final = tuple(
    word
    for name in ("acpi", "fs", "mtrr", "scsi", "sys", "sysrq-trigger")
    for word in ("--ro-bind-try", f"/proc/{name}", f"/proc/{name}")
)
"""System settings. The kernel lets root write them, even without capabilities."""
_TEMPORARY: Final = (TMP, f"/var{TMP}")
"""Private folders are mounted there."""
_INSTALL: Final = "Install it (`apt-get install bubblewrap`), version 0.8 or later."
_ON: Final = (
    "commands can write only the workspace and private temporary folders (mounts)",
    "files that other programs execute or trust (.git/hooks, .vscode, ...) are read-only (mounts)",
    "in the home folder, only what tools need can be read; masked files cannot (mounts)",
    "other processes are invisible; those of a command end with it (process namespace)",
    "no sockets except on a loopback that only commands here have (network namespace, filter)",
    "no capabilities, no new privileges, no tracing, mounts, namespaces, keys or io_uring (filter)",
    "separate environment; no input, no terminal; limits on memory, files and core dumps",
)
_BY_RULES: Final = "files that rules deny or ask about are hidden or read-only (mounts)"
_OPEN: Final = (
    "files outside the home folder can be read",
    "file systems mounted while a command runs may be visible and writable to it",
    "named pipes of other programs can be written, if the user may",
    "a command can cause an empty file or folder outside while another command starts",
    "other repositories inside the workspace are not protected",
    "with core.bare or core.worktree set, git obeys a new .git/commondir until the command ends",
    "file watches (inotify) are counted by user: a command can use all of them until it ends",
    "kernel bugs and processor side channels: use a virtual machine for hostile code",
)


def find_program(root: str) -> str:
    """Return the bubblewrap program, from a folder no command can write."""
    program = shutil.which("bwrap", path=os.pathsep.join(environment.program_folders(root)))
    if program is None:
        raise SandboxUnavailable(f"bubblewrap was not found. {_INSTALL}")
    return os.path.realpath(program)


@functools.cache
def probe(program: str) -> Counter[bytes]:
    """Run bubblewrap once with every option. A system may have it installed but forbid it.

    Returns:
        The mount points it adds to this process's.
    """
    process = subprocess.run(  # noqa: S603  an absolute path outside the workspace
        [program, *ALONE, *_ALONE, *_view_options(), "--", "/bin/cat", "/proc/self/mountinfo"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={},
        timeout=20,
        check=False,
    )
    if process.returncode != 0:
        error = process.stderr.decode(errors="replace").strip().removeprefix("bwrap: ")
        raise SandboxUnavailable(
            f"bubblewrap is installed but does not work: {error or 'no error message'}. "
            "It needs version 0.8 or later, and user namespaces must be allowed."
        )
    return count_added(process.stdout)


def _view_options() -> tuple[str, ...]:
    return (*_VIEW, *_SETTINGS) if os.geteuid() == 0 else _VIEW


def _make_bridge(setup: Setup, network: Sequence[str] | Proxy) -> NetworkBridge:
    # imported here: it loads handrail.net
    from handrail.sandbox._bubblewrap.network import NetworkBridge

    return NetworkBridge(setup, network)


_OptionsKey: TypeAlias = tuple[ProtectedPaths, HomeView, tuple[str, ...], bool]
"""What the options depend on: protected paths, the home folder, own programs, whether offline."""
_MountsKey: TypeAlias = tuple[ProtectedPaths, HomeView, bool, bytes]
"""What the mounts depend on: the same paths, whether there is a way to hosts, the host's mounts."""


class BubblewrapTier:
    """Runs commands in bubblewrap."""

    restricts_files = True

    def __init__(self, setup: Setup, network: Sequence[str] | Proxy) -> None:
        self._filter = seccomp.assemble_filter(seccomp.INTERNET)
        self._program = find_program(setup.root)
        self._view = probe(self._program)
        self._setup = setup
        self._private = [setup.make_folder(name) for name in ("tmp", "var")]
        self._empty = f"{setup.temporary}/empty"
        Path(self._empty).touch(0o444)
        self._unreadable = f"{setup.temporary}/unreadable"
        Path(self._unreadable).touch(0)
        self._bridge = _make_bridge(setup, network) if network else None
        """Also made for the first command reaching hosts."""
        self.hosts = self._bridge.hosts if self._bridge else ()
        self._always_bridged = self._bridge is not None
        self.opens_hosts = is_python_usable(setup.root)
        self._loopback = Loopback(setup, self._program)
        self._excludes = GitExcludes(setup.root, setup.written, Path(setup.temporary, "gitignore"))
        self.protected = list_protected_names(setup.opened)
        if has_list(setup.root):
            # imported here: there is usually nothing to remove
            from handrail.sandbox._bubblewrap.mount_points import remove_leftovers

            remove_leftovers(setup.root)
        self._packed_options: dict[_OptionsKey, bytes] = {}
        self._last: tuple[_MountsKey, MountCheck] | None = None

    @property
    def own_folders(self) -> tuple[str, ...]:
        """The workspace's program folders in front of PATH, as of now."""
        return tuple(self._setup.find_own_folders())

    @property
    def shares_loopback(self) -> bool:
        """Whether a command can reach a server started by another one."""
        return self._loopback.shared

    def report(self) -> Report:
        """Return what namespaces, mounts and the filter enforce."""
        hosts = (f"these hosts can be reached: {', '.join(self.hosts)}",) if self.hosts else ()
        enforced = (*_ON, _BY_RULES) if self._setup.has_rules else _ON
        return Report("bubblewrap", enforced, (*hosts, *_OPEN))

    def prepare(self) -> None:
        """Make the loopback, and read the user's git settings."""
        self._loopback.start_words()
        self._setup.home.view()

    def start(  # noqa: PLR0913 each is a part of the surroundings
        self,
        command: str,
        cwd: str,
        variables: Mapping[str, str],
        restricted: Mapping[str, Restriction],
        *,
        more: MoreHosts,
        streams: Streams,
        opened: Sequence[str] = (),
    ) -> Process:
        """Start a command with file descriptors for its streams only."""
        # imported here: many sandboxes are only made to check that one is available
        from handrail.sandbox._bubblewrap.launch import LaunchSpec, start_command
        from handrail.sandbox._bubblewrap.mount_points import MountPoints

        alone = any(os.path.isfile(f"{self._setup.root}/{name}") for name in opened)  # noqa: PTH113
        mount_points = MountPoints(self._setup.root, is_alone=alone)
        removed, route = list[str](), None
        try:
            route = self._open_route((*more.by_rule, *more.own))

            def find_options() -> tuple[bytes, Callable[[], MountCheck]]:
                own = self.own_folders
                protected = self._setup.find_protected(own, restricted, opened)
                home = self._view_home(protected)
                mount_points.note(protected.missing, protected.files)
                removed.extend(protected.removed)
                offline = route is None or not route.proxy.allowed
                options = self._arguments((protected, home, own, offline), cwd, variables, route)
                key = (protected, home, route is not None)
                return options, lambda: self._mount_check((*key, read_host_mounts()))

            # on a shared loopback, another command could use the way to the own hosts
            words = [self._program, *ALONE] if more.own else self._loopback.start_words()
            spec = LaunchSpec(self._setup, words, self._filter, find_options, route)
            release = functools.partial(self._release, mount_points, route, removed)
            return start_command(command, spec, release, streams=streams)
        except BaseException:
            self._release(mount_points, route, removed)
            raise

    def _open_route(self, hosts: Sequence[str]) -> Route | None:
        """Return a command's route to hosts, or None without hosts."""
        if not hosts and not self._always_bridged:
            return None
        if self._bridge is None:
            self._bridge = _make_bridge(self._setup, ())
        return self._bridge.open(hosts)

    def find_closed(self, hosts: Sequence[str]) -> list[str]:
        """Return the unreachable ones of these hosts, normalized."""
        if self._bridge is not None:
            return self._bridge.find_closed(hosts)
        from handrail.net import Guard  # as above

        return list(dict.fromkeys(Guard().check(host, 443) for host in hosts))

    def _release(
        self, mount_points: MountPoints, route: Route | None, removed: Sequence[str]
    ) -> None:
        """Release the lock. The reference keeps the sandbox and its private folders alive."""
        mount_points.release(removed)
        if route is not None:
            route.proxy.close()

    def _view_home(self, protected: ProtectedPaths) -> HomeView:
        """Return the home folder mounts: none if /tmp hides it already."""
        view = self._setup.home.view()
        hidden = tuple(home for home in view.hidden if not _is_hidden(home, self._setup.written))
        shown = tuple(pair for pair in view.shown if is_beneath_any(pair[0], hidden))
        return self._excludes.show(HomeView(hidden, shown), protected.missing)

    def _arguments(
        self, key: _OptionsKey, cwd: str, variables: Mapping[str, str], route: Route | None
    ) -> bytes:
        """Return the options for bubblewrap, without the command."""
        if key not in self._packed_options:
            self._packed_options[key] = _pack(self._common_options(*key))
        own_options = [*_setenv_options(variables), "--chdir", cwd]
        bridge_options = self._bridge.options() if route and self._bridge else []
        return self._packed_options[key] + _pack([*bridge_options, *own_options])

    def _mount_check(self, key: _MountsKey) -> MountCheck:
        if self._last is None or self._last[0] != key:
            self._last = key, MountCheck(self._mount_plan(*key[:-1]), self._view, key[-1])
        return self._last[1]

    def _mount_plan(
        self,
        protected: ProtectedPaths,
        home: HomeView,
        has_route: bool,  # noqa: FBT001
    ) -> MountPlan:
        """Return the mounts the options must produce."""
        setup = self._setup
        missing = (f"{setup.root}/{name}" for name in protected.missing)
        bridge_mounts = self._bridge.mounts if has_route and self._bridge else {}
        secret = self._visible_secrets(protected, home)
        return MountPlan(
            written=setup.written,
            kept=(*protected.kept, *self._placeholders(protected)),
            covers=(
                *_TEMPORARY,
                *missing,
                *secret,
                *protected.hidden,
                *bridge_mounts,
                *home.hidden,
            ),
            stand_ins=(*self._private, self._empty, self._unreadable, *bridge_mounts.values()),
            shown=home.shown,
        )

    def _placeholders(self, protected: ProtectedPaths) -> list[str]:
        """Return the files at missing names, which exist by then."""
        return [f"{self._setup.root}/{name}" for name in protected.files]

    def _visible_secrets(self, protected: ProtectedPaths, home: HomeView) -> list[str]:
        """Return the secrets not yet hidden by other mounts."""
        written = self._setup.written
        shown = [*written, *(path for path, _ in home.shown)]
        return [
            path
            for path in protected.secret
            if not _is_hidden(path, written)
            and (is_beneath_any(path, shown) or not is_beneath_any(path, home.hidden))
        ]

    def _common_options(
        self,
        protected: ProtectedPaths,
        home: HomeView,
        own: Sequence[str],
        offline: bool,  # noqa: FBT001 one key field
    ) -> list[str]:
        """Return the options common to all commands while the workspace has the same paths."""
        setup = self._setup
        missing = [f"{setup.root}/{name}" for name in protected.missing]
        secret = self._visible_secrets(protected, home)
        _require_single_names(secret)
        variables = setup.visible_variables(TMP, offline=offline, own=own)
        words = [*_ALONE, *_setenv_options(variables), *_view_options()]
        for private, path in zip(self._private, _TEMPORARY, strict=True):
            words += ("--bind", private, path)
        words += _home_options(home)
        kept = (*protected.kept, *self._placeholders(protected))
        between = _folders_between((*kept, *missing, *secret, *protected.hidden), setup.written)
        for path in (*setup.written, *between, *protected.opened):
            words += ("--bind", path, path)
        for path in kept:
            words += ("--ro-bind", path, path)
        for path in (*missing, *(path for path in secret if Path(path).is_dir())):
            words += ("--perms", "0555", "--tmpfs", path, "--remount-ro", path)
        for path in (path for path in secret if not Path(path).is_dir()):
            words += ("--ro-bind", self._empty, path)
        for path in protected.hidden:
            words += self._hiding_options(path)
        return words + [word for path in home.hidden for word in ("--remount-ro", path)]

    def _hiding_options(self, path: str) -> tuple[str, ...]:
        """Return the options to make a path unreadable: an error says more than no content."""
        if Path(path).is_dir():
            return "--perms", "0000", "--tmpfs", path, "--remount-ro", path
        return "--ro-bind", self._unreadable, path


def _home_options(home: HomeView) -> list[str]:
    """Return the options to mount a home folder. It is writable until it has all mount points."""
    empty = [word for path in home.hidden for word in ("--perms", "0755", "--tmpfs", path)]
    return empty + [word for path, real in home.shown for word in ("--ro-bind", real, path)]


def _require_single_names(secret: Iterable[str]) -> None:
    """Raise SandboxUnavailable for a file with another name: a mount would hide only one."""
    for path in secret:
        about = os.lstat(path)
        if stat.S_ISREG(about.st_mode) and about.st_nlink > 1:
            raise SandboxUnavailable(
                f"{path} cannot be hidden from commands: it has another name (a hard link). "
                "Replace it by a copy: `cp -p FILE NEW && mv NEW FILE`."
            )


def _folders_between(paths: Iterable[str], written: Sequence[str]) -> list[str]:
    """Return the folders between a writable folder and the protected paths in it.

    A mount point cannot be renamed, so the protected mounts below it cannot be moved away.
    """
    return sorted(
        {
            str(folder)
            for path in paths
            for folder in Path(path).parents
            if str(folder) not in written and is_beneath_any(str(folder), written)
        }
    )


def _is_hidden(path: str, written: Sequence[str]) -> bool:
    """Return whether the private temporary folders hide a path already."""
    return is_beneath_any(path, _TEMPORARY) and not is_beneath_any(path, written)


def _setenv_options(variables: Mapping[str, str]) -> list[str]:
    return [word for name, value in variables.items() for word in ("--setenv", name, value)]


def _pack(words: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(word) + b"\0" for word in words)
