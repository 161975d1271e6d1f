"""Programs running no workspace code, or only code we can find. No other one is known."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from handrail.policy._code.loaded import with_endings
from handrail.policy._code.runners import (
    HARMLESS,
    TASK_RUNNERS,
    config_patterns,
    find_modules,
    options_of,
    program_folders,
    read_scripts,
    runs_everything,
    runs_scripts,
)
from handrail.policy._shell.rough import ReadLine, started_commands
from handrail.policy._shell.wrappers import SHELLS, program_name, runs_others, without_version

Argv = tuple[str, ...]

_RUNNING_MODULES = frozenset(
    """
    bdb cProfile code codeop compileall distutils doctest ensurepip idlelib imp importlib lib2to3
    modulefinder pdb pickle pickletools profile pydoc pyclbr runpy site test timeit trace turtledemo
    unittest venv zipapp zipimport
    """.split()
)
"""Python standard library modules that run or import other code."""
_WRAPPED: dict[str, tuple[int, str]] = {
    **dict.fromkeys(("builtin", "command", "nohup", "setsid", "time"), (0, "")),
    **dict.fromkeys(("timeout", "gtimeout"), (1, "-s -k --signal --kill-after")),
    **dict.fromkeys(("sudo", "doas"), (0, "-u -g")),
    "env": (0, "-C -u --chdir --unset"),
    "exec": (0, "-a"),
    "nice": (0, "-n --adjustment"),
    "ionice": (0, "-c -n"),
    "stdbuf": (0, "-i -o -e"),
    "xargs": (0, "-n -I -P -L -d -s -a -E --max-args --max-procs --arg-file --delimiter"),
}
"""Programs running the rest of their words: the number of words before it, options with values."""
_INTERPRETERS = {
    **dict.fromkeys(("python", "pypy"), "-W -X"),
    **dict.fromkeys(("node", "nodejs"), "-r --require --import --loader"),
    **dict.fromkeys(("tsx", "ts-node", "bun", "deno"), "-r --require --import --loader"),
    "ruby": "-r -I",
    **dict.fromkeys(("perl", "php", "lua", "luajit", "tclsh", "osascript", "Rscript"), "-I -l"),
}
"""Interpreters, with options for files to run first."""
_FETCHING = frozenset("npx bunx pnpx uvx pipx".split())
"""Programs running a package, from the workspace if it is there."""
_LAUNCHING = {
    **dict.fromkeys(("npm", "pnpm"), ("exec", "x", "dlx")),
    **dict.fromkeys(("uv", "poetry", "pdm", "hatch", "pipenv", "rye", "pixi"), ("run",)),
    "bundle": ("exec",),
}
_PACKAGE_OPTIONS = "-p --package -c --call --from --with -P --python --directory --project"
_FOLDER_OPTIONS = frozenset(["--directory", "--project"])
_TAKEN = re.compile(r"\w+=.*", re.DOTALL)
_OPTIONS = re.compile(
    r"(NODE_OPTIONS|RUBYOPT|PERL5OPT|PERL5DB|PYTHON(?:HOME|STARTUP|INSPECT|BREAKPOINT)|BASH_ENV|ENV"
    r"|LD_\w+|DYLD_\w+|JAVA_TOOL_OPTIONS|JDK_JAVA_OPTIONS|GIT_\w+|npm_config_\w+|UV_\w+)(?:=.*)?",
    re.DOTALL | re.IGNORECASE,
)
"""Variables making a program run more code."""
_NOTHING = Path(os.devnull)
_FINDING = frozenset(["find", "fd", "fdfind"])
_DEPENDENT = frozenset("composer docker-compose git hg sqlite3".split())
"""Programs whose settings in a folder, or whose words, make them run other programs."""
_CONTAINERS = frozenset("docker podman nerdctl".split())
_IN_CONTAINER = (("run",), ("exec",))
_EXECUTING = frozenset("-exec -execdir -ok -okdir -x -X --exec --exec-batch".split())


@dataclass(frozen=True, slots=True)
class KnownPrograms:
    """Tells whether the workspace files run by a line can be found."""

    root: Path
    folders: Sequence[Path]
    variables: Mapping[str, str]
    match: Callable[[Path, str], list[Path]]
    """Return the existing paths named by a word, from a folder."""
    installed: bool
    """Whether unknown installed programs run no workspace code."""
    reads_files: bool = False
    """Whether a shell without a file gets its commands from files named by the line."""

    def describe_line(self, line: str, read: ReadLine) -> str:
        """Return why a line may run unfound files, or ""."""
        started = list(started_commands(line, self.variables))
        piped = [argv for argv in started if program_name(argv[0]) not in SHELLS]
        printed = piped and all(argv[0] == "cat" and argv[1:] for argv in piped)
        files = "<<" not in line and bool(printed if "|" in line else read.inputs)
        known = replace(self, reads_files=files)
        reasons = (reason for argv in started if (reason := known.describe(argv)))
        return _describe_variables(read.assigned) or next(reasons, "")

    def describe(self, argv: Argv) -> str:
        """Return why a command may run unfound files, or ""."""
        while argv and _TAKEN.fullmatch(argv[0]):
            argv = argv[1:]
        if not argv:
            return ""
        name = program_name(argv[0])
        if any(map(_OPTIONS.fullmatch, (word for word in argv if "=" in word))):
            return _describe_variables(word for word in argv if "=" in word)
        return "" if self._is_known(name, argv) else self._describe_inner(name, argv)

    def _describe_inner(self, name: str, argv: Argv) -> str:
        inside = name in _LAUNCHING or name in _FINDING  # what it runs may be in the workspace
        judge = replace(self, installed=self.installed and not inside)
        reasons = [judge.describe(one) for one in self._inner(name, argv)]
        unknown = f"it is not known which workspace files `{name}` runs"
        return next(filter(None, reasons), "") if reasons else unknown

    def _is_known(self, name: str, argv: Argv) -> bool:
        if runs_everything(argv):
            return False
        if name in HARMLESS or (name in _FINDING and _EXECUTING.isdisjoint(argv)):
            return True
        if without_version(name) in _INTERPRETERS:
            return self._runs_files(without_version(name), argv) or self._runs_scripts(argv)
        if name in TASK_RUNNERS:
            return any(map(self._exists, config_patterns(argv)))
        if name in _FETCHING or name in _LAUNCHING or runs_scripts(argv):
            return self._runs_scripts(argv) or self._runs_package(name, argv)
        return name not in _WRAPPED and self._is_program(argv)

    def _is_program(self, argv: Argv) -> bool:
        """Return whether a program is a file named by the line, or an installed one."""
        name = program_name(argv[0])
        if runs_others(name) or name in _DEPENDENT or name in _FINDING:
            return False
        if name in _CONTAINERS:
            rest = options_of(argv, ())[1]
            return self.installed and rest[:1] in _IN_CONTAINER and not self._has_folder(argv)
        if self._is_own(argv[0]):
            return True
        return self.installed and not self._has_folder(argv)

    def _runs_files(self, name: str, argv: Argv) -> bool:
        """Return whether the files run by an interpreter are found."""
        if modules := list(find_modules(argv)):
            return all(map(self._is_known_module, modules))
        valued = _INTERPRETERS[name].split()
        loaded, rest = options_of(argv, valued)
        if name in {"bun", "deno"} and rest[:1] == ("run",):
            rest = rest[1:]
        files = [value for option, value in loaded if option not in {"-W", "-X"}]
        return bool(rest) and all(map(self._exists, (*files, rest[0])))

    def _is_known_module(self, module: str) -> bool:
        top = module.partition(".")[0]
        if self._exists(top) or self._exists(f"{top}.py"):
            return True
        if top in sys.stdlib_module_names:
            return top not in _RUNNING_MODULES
        return self.installed or top in HARMLESS

    def _runs_scripts(self, argv: Argv) -> bool:
        return runs_scripts(argv) and self._has_scripts(argv)

    def _runs_package(self, name: str, argv: Argv) -> bool:
        """Return whether the package started by a runner is found, or an installed one."""
        inner = self._launched(name, argv)
        if not inner or runs_everything(inner):
            return False
        if any(self._exists(f"{folder}/{inner[0]}") for folder in program_folders(argv)):
            return True
        return self.installed and name in _FETCHING and not self._is_own(inner[0])

    def _launched(self, name: str, argv: Argv) -> Argv:
        """Return the command started by a runner, or nothing if unknown."""
        words = _LAUNCHING.get(name, ())
        at = 0 if name in _FETCHING else next((n for n, one in enumerate(argv) if one in words), -1)
        if at < 0 or not {"-m", "--module"}.isdisjoint(argv):
            return ()
        values, rest = options_of(argv[at:], _PACKAGE_OPTIONS.split())
        others = [value for option, value in values if option not in _FOLDER_OPTIONS]
        return () if any(map(self._exists, others)) else rest

    def _inner(self, name: str, argv: Argv) -> Iterator[Argv]:
        """Yield a command's inner commands, or nothing if unknown."""
        if name in _WRAPPED:
            skipped, valued = _WRAPPED[name]
            rest = options_of(argv, valued.split())[1][skipped:]
            yield from (rest,) if rest else ()
        elif name in SHELLS or name in {".", "source"}:
            yield from self._inner_of_shell(argv)
        elif name == "eval":
            yield from self._read(" ".join(argv[1:]))
        elif name in _LAUNCHING or name in _FETCHING:
            launched = self._launched(name, argv)
            yield from (launched,) if launched else ()
        elif name in _FINDING:
            starts = [argv[at + 1 :] for at, word in enumerate(argv) if word in _EXECUTING]
            yield from () if any("{}" in word for one in starts for word in one[:1]) else starts

    def _inner_of_shell(self, argv: Argv) -> Iterator[Argv]:
        text = next((at for at, word in enumerate(argv) if re.fullmatch(r"-\w*c", word)), 0)
        rest = options_of(argv, ["-o", "+o", "-O", "--rcfile", "--init-file"])[1]
        if text:
            yield from self._read("".join(argv[text + 1 : text + 2]))
        elif self._exists(rest[0]) if rest else self.reads_files:
            yield ("true",)

    def _read(self, text: str) -> Iterator[Argv]:
        return started_commands(text, self.variables)

    def _has_scripts(self, argv: Argv) -> bool:
        return any(any(read_scripts(argv, folder)) for folder in self.folders)

    def _exists(self, word: str) -> bool:
        """Return whether a word names something in the workspace, or a file elsewhere."""
        if any(any(with_endings(folder, word)) for folder in self.folders):
            return True
        found = (path for folder in self.folders for path in self.match(folder, word))
        return any(
            path.is_file() or path.is_relative_to(self.root) or path == _NOTHING for path in found
        )

    def _has_folder(self, argv: Argv) -> bool:
        """Return whether a word names a workspace folder."""
        words = {part for word in argv[1:] for part in re.split(r"[=:,]", word)}
        found = (
            path for folder in self.folders for word in words for path in self.match(folder, word)
        )
        return any(path.is_dir() and path.is_relative_to(self.root) for path in found)

    def _is_own(self, word: str) -> bool:
        """Return whether a program is a file named by the word, not an installed one."""
        other = "/" not in word and shutil.which(word, path=self.variables.get("PATH", ""))
        if other and not Path(os.path.realpath(other)).is_relative_to(self.root):
            return False
        return any(path.is_file() for folder in self.folders for path in self.match(folder, word))


def _describe_variables(names: Iterable[str]) -> str:
    found = next(filter(None, map(_OPTIONS.fullmatch, names)), None)
    return f"`{found[1]}` may make it run other files" if found else ""
