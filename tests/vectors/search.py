"""Patterns and trees that are to make a search hang, leak or run something.

A canary stands on the PATH under the names of programs that a search could be talked into running;
that it never ran is what is looked at. What is to end soon is measured in processor time.
"""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from handrail import Call, Executor, FailureKind, Result, Toolset
from handrail.tools import Workspace, glob, grep

SOON = 1.0
PATIENCE = 15.0  # under the deadline of the tools, which is 20 seconds
FILES = {"brief": 500, "soak": 1_000_000}.get(os.environ.get("HANDRAIL_PROFILE", ""), 2_000)
CANARY = "#!/bin/sh\necho ran >> {log}\nexec cat\n"
RUNNABLE = ("canary", "gzip", "bzip2", "xz", "lz4", "brotli", "zstd", "uncompress")


class Ground(NamedTuple):
    """A workspace, and the log of the canary outside of it."""

    root: Path
    log: Path

    @property
    def quiet(self) -> bool:
        """Whether nothing was run."""
        return not self.log.exists()


@contextmanager
def ground() -> Iterator[Ground]:
    """A new workspace; meanwhile the PATH leads to canaries, and settings ask for one."""
    with tempfile.TemporaryDirectory() as folder:
        place = Ground(Path(folder, "ws"), Path(folder, "log"))
        place.root.mkdir()
        programs = Path(folder, "bin")
        programs.mkdir()
        for name in RUNNABLE:
            (programs / name).write_text(CANARY.format(log=place.log), encoding="utf-8")
            (programs / name).chmod(0o755)
        settings = Path(folder, "rc")
        settings.write_text(f"--pre={programs}/canary\n", encoding="utf-8")
        before = dict(os.environ)
        os.environ["PATH"] = f"{programs}{os.pathsep}{before.get('PATH', os.defpath)}"
        os.environ["RIPGREP_CONFIG_PATH"] = str(settings)
        try:
            yield place
        finally:
            os.environ.clear()
            os.environ.update(before)


class Asked(NamedTuple):
    """What became of a call."""

    result: Result
    seconds: float
    worked: float
    quiet: bool

    @property
    def kind(self) -> FailureKind | None:
        """What kind of failure it is, if it is one."""
        return self.result.failure.kind if self.result.failure else None

    @property
    def lines(self) -> list[str]:
        """What was found."""
        return [one for one in self.result.text.splitlines() if one and not one.startswith("[")]


Fill = Callable[[Path], object]


def asked(fill: Fill, name: str, **args: Any) -> Asked:
    """Put a question to a tool, over a workspace that was filled for it."""
    with ground() as place:
        fill(place.root)
        workspace = Workspace(place.root)
        tools = Toolset(glob(workspace), grep(workspace))
        started, worked = time.perf_counter(), _processor_seconds()
        result = Executor(tools).run_sync(Call(name, args, "1"))
        took = (time.perf_counter() - started, _processor_seconds() - worked)
        return Asked(result, *took, place.quiet)


def _processor_seconds() -> float:
    """The processor time of this process and of the programs that it waited for."""
    took = os.times()
    return took.user + took.system + took.children_user + took.children_system


def soon(fill: Fill, name: str, good: Callable[[Asked], bool], **args: Any) -> bool:
    """Whether all goes well and ends soon: a busy machine makes it wait, and no work of its own."""
    found = asked(fill, name, **args)
    return found.quiet and good(found) and found.worked < SOON and found.seconds < PATIENCE


def text(content: str, name: str = "a.txt") -> Fill:
    """One file."""

    def fill(root: Path) -> None:
        (root / name).write_text(content, encoding="utf-8")

    return fill


def nothing(found: Asked) -> bool:
    """Whether it went well and found nothing."""
    return found.kind is None and not found.lines


def refused(found: Asked) -> bool:
    """Whether a model is told what is wrong with its question."""
    return found.kind in (FailureKind.FAILED, FailureKind.BAD_ARGS)


def finds(*lines: str) -> Callable[[Asked], bool]:
    """Whether exactly this is found."""
    return lambda found: found.kind is None and found.lines == list(lines)


def _many(root: Path) -> None:
    for folder in range(max(FILES // 100, 1)):
        here = root / f"{folder % 10}" / f"{folder % 100}" / f"{folder}"
        here.mkdir(parents=True)
        for name in range(100):
            (here / f"{name}.txt").touch()


def _linked(root: Path) -> None:
    text("hit\n")(root)
    (root / "l").symlink_to(".")


def _piped(root: Path) -> None:
    text("hit\n")(root)
    os.mkfifo(root / "pipe")


def _with_device(root: Path) -> None:
    text("hit\n")(root)
    try:
        os.mknod(root / "zero", 0o20666, os.makedev(1, 5))
    except PermissionError:
        (root / "zero").symlink_to("/dev/zero")


def _sparse(root: Path) -> None:
    text("hit\n")(root)
    with (root / "sparse").open("wb") as file:
        file.truncate(1 << 40)


def _packed(root: Path) -> None:
    (root / "a.gz").write_bytes(gzip.compress(b"decompressors\n"))


def _says_multiline(found: Asked) -> bool:
    return refused(found) and "multiline=true" in found.result.text


def _many_files() -> bool:
    """A tree of files in all folders: some are shown, all are counted or the rest is said to miss.

    The tool has its own deadline here, and a million files take their time.
    """
    found = asked(_many, "glob", pattern="**/**/**")
    told = f"[200 of {FILES:,} files" in found.result.text or "not complete" in found.result.text
    return found.quiet and len(found.lines) <= 200 and told


A28 = "a" * 28
NESTED = "(" * 1_000 + "a" + ")" * 1_000

CHECKS: dict[str, Callable[[], bool]] = {
    "search-001": lambda: soon(text(A28 + "!"), "grep", nothing, pattern="^(a+)+$"),
    "search-002": lambda: soon(text(A28 + "!"), "grep", nothing, pattern="^(a|aa)+$"),
    "search-003": lambda: soon(text("x" * 28), "grep", nothing, pattern="(x+x+)+y"),
    "search-004": lambda: soon(text("a," * 12), "grep", nothing, pattern="(.*)*,(.*)*;"),
    "search-005": lambda: soon(
        text(A28), "grep", finds("a.txt", f"1: {A28}"), pattern="(?:a?){28}a{28}"
    ),
    "search-006": lambda: soon(text("aa"), "grep", refused, pattern=r"(a)\1"),
    "search-007": lambda: soon(text("ab"), "grep", refused, pattern="(?<=a)b"),
    "search-008": lambda: soon(text("ab"), "grep", refused, pattern=r"\w{1000}{100}"),
    "search-009": lambda: soon(text("b"), "grep", refused, pattern=NESTED),
    "search-010": lambda: soon(
        text("x --pre=canary\n"),
        "grep",
        finds("a.txt", "1: x --pre=canary"),
        pattern="--pre=canary",
    ),
    "search-011": lambda: soon(
        text("hit\n", "-f"), "grep", finds("-f", "1: hit"), pattern="hit", path="-f"
    ),
    "search-012": lambda: soon(
        text("", "--pre canary"), "glob", finds("--pre canary"), pattern="--pre canary"
    ),
    "search-013": lambda: soon(
        text("RIPGREP_CONFIG_PATH\n"),
        "grep",
        finds("a.txt", "1: RIPGREP_CONFIG_PATH"),
        pattern="RIPGREP_CONFIG_PATH",
    ),
    "search-014": lambda: soon(
        text("--pre=canary\n", ".ripgreprc"),
        "grep",
        finds(".ripgreprc", "1: --pre=canary"),
        pattern="--pre",
        hidden=True,
    ),
    "search-015": lambda: soon(_packed, "grep", nothing, pattern="decompressors"),
    "search-016": lambda: soon(text(f"-P {A28}!"), "grep", nothing, pattern="-P (a+)+$"),
    "search-017": lambda: soon(text("", "ab"), "glob", refused, pattern="{a,b}" * 20),
    "search-018": _many_files,
    "search-019": lambda: soon(_linked, "grep", finds("a.txt", "1: hit"), pattern="hit"),
    "search-020": lambda: soon(_piped, "grep", finds("a.txt", "1: hit"), pattern="hit"),
    "search-021": lambda: soon(_with_device, "grep", finds("a.txt", "1: hit"), pattern="hit"),
    "search-022": lambda: soon(_sparse, "grep", finds("a.txt", "1: hit"), pattern="hit"),
    "search-023": lambda: soon(text("a\0b"), "grep", refused, pattern="a\0b"),
    "search-024": lambda: soon(text("a\nb\n"), "grep", _says_multiline, pattern="a\nb"),
}


def holds(vector: dict[str, Any]) -> bool:
    """Whether a vector is held."""
    return CHECKS[vector["id"]]()


# ---------------------------------------------------------------- the control

NAIVE = """
import itertools, os, re, sys
pattern, root = sys.argv[1:]
found = re.compile(pattern)
for folder, _, names in os.walk(root, followlinks=True):
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            while piece := file.read(1 << 20):
                for line in piece.decode("utf-8", "replace").splitlines():
                    if found.search(line):
                        print(os.path.join(folder, name))
"""


def _hangs(fill: Fill, pattern: str) -> bool:
    """Whether a search with Python's own engine, over all that is there, does not end soon."""
    with ground() as place:
        fill(place.root)
        try:
            subprocess.run(  # noqa: S603  our own interpreter
                [sys.executable, "-I", "-S", "-c", NAIVE, pattern, str(place.root)],
                stdout=subprocess.DEVNULL,
                timeout=SOON,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return True
        return False


def _runs(fill: Fill, *words: str) -> bool:
    """Whether ripgrep, given words as they come and the host's variables, runs the canary."""
    program = shutil.which("rg")
    with ground() as place:
        fill(place.root)
        subprocess.run(  # noqa: S603  no shell
            [program or "rg", *words],
            cwd=place.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=20,
            check=False,
        )
        return not place.quiet


CONTROL: dict[str, Callable[[], bool]] = {
    "search-001": lambda: _hangs(text("a" * 40 + "!"), "^(a+)+$"),
    "search-002": lambda: _hangs(text("a" * 60 + "!"), "^(a|aa)+$"),
    "search-003": lambda: _hangs(text("x" * 40), "(x+x+)+y"),
    "search-010": lambda: _runs(text("x"), "--no-config", "--pre=canary", "."),
    "search-012": lambda: _runs(text("x"), "--no-config", "--pre", "canary", "x"),
    "search-013": lambda: _runs(text("x"), "x", "."),
    "search-015": lambda: _runs(_packed, "--no-config", "-z", "decompressors", "."),
    "search-016": lambda: _hangs(text(f"-P {'a' * 40}!"), "-P (a+)+$"),
    "search-020": lambda: _hangs(_piped, "hit"),
    "search-022": lambda: _hangs(_sparse, "hit"),
}


def control_caught(vectors: Sequence[dict[str, Any]]) -> int:
    """How many vectors a search is lost by that takes what comes and hands it on."""
    return sum(CONTROL[one["id"]]() for one in vectors if one["id"] in CONTROL)
