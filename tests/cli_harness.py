"""The command line under test: in this process, or in one of its own, far from anybody's home."""

from __future__ import annotations

import importlib
import io
import json
import os
import pkgutil
import re
import runpy
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from jsonschema import Draft202012Validator

import forked
import handrail.cli.commands

SCHEMAS = Path(__file__).parents[1] / "docs" / "cli" / "schemas"
KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "SSL_CERT_FILE", "VIRTUAL_ENV")
"""What of the environment a command sees; nobody's keys, and no settings."""


class Ran(NamedTuple):
    """What a command left."""

    exit: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The document on stdout."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The documents on stdout, one on a line."""
        return [json.loads(one) for one in self.out.splitlines()]

    @property
    def error(self) -> dict[str, Any]:
        """The error envelope, which is the last line on stderr."""
        told: dict[str, Any] = json.loads(self.err.splitlines()[-1])["error"]
        return told


@dataclass(frozen=True)
class Handrail:
    """The command `handrail`, in a workspace and with a home of its own."""

    folder: Path

    @property
    def workspace(self) -> Path:
        """Where commands run."""
        return self.folder / "ws"

    @property
    def config(self) -> Path:
        """The user's settings and rules."""
        return self.folder / "config" / "handrail"

    @property
    def state(self) -> Path:
        """What commands keep."""
        return self.folder / "state" / "handrail"

    def __call__(self, *arguments: str, input: str = "", env: Mapping[str, str | None] = {}) -> Ran:  # noqa: A002
        """Run a command in this process; its stdin is no terminal."""
        out, err = _stream(), _stream()
        with self._apart(env) as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setattr(sys, "stdin", _stream(input.encode()))
            code = _code(arguments)
        return Ran(code, _text(out), _text(err))

    def process(self, *arguments: str, input: str = "", env: Mapping[str, str | None] = {}) -> Ran:  # noqa: A002
        """Run a command in a process of its own, which needs no imports."""
        if not forked.can(env):
            return self.real(*arguments, input=input, env=env)
        done = forked.run(arguments, input, env=self.environment(env), cwd=self.workspace)
        return Ran(*done)

    def real(self, *arguments: str, input: str = "", env: Mapping[str, str | None] = {}) -> Ran:  # noqa: A002
        """Run a command in a new interpreter."""
        done = subprocess.run(  # noqa: S603  our own interpreter
            [sys.executable, "-m", "handrail.cli", *arguments],
            input=input,
            capture_output=True,
            encoding="utf-8",
            env=self.environment(env),
            cwd=self.workspace,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def write(self, name: str, text: str) -> Path:
        """A file of the workspace."""
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def environment(self, env: Mapping[str, str | None] = {}) -> dict[str, str]:
        """What a command sees; a variable that is None is not set."""
        kept = {name: os.environ[name] for name in os.environ if name in KEPT or _covers(name)}
        usual = kept | {
            "COLUMNS": "80",
            "HANDRAIL_PLAIN": "1",  # answers are whole lines
            "HANDRAIL_MODEL_TRIES": "1",  # nothing waits for a provider that is away
            "HOME": str(self.folder / "home"),
            "TERM": "xterm-256color",
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "XDG_DATA_HOME": str(self.folder / "data"),
            "XDG_STATE_HOME": str(self.folder / "state"),
        }
        return {name: value for name, value in (usual | env).items() if value is not None}

    @contextmanager
    def _apart(self, env: Mapping[str, str | None]) -> Iterator[pytest.MonkeyPatch]:
        """What a command changes in a process is as it was, for the next one."""
        modules = set(sys.modules)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.workspace)
            wanted = self.environment(env)
            for name in [*os.environ]:
                patch.delenv(name)
            for name, value in wanted.items():
                patch.setenv(name, value)
            patch.setattr(sys, "path", list(sys.path))
            patch.setattr(sys, "dont_write_bytecode", True)
            importlib.invalidate_caches()
            try:
                yield patch
            finally:
                _forget(set(sys.modules) - modules, self.folder)


@dataclass(frozen=True)
class Schemas:
    """The published schemas of what commands print."""

    folder: Path = SCHEMAS

    def __call__(self, name: str, document: Any, *, part: str = "") -> Any:
        """The document, which is valid; ``part`` is a name of ``$defs``, such as line."""
        whole = json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8"))
        wanted = whole if not part else {"$defs": whole["$defs"], "$ref": f"#/$defs/{part}"}
        Draft202012Validator(wanted).validate(document)
        return document


def made(folder: Path) -> Handrail:
    """A command with an empty workspace and an empty home."""
    for name in ("ws", "home"):
        (folder / name).mkdir()
    return Handrail(folder)


def commands(above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command that does something."""
    for name in sorted(_listed(above)):
        words = (*above, name)
        if _listed(words):
            yield from commands(words)
        else:
            yield words


def command_at(words: tuple[str, ...]) -> tuple[click.Command, str]:
    """A command, and the line that the list above it has for it."""
    told = " ".join(_help(words).split())
    [found] = [one for one in _modules() if _beginning(one) in told]
    return found, _listed(words[:-1])[words[-1]]


def groups() -> list[tuple[str, ...]]:
    """The words of everything that has commands below it."""
    return [(), *sorted({one[:-1] for one in commands() if one[:-1]})]


def _code(arguments: tuple[str, ...]) -> int:
    """What `python -m handrail.cli` ends with, in this process; it leaves signals as they were."""
    handlers = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["handrail", *arguments])
        try:
            runpy.run_module("handrail.cli", run_name="__main__")
        except SystemExit as ended:
            return int(ended.code or 0)
        finally:
            for one, handler in handlers.items():
                signal.signal(one, handler)
    raise AssertionError("a command ends with an exit code")


@cache
def _help(words: tuple[str, ...]) -> str:
    out = _stream()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
        patch.setenv("COLUMNS", "100")
        assert _code((*words, "--help")) == 0
    return _text(out)


def _listed(words: tuple[str, ...]) -> dict[str, str]:
    """The commands below others, as the help lists them: a line for each name."""
    _, _, listed = _help(words).partition("\nCommands:\n")
    return dict(re.findall(r"(?m)^  (\S+) +(.+)$", listed))


@cache
def _modules() -> list[click.Command]:
    """The commands of all modules."""
    package = handrail.cli.commands
    found = pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    names = [vars(importlib.import_module(one.name)).values() for one in found]
    return [one for values in names for one in values if isinstance(one, click.Command)]


def _beginning(command: click.Command) -> str:
    """The first paragraph of a command's help."""
    return " ".join((command.help or "").split("\n\n")[0].split())


def _forget(modules: set[str], folder: Path) -> None:
    """Take modules back that came from a folder: the next test has others of their names."""
    for name in modules:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).is_relative_to(folder):
            del sys.modules[name]


def _covers(name: str) -> bool:
    return name.startswith(("COVERAGE_", "COV_"))


def _stream(content: bytes = b"") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    written = stream.buffer
    assert isinstance(written, io.BytesIO)
    return written.getvalue().decode()
