"""Keeps the folder and variables of a shell between commands, as plain data.

No process survives between two calls. The shell writes its state when a command ends; the state is
checked and passed to the next command. A hook adds the folder as text, ``cd src; ...``, before the
permission check. So rules, people and records see where the command really runs.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from handrail import Call, CheckedCall
from handrail.sandbox import safe_variables
from handrail.tools._files.links import resolve_existing
from handrail.tools._files.paths import is_beneath

_MAX_VARIABLES = 100
_MAX_NOTED_VARIABLES = 256
"""Variables that are read from the notes, kept or not: more than the shell itself writes."""
_MAX_VALUE_CHARS = 4_000
"""Characters of one variable."""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_GIVEN = re.compile(r"PWD|OLDPWD|SHLVL|_|LANG|LC_.*|TZ|CI|NO_COLOR|DEBIAN_FRONTEND|LOGNAME|USER")
"""Variables that every shell has."""
_STEP = re.compile(r"cd  (\./[\w@%+=:,./-]+|'[^']*(?:'\"'\"'[^']*)*'); ", re.ASCII)
"""The folder as the hook writes it: only the hook puts two spaces there."""
_LEAVE = (
    "handrail_leave() { builtin local n v IFS=$'\\n' left=24000; builtin jobs -rp; "
    "builtin printf '\\0'; builtin pwd -P; builtin printf '\\0'; "
    "for n in $(builtin compgen -e); do v=${!n}; ((${#v} > left - 200)) && continue; "
    '((left -= ${#v} + 100)); builtin printf \'%s=%s\\0\' "$n" "$v"; done; }; '
    "exec 199>&3 3>&-; trap '{ set +exu; handrail_leave >&199; } 2>/dev/null' EXIT; "
)
"""Written by the shell when it ends: running jobs, the folder, exported variables."""


def quote_command(command: str) -> str:
    """Quote a command as one argument of eval, so that syntax errors are only about it."""
    return f"eval {shlex.quote(command)}"


def add_notes(command: str) -> str:
    """Return a command that writes its state to descriptor 3 when it ends."""
    return f"{_LEAVE}{quote_command(command)}"


class ShellNotes(NamedTuple):
    """The state of a shell when a command ended."""

    jobs: int
    """Background processes that were still running."""
    folder: str
    """The absolute path that the command reported; empty if it reported none."""
    variables: dict[str, str]


def read_notes(notes: bytes) -> ShellNotes:
    """Parse the state that a command wrote. It may have written anything there."""
    jobs, _, rest = notes.partition(b"\0")
    folder, _, pairs = rest.partition(b"\0")
    variables: dict[str, str] = {}
    for pair in pairs.split(b"\0", _MAX_NOTED_VARIABLES)[:-1]:  # the last one may be incomplete
        name, _, value = pair.decode("utf-8", "replace").partition("=")
        variables[name] = value
    at = folder.removesuffix(b"\n").decode("utf-8", "replace")
    return ShellNotes(sum(word.isdigit() for word in jobs.split()), at, variables)


class Shell:
    """The folder and variables that last from one command of an agent to the next.

    Pass it to ``bash``, and ``Hook(before=shell.before)`` to the executor. Without the hook the
    folder is not kept, because the permission check would not see it.
    """

    def __init__(self) -> None:
        self._folder = ""
        self._variables: dict[str, str] = {}
        self._hooked = False

    @property
    def folder(self) -> str:
        """The folder of the next command, relative to the workspace; empty for the workspace."""
        return self._folder

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables that commands exported."""
        return MappingProxyType(self._variables)

    def forget(self) -> None:
        """Return to the workspace and drop all variables."""
        self._folder, self._variables = "", {}

    async def before(self, call: CheckedCall) -> CheckedCall | Call:
        """Hook: put the folder before the command, so that both are checked together."""
        if call.name != "bash":
            return call
        self._hooked = True
        args = call.args
        command = args.get("command")
        if not isinstance(command, str) or not command or not self._folder or args.get("restart"):
            return call
        return call.with_args(command=self._step() + command)

    def _step(self) -> str:
        """Return the ``cd`` command, as simple as possible because rules parse it, too."""
        return f"cd  {shlex.quote(f'./{self._folder}')}; "

    def take(self, notes: ShellNotes, root: str, start: str) -> None:
        """Keep the state that a command left, as far as it is safe."""
        self._variables = filter_variables(notes.variables)
        folder = relative_folder(notes.folder, root)
        if self._hooked and folder is not None and folder != start:
            self._folder = folder


def start_folder(command: str) -> str:
    """Return where a command starts: the folder that the hook put before it; empty by default."""
    step = _STEP.match(command)
    return shlex.split(step[1])[0].removeprefix("./") if step else ""


def relative_folder(folder: str, root: str) -> str | None:
    """Return a folder relative to the workspace; None if it is not a folder inside it."""
    if not is_beneath(folder, root):
        return None
    if not folder.isprintable() or resolve_existing(folder, flags=os.O_DIRECTORY) != folder:
        return None
    return folder[len(root) :].strip("/")


def filter_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to keep: few, short, and none that steers programs."""
    plain = {
        name: value
        for name, value in variables.items()
        if _PLAIN.fullmatch(name) and not _GIVEN.fullmatch(name) and len(value) <= _MAX_VALUE_CHARS
    }
    return dict(islice(safe_variables(plain).items(), _MAX_VARIABLES))
