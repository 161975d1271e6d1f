"""The second tier: Landlock and a system call filter, for systems without bubblewrap."""

from __future__ import annotations

import functools
import os
import subprocess
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from handrail._support.own_files import list_opened_databases
from handrail.net import Proxy
from handrail.sandbox._home import HomeView
from handrail.sandbox._kernel import landlock, seccomp, syscalls
from handrail.sandbox._process import script
from handrail.sandbox._process.pipes import Pipes
from handrail.sandbox._process.process_tree import ProcessTree, require_markable
from handrail.sandbox._process.running import PipeReader, Process
from handrail.sandbox._process.spawn import popen
from handrail.sandbox._protected import folders_above, is_beneath, is_beneath_any
from handrail.sandbox._setup import Setup
from handrail.sandbox._values import MoreHosts, Report, Restriction, SandboxUnavailable, Streams

_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_DEVICE_FOLDER: Final = "/dev"
"""Not readable as a whole: it has the terminals, and the first reader gets what a user types."""
_ON: Final = (
    "commands can write only the workspace and a private temporary folder (Landlock)",
    "in the home folder, only what tools need can be read; masked files cannot (Landlock)",
    "no network and no sockets, not even localhost (system call filter)",
    "no capabilities, no new privileges, no tracing, mounts, namespaces, keys or io_uring",
    "separate environment; no input, no terminal; limits on memory, files and core dumps",
    "every process of a command ends with it",
)
_OPEN: Final = (
    "modes, times and attributes of files outside can be changed, if the user may change them",
    "as root, this includes making programs setuid",
    "files that other programs execute or trust (.git/hooks, .vscode, ...) can be written",
    "other processes and their temporary files can be seen",
    "the names of masked files can be listed",
    "commands keep running if this process is killed",
    "file watches (inotify) are counted by user: a command can use all of them until it ends",
    "hosts cannot be allowed",
)
_AROUND: Final = (
    "commands cannot create, rename or remove entries of {}: this program's code is there "
    "(Landlock)"
)
_RUNS: Final = "the database of runs in the workspace can be changed"
_BY_RULES: Final = "files that rules deny or ask about can be read and changed, unless named"
_SIGNALS: Final = "signals can be sent to other processes of this user (before Linux 6.12)"
_SCOPES_VERSION: Final = 6
_NO_HOSTS: Final = "Allowing hosts requires bubblewrap."


class LandlockTier:
    """Runs commands from a thread restricted by itself with Landlock."""

    hosts: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    own_folders: tuple[str, ...] = ()
    """Empty for the workspace: commands can write all its folders."""
    shares_loopback = False
    opens_hosts = False
    restricts_files = False
    """A rule for a folder covers all files in it. Without one, new files could not be read."""

    def __init__(self, setup: Setup, network: Sequence[str] | Proxy) -> None:
        if network:
            raise SandboxUnavailable(_NO_HOSTS)
        if kept := setup.paths_to_keep():
            raise SandboxUnavailable(f"Protecting {kept[0]} requires bubblewrap.")
        self._filter = seccomp.assemble_filter(())
        self._version = syscalls.landlock_version()
        landlock.require_version(self._version)
        require_markable()
        self._setup = setup
        self._temporary = setup.make_folder("tmp")
        self._variables = setup.visible_variables(self._temporary, offline=True)
        self._ruleset: _Ruleset | None = None

    def report(self) -> Report:
        """Return what Landlock and the filter enforce."""
        report = make_report(self._version, has_rules=self._setup.has_rules)
        split = self._list_split(self._setup.find_own_code().kept)
        around = (_AROUND.format(", ".join(split)),) if split else ()
        runs = (_RUNS,) if list_opened_databases(self._setup.root) else ()
        return replace(
            report,
            enforced=(*report.enforced, *around),
            not_enforced=(*runs, *report.not_enforced),
        )

    def _list_split(self, code: Sequence[str]) -> list[str]:
        """Return the workspace folders around this program's own code, by name."""
        root = self._setup.root
        above = {folder for path in code for folder in folders_above(path)}
        names = sorted(path[len(root) + 1 :] for path in above if is_beneath(path, root))
        return [name or "the workspace" for name in names]

    def find_closed(self, hosts: Sequence[str]) -> list[str]:
        """Return these hosts: commands reach none."""
        return list(hosts)

    def prepare(self) -> None:
        """Read the user's git settings."""
        self._git_variables()

    def start(
        self,
        command: str,
        cwd: str,
        variables: Mapping[str, str],
        _restricted: Mapping[str, Restriction],
        *,
        more: MoreHosts,
        streams: Streams,
        opened: Sequence[str] = (),
    ) -> Process:
        """Start a command, which waits until it is marked."""
        del opened  # all names are writable
        if more.own:
            raise SandboxUnavailable(_NO_HOSTS)
        with Pipes() as pipes:
            output, gate = pipes.output(), pipes.gate()
            notes_pipe = pipes.extra_output() if streams.notes else None
            source = pipes.standard_input() if streams.source else None
            opening = script.wait_for_line(gate.theirs) + (
                script.open_notes(notes_pipe.theirs) if notes_pipe else ""
            )
            text = script.encode(command, self._setup.limits, opening=opening)
            words = script.argv(self._setup.shell, pipes.file(text))
            environment = {**self._git_variables(), **self._variables, **variables}
            # a thread restricts itself, so no Python runs between fork and exec: decision 019
            process = self._spawn(
                lambda: popen(
                    words,
                    output=output.theirs,
                    source=source.theirs if source else subprocess.DEVNULL,
                    env=environment,
                    fds=pipes.inherited,
                    cwd=cwd,
                )
            )
            tree = ProcessTree(process.pid)
            os.write(gate.ours, b"\n")
            os.close(gate.ours)
        return Process(
            process,
            output=PipeReader(output.ours),
            notes=PipeReader(notes_pipe.ours) if notes_pipe else None,
            source=source.ours if source else None,
            clear=functools.partial(self._clear, tree),
        )

    async def _clear(self, tree: ProcessTree) -> None:
        """Kill the processes. The reference keeps the sandbox and its private folder alive."""
        await tree.clear()

    def _spawn(self, work: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        return landlock.run_restricted(work, [self._current_ruleset()], self._filter)

    def _git_variables(self) -> dict[str, str]:
        """Return the variable replacing the user's git settings, if the home is hidden."""
        home = self._setup.home
        return {"GIT_CONFIG_GLOBAL": home.git_settings} if home.hidden else {}

    def _current_ruleset(self) -> int:
        """Return the ruleset, making a new one if a folder with hidden entries has changed."""
        secret, view = self._setup.find_secrets(), self._setup.home.view()
        code = self._setup.find_own_code().kept
        hidden = [*view.hidden, _DEVICE_FOLDER]
        hidden += [path for path in secret if not is_beneath_any(path, hidden)]
        now = (view, code, *landlock.ruleset_key([*hidden, *secret, *code], self._setup.written))
        if self._ruleset is None or self._ruleset.state != now:
            allowed = [
                *self._list_readable(hidden, secret, view),
                *self._list_writable(secret, code),
            ]
            self._ruleset = _Ruleset(now, landlock.make_ruleset(self._version, allowed))
        return self._ruleset.fd

    def _list_readable(
        self, hidden: Sequence[str], secret: Sequence[str], view: HomeView
    ) -> Iterator[tuple[str, int]]:
        yield "/", landlock.LIST
        for path in landlock.paths_except(hidden):
            yield path, landlock.READ
        for _, real in view.shown:
            for path in landlock.paths_except(secret, real):
                yield path, landlock.READ

    def _list_writable(
        self, secret: Sequence[str], code: Sequence[str]
    ) -> Iterator[tuple[str, int]]:
        """Yield what commands can write: all but this program's own code.

        A right to a folder is one to everything inside. So the folders around the code cannot be
        written themselves, and each other entry has its own rule.
        """
        for top in (*self._setup.written, self._temporary, *_DEVICES):
            inside = [path for path in code if is_beneath(path, top)]
            if not inside:
                yield top, landlock.MAKE
            for path in landlock.paths_except(secret, top) if inside else ():
                yield path, landlock.READ
            for path in landlock.paths_except([*secret, *inside], top):
                yield path, landlock.WRITE


class _Ruleset:
    """A kernel ruleset, and the state it was made from."""

    def __init__(self, state: object, fd: int) -> None:
        self.state = state
        self.fd = fd
        weakref.finalize(self, os.close, fd)


def make_report(version: int, *, has_rules: bool = False) -> Report:
    """Return what this Landlock version enforces."""
    by_rules = (_BY_RULES,) if has_rules else ()
    signals = () if version >= _SCOPES_VERSION else (_SIGNALS,)
    return Report("landlock", _ON, (*_OPEN, *by_rules, *signals))
