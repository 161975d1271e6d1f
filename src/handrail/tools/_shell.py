"""What a shell keeps between commands: a folder and variables, as data that can be looked at.

No process lives on between two calls. What a command leaves is noted by the shell as it ends, read
with suspicion, and given to the next. The folder goes in as text, ``cd src; ...``, by a hook and so
before the call is judged: rules, people and records then see where the line really runs.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

from handrail import Call, Result
from handrail.sandbox import harmless
from handrail.tools._leads import real
from handrail.tools._names import beneath

_MOST_VARIABLES = 100
_MOST_NOTED = 256
"""Variables that are read of what was noted, kept or not: more than the shell itself notes."""
_MOST_CHARS = 4_000
"""Of one variable."""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_GIVEN = re.compile(r"PWD|OLDPWD|SHLVL|_|LANG|LC_.*|TZ|CI|NO_COLOR|DEBIAN_FRONTEND|LOGNAME|USER")
"""What every shell has anyway."""
_STEP = re.compile(r"cd  (\./[\w@%+=:,./-]+|'[^']*(?:'\"'\"'[^']*)*'); ", re.ASCII)
"""As the hook writes it: nobody else puts two blanks there."""
_LEAVE = (
    "handrail_leave() { builtin local n v IFS=$'\\n' left=24000; builtin jobs -rp; "
    "builtin printf '\\0'; builtin pwd -P; builtin printf '\\0'; "
    "for n in $(builtin compgen -e); do v=${!n}; ((${#v} > left - 200)) && continue; "
    '((left -= ${#v} + 100)); builtin printf \'%s=%s\\0\' "$n" "$v"; done; }; '
    "exec 199>&3 3>&-; trap '{ set +exu; handrail_leave >&199; } 2>/dev/null' EXIT; "
)
"""Noted by the shell as it ends: what still runs, the folder, what is exported."""


def alone(command: str) -> str:
    """A command as a word of its own: what the shell says of its syntax is about nothing else."""
    return f"eval {shlex.quote(command)}"


def noting(command: str) -> str:
    """A command that notes on descriptor 3, as it ends, what it leaves."""
    return f"{_LEAVE}{alone(command)}"


class Left(NamedTuple):
    """What a command left when it ended."""

    jobs: int
    """Programs that it started and that still ran."""
    folder: str
    """Absolute, as the command said; empty where it said nothing."""
    variables: dict[str, str]


def left(notes: bytes) -> Left:
    """Read what a command noted. It may have written anything there."""
    jobs, _, rest = notes.partition(b"\0")
    folder, _, pairs = rest.partition(b"\0")
    found: dict[str, str] = {}
    for pair in pairs.split(b"\0", _MOST_NOTED)[:-1]:  # what is not ended was cut off
        name, _, value = pair.decode("utf-8", "replace").partition("=")
        found[name] = value
    at = folder.removesuffix(b"\n").decode("utf-8", "replace")
    return Left(sum(one.isdigit() for one in jobs.split()), at, found)


class Shell:
    """The folder and the variables that commands of one agent hand on.

    Give it to ``bash`` and its ``before`` to the executor. Without the hook no folder is kept:
    nobody would have judged it.
    """

    def __init__(self) -> None:
        self._folder = ""
        self._variables: dict[str, str] = {}
        self._hooked = False

    @property
    def folder(self) -> str:
        """Where the next command runs, relative to the workspace; empty for the workspace."""
        return self._folder

    @property
    def variables(self) -> Mapping[str, str]:
        """What commands exported."""
        return MappingProxyType(self._variables)

    def forget(self) -> None:
        """Go back to the workspace and drop all variables."""
        self._folder, self._variables = "", {}

    async def before(self, call: Call) -> Call | Result:
        """A hook: puts the folder in front of the line, so that both are judged together."""
        if call.name != "bash":
            return call
        self._hooked = True
        args = _args(call)
        command = args.get("command")
        if not self._folder or not isinstance(command, str) or args.get("restart") is True:
            return call
        return replace(call, args={**args, "command": self._step() + command})

    def _step(self) -> str:
        """As simple as it can be: rules read it too."""
        return f"cd  {shlex.quote(f'./{self._folder}')}; "

    def take(self, what: Left, root: str, start: str) -> None:
        """Keep what a command left, as far as that is harmless."""
        self._variables = kept(what.variables)
        folder = inside(what.folder, root)
        if self._hooked and folder is not None and folder != start:
            self._folder = folder


def starts(command: str) -> str:
    """Where a line starts: in the folder that the hook put in front, or in the workspace."""
    step = _STEP.match(command)
    return shlex.split(step[1])[0].removeprefix("./") if step else ""


def _args(call: Call) -> dict[str, Any]:
    """The arguments, where they can be read as they are; else whoever mends them comes later."""
    if not isinstance(call.args, str):
        return dict(call.args)
    try:
        read: Any = json.loads(call.args)
        return dict(read)
    except (TypeError, ValueError):
        return {}


def inside(folder: str, root: str) -> str | None:
    """A folder as a path relative to the workspace; None where it is none, or cannot be told."""
    if not beneath(folder, root):
        return None
    if not folder.isprintable() or real(folder, flags=os.O_DIRECTORY) != folder:
        return None
    return folder[len(root) :].strip("/")


def kept(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables that may be handed on: few, short, and none that steers programs."""
    plain = {
        name: value
        for name, value in variables.items()
        if _PLAIN.fullmatch(name) and not _GIVEN.fullmatch(name) and len(value) <= _MOST_CHARS
    }
    return dict(islice(harmless(plain).items(), _MOST_VARIABLES))
