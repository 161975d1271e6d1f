"""Run many commands under one tracer, and tell which of them wrote, ran or read what they must not."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

Line = tuple[str, ...]
"""The words of a command."""
DRIVER = """
import json, os, signal, sys
signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
for number, argv in enumerate(json.load(open(sys.argv[1]))):
    try:
        os.rmdir(f"/line/{number}")  # a mark in the trace
    except FileNotFoundError:
        pass
    child = os.posix_spawn(argv[0], argv, os.environ, setsigdef=[signal.SIGPIPE])
    signal.alarm(10)
    os.waitpid(child, 0)
    signal.alarm(0)
"""
CALLS = (
    "execve,execveat,open,openat,openat2,creat,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,rmdir,link,linkat,symlink,"
    "symlinkat,truncate,chmod,fchmodat,chown,lchown,fchownat,connect"
)
_MARK = re.compile(r'^\d+ +rmdir\("/line/(\d+)"')
_CALL = re.compile(r"^\d+ +(\w+)\((.*?)(?:\) += (-?\d+)| <unfinished \.\.\.>)")
_AT = re.compile(r"^(?:AT_FDCWD(?:<[^>]*>)?|\d+<([^>]*)>), ")
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
_CHANGES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC")
_REPLACES = re.compile(r"unlink|rename|rmdir|truncate|creat")
Judge = Callable[[str, str, int, str], str]
"""Says what is wrong with a call of the kernel, of which it gets the name, the rest and the result."""
HARMLESS = ("/dev/null", "/dev/tty")


class Scratch:
    """A workspace to run in, a folder beside it that nobody may read, and an empty home."""

    def __init__(self, top: Path) -> None:
        self.top, self.inside, self.outside = top, top / "inside", top / "outside"
        self.home, self.temporary = top / "home", top / "temporary"
        for folder in (self.inside / "sub", self.outside, self.home, self.temporary):
            folder.mkdir(parents=True)
        (self.outside / "secret.txt").write_text("secret\n", encoding="utf-8")
        (self.outside / "secret.json").write_text('{"secret": 1}\n', encoding="utf-8")
        secret = self.outside / "secret.txt"
        for name in ("a.txt", "b.txt", "5", "1", "x", "o", "sub/c.py"):
            (self.inside / name).write_text("one\ntwo\n", encoding="utf-8")
        (self.inside / "options").write_text(f"{secret}\n--output=made\n", encoding="utf-8")
        (self.inside / "a.json").write_text('{"a": [1, 2]}\n', encoding="utf-8")
        (self.inside / "test_a.py").write_text(
            "def test_a(tmp_path: object) -> None: ...\n", encoding="utf-8"
        )
        (self.inside / "Makefile").write_text("all:\n\ttrue\n", encoding="utf-8")
        self.kept = {str(path) for path in self.inside.rglob("*")}
        self.environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "TMPDIR": str(self.temporary),
            "LC_ALL": "C",  # with another locale, each program reads twenty more files
            "GIT_PAGER": "cat",
            "PAGER": "cat",
            "TERM": "dumb",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_CONFIG_NOSYSTEM": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        self._commit()

    def _commit(self) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        self.run("git", "init", "-q", "-b", "main")
        self.run("git", "config", "gpg.program", "true")
        self.run("git", "add", "-A")
        self.run("git", *who, "commit", "-qm", "first")
        signed = self._sign()
        self.run("git", "update-ref", "refs/heads/signed", signed)
        (self.inside / "a.txt").write_text("one\nthree\n", encoding="utf-8")

    def _sign(self) -> str:
        """A commit with a signature, so that git would run gpg to print it."""
        tree = self.run("git", "rev-parse", "HEAD^{tree}")
        when = "a <a@example.org> 1700000000 +0000"
        signature = "-----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
        text = f"tree {tree}\nauthor {when}\ncommitter {when}\ngpgsig {signature}\n\nsigned\n"
        return self.run("git", "hash-object", "-t", "commit", "-w", "--stdin", text=text)

    def run(self, *argv: str, text: str = "") -> str:
        done = subprocess.run(  # noqa: S603
            argv, cwd=self.inside, env=self.environment, input=text, capture_output=True, encoding="utf-8", check=True
        )  # fmt: skip
        return done.stdout.strip()

    def find(self, program: str) -> str | None:
        """The path of a program, as the commands find it."""
        return shutil.which(program, path=self.environment["PATH"])

    def trace(self, commands: Sequence[Line], *, reading: bool = True) -> list[str]:
        """Run commands, and return what they did that they must not do.

        They may read the workspace. If they are not for reading, they may also run programs, and
        change what was not there before.
        """
        judge = self._judge_reading if reading else self._judge_change
        given, log = self.top / "commands.json", self.top / "log"
        found = [[str(self.find(program)), *rest] for program, *rest in commands]
        given.write_text(json.dumps(found), encoding="utf-8")
        nothing = subprocess.DEVNULL
        subprocess.run(  # noqa: S603
            [str(self.find("strace")), "-f", "-qq", "-y", "-s", "4096", "--seccomp-bpf", "-e", f"trace={CALLS}", "-o", log,
             sys.executable, "-I", "-S", "-c", DRIVER, given],
            cwd=self.inside, env=self.environment, check=True, stdin=nothing, stdout=nothing, stderr=nothing,
        )  # fmt: skip
        return [
            f"{' '.join(commands[number])!r}: {what}"
            for number, what in dict.fromkeys(self._violations(log, commands, judge))
        ]

    def _violations(
        self, log: Path, commands: Sequence[Line], judge: Judge
    ) -> Iterator[tuple[int, str]]:
        number = -1
        with log.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if (mark := _MARK.match(line)) is not None:
                    number = int(mark[1])
                elif number >= 0 and (call := _CALL.match(line)) is not None:
                    what = judge(call[1], call[2], int(call[3] or 0), commands[number][0])
                    if what:
                        yield number, what

    def _judge_change(self, name: str, rest: str, result: int, program: str) -> str:
        paths = list(self._paths(rest))
        if result < 0 or name.startswith("exec"):
            return ""
        if any(Path(path).is_relative_to(self.outside) for path in paths):
            return f"{name} outside: {paths}"
        replaces = _REPLACES.match(name) or "O_TRUNC" in rest
        replaced = [
            path
            for path in paths
            if path in self.kept and not path.endswith(REWRITES.get(program, "\0"))
        ]
        return f"{name} {replaced}" if replaces and replaced else ""

    def _judge_reading(self, name: str, rest: str, result: int, program: str) -> str:
        paths = list(self._paths(rest))
        if name == "connect":  # libc asks for the names of users that way
            return "" if 'sun_path="/var/run/nscd/socket"' in rest else f"connects: {rest}"
        if name.startswith("exec"):
            own = {program, *RUNS.get(program, ())}
            return f"runs {paths[0]}" if result == 0 and Path(paths[0]).name not in own else ""
        opened = name.startswith("open")
        if opened and not _CHANGES.search(rest):
            outside = Path(paths[0]).is_relative_to(self.outside)
            return f"reads {paths[0]}" if outside and result >= 0 else ""
        harmless = paths[0] in HARMLESS or Path(paths[0]).is_relative_to(self.temporary)
        return f"{name} {paths[0]}" if result >= 0 and not harmless else ""

    def _paths(self, rest: str) -> Iterator[str]:
        at = _AT.match(rest)
        base = (at and at[1]) or str(self.inside)
        for text in _TEXT.findall(rest):
            yield os.path.normpath(Path(base, text))


REWRITES = {"git": "", "ruff": ".py"}
"""Programs that change files of the workspace because that is what they are for, and how these end."""
RUNS = {"egrep": ("grep",), "fgrep": ("grep",), "pip": ("git",), "pip3": ("git",)}
"""Programs that are scripts around another one, or ask it for the version of a package."""
