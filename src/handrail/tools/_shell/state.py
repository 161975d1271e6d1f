"""Keeps the folder and variables of a shell between commands, as plain data.

No process survives between two calls. The shell writes its state when a command ends; the state is
checked and passed to the next command. The folder becomes part of the next command's text,
``cd  ./src; ...``, before the permission check. So rules, people and records see where the command
really runs.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from handrail import Args, Failure, Tool
from handrail.sandbox import safe_variables
from handrail.tools._files.links import resolve_existing
from handrail.tools._files.paths import is_beneath

_Parse: TypeAlias = Callable[[Mapping[str, Any] | str], Args | Failure]
_MAX_VARIABLES = 100
_MAX_NOTED_VARIABLES = 256
"""Variables read from the notes, kept or not: more than the shell itself writes."""
_MAX_VALUE_CHARS = 4_000
"""Characters of one variable."""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_GIVEN = re.compile(r"PWD|OLDPWD|SHLVL|_|LANG|LC_.*|TZ|CI|NO_COLOR|DEBIAN_FRONTEND|LOGNAME|USER")
"""Variables every shell has."""
_STEP = re.compile(r"cd  (\./[\w@%+=:,./-]+|'[^']*(?:'\"'\"'[^']*)*'); ", re.ASCII)
"""The folder as `Shell` writes it: with two spaces, so it is not added a second time."""
_EXPORT = re.compile(r"\b(?:export|declare|typeset)\s([^\n]*)")
"""A command that exports variables, and the rest of its line."""
_WORD = re.compile(r"(?<![^\s;&|(])([A-Za-z_][A-Za-z0-9_]*)(?![A-Za-z0-9_$])")
_LEAVE = (
    "handrail_leave() { builtin local n v IFS=$'\\n' left=24000; builtin jobs -rp; "
    "builtin printf '\\0'; builtin pwd -P; builtin printf '\\0'; "
    "for n in $(builtin compgen -e); do v=${!n}; ((${#v} > left - 200)) && continue; "
    '((left -= ${#v} + 100)); builtin printf \'%s=%s\\0\' "$n" "$v"; done; }; '
    "trap '{ set +exu; [[ -p /proc/$$/fd/199 ]] && handrail_fd=199; "
    "[[ -p /proc/$$/fd/$handrail_fd ]] && handrail_leave >&$handrail_fd; } 2>/dev/null' EXIT; "
    "exec 199>&3; { for handrail_fd in {10..30}; do "
    "[[ /proc/$$/fd/$handrail_fd -ef /proc/$$/fd/3 ]] && break; done; exec 3>&-; "
)
"""Written by the shell when it ends: running jobs, the folder, exported variables.

The command is a group that closes descriptor 199. The shell keeps a copy to restore it, which no
program inherits. If the command exits, the copy may not have been restored, so its number is kept.
"""


def quote_command(command: str) -> str:
    """Quote a command as one argument of eval, so syntax errors are only about it.

    The argument is on one line, so the shell counts the command's lines from 1.
    """
    return "eval " + shlex.quote(command).replace("\n", "'$'\\n''")


def add_notes(command: str) -> str:
    """Return a command that writes its state to descriptor 3 when it ends."""
    return f"{_LEAVE}{quote_command(command)}; }} 199>&-"


class ShellNotes(NamedTuple):
    """The state of a shell when a command ended."""

    jobs: int
    """Background processes that were still running."""
    folder: str
    """The absolute path the command reported; empty if it reported none."""
    variables: dict[str, str]


def read_notes(notes: bytes) -> ShellNotes:
    """Parse the state a command wrote. It may have written anything there."""
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

    Pass it to ``bash`` to read and reset them. Use a separate one for each agent.
    """

    def __init__(self) -> None:
        self._folder = ""
        self._variables: dict[str, str] = {}

    @property
    def folder(self) -> str:
        """The folder of the next command, relative to the workspace; empty for the workspace."""
        return self._folder

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables commands exported."""
        return MappingProxyType(self._variables)

    def forget(self) -> None:
        """Return to the workspace and drop all variables."""
        self._folder, self._variables = "", {}

    def follow(self, bash: Tool[..., Any]) -> Tool[..., Any]:
        """Return a tool whose commands start in this shell's folder."""
        return replace(bash, parse=self._follow(bash.parse))

    def _follow(self, parse: _Parse) -> _Parse:
        """Return a function that parses arguments, and adds the folder to the command."""

        def parse_and_step(given: Mapping[str, Any] | str) -> Args | Failure:
            args = parse(given)
            if not self._folder or not isinstance(args, Args):
                return args
            command = args.values.get("command", "")
            if not command.strip() or args.values.get("restart") or _STEP.match(command):
                return args
            changed = {"command": self._step() + command}
            text = json.dumps({**json.loads(args.text), **changed})
            return args._replace(values={**args.values, **changed}, text=text)

        return parse_and_step

    def _step(self) -> str:
        """Return the ``cd`` command, as simple as possible because rules parse it, too."""
        # in the text, so rules and people see where it runs: decision 023
        return f"cd  {shlex.quote(f'./{self._folder}')}; "

    def take(self, command: str, notes: ShellNotes, root: str) -> tuple[str, ...]:
        """Keep the state a command left, as far as it is safe.

        Returns the exported variables that are not kept.
        """
        named = find_exported(command) | self._variables.keys()
        wanted = {name: value for name, value in notes.variables.items() if name in named}
        if notes.folder:  # otherwise the command wrote no state
            self._variables = filter_variables(wanted)
        folder = relative_folder(notes.folder, root)
        if folder is not None and folder != start_folder(command):
            self._folder = folder
        dropped = find_exported(command, assigned=True) & wanted.keys() - self._variables.keys()
        return tuple(sorted(dropped))


def start_folder(command: str) -> str:
    """Return where a command starts: the folder put before it; empty by default."""
    return split_folder(command)[0]


def split_folder(command: str) -> tuple[str, str]:
    """Return where a command starts, and the command as the model wrote it."""
    step = _STEP.match(command)
    if step is None:
        return "", command
    return shlex.split(step[1])[0].removeprefix("./"), command[step.end() :]


def find_exported(command: str, *, assigned: bool = False) -> set[str]:
    """Return the names after an `export` in a command; with ``assigned``, those with a value.

    It may return too many, never one the command does not mention.
    """
    names = set[str]()
    for line in _EXPORT.findall(command):
        for word in _WORD.finditer(line.split(";")[0] if assigned else line):
            if not assigned or line[word.end() : word.end() + 1] == "=":
                names.add(word[1])
    return names


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
