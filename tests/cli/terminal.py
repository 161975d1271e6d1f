"""A real terminal for the command line: tmux, at a socket of its own."""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import forked
from cli_harness import Handrail

PATIENCE = 30.0
"""Seconds after which something that should be on the screen never will be."""
_PAUSE = 0.02
"""Seconds between two looks at a screen. Each look is a process of its own."""
_COUNT = itertools.count()
_NOTED = 'trap : INT; "$@"; echo $? >"$0"; exec sleep 1000'
"""Runs a command and writes its exit code down: tmux does not always know it, and what it prints
of a program that has ended moves the screen."""
_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
_SECONDS = r"(?:[\d.]+ m?s|\d+m(?: \d+s)?)"
_ENDED = re.compile(rf" {{2,}}(\S(?:(?! {{2}}).)*?)(?: · {_SECONDS})?  (#\d+)$")
"""The end of a call's row: how it ended, how long it took, and its number."""
_WORKS = re.compile(rf"(thinking|writing|working) {_SECONDS}")
_MODES = re.compile(r"\x1b\[\?(25|1049|2004|2026)([hl])")
_SKIPPED = r"\x1b\[C"
"""A character that is on the screen already: the program moves over it instead of painting it again."""
_RUNS = re.compile(rf"^[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏] (.*?)  +(?:{_SECONDS}  )?#")


class Tmux:
    """One terminal, with one program after the other in it."""

    def __init__(self, handrail: Handrail, *, width: int, height: int = 40) -> None:
        found = shutil.which("tmux")
        assert found is not None, "these tests need tmux: install it"
        self.handrail = handrail
        self._socket = f"handrail-cli-{os.getpid()}-{next(_COUNT)}"
        self._tmux = [found, "-L", self._socket, "-f", "/dev/null"]
        self._size = ["-x", str(width), "-y", str(height)]
        self._folder = ["-c", str(handrail.workspace)]
        self._code = handrail.folder / f"{self._socket}.exit"
        self._started = False

    def runs(self, *arguments: str, env: Mapping[str, str] = {}) -> None:
        """Start the command, in place of the one before it."""
        wanted = self.handrail.environment(env)
        wanted.pop("COLUMNS", None)
        pairs = [f"{name}={value}" for name, value in wanted.items()]
        self._code.unlink(missing_ok=True)
        program = ["env", "-i", *pairs, sys.executable, "-m", "handrail.cli", *arguments]
        command = ["sh", "-c", _NOTED, str(self._code), *program]
        if self._started:
            self._do("respawn-pane", "-k", *self._folder, *command)
            self._do("clear-history")
        else:
            self._do("new-session", "-d", *self._size, *self._folder, *command)
        self._started = True

    def types(self, text: str, *, enter: bool = True) -> None:
        if text:
            self._do("send-keys", "-l", text)
        if enter:
            self._do("send-keys", "Enter")

    def presses(self, *keys: str) -> None:
        """Keys by their names, such as C-c."""
        self._do("send-keys", *keys)

    def pastes(self, text: str) -> None:
        """Paste a text, in marks if the program wants them."""
        self._do("set-buffer", "--", text)
        self._do("paste-buffer", "-p", "-r")

    def resizes(self, width: int, height: int = 24) -> None:
        self._do("resize-window", "-x", str(width), "-y", str(height))

    def answers(self, word: str, *, after: str, times: int = 1) -> None:
        """Type a line once these words are on the screen so often."""
        self.shows(after, times=times)
        self.types(word)

    def shows(self, words: str, *, times: int = 1) -> list[str]:
        """The screen, once these words are on it so often."""
        until = time.monotonic() + PATIENCE
        while (screen := self.screen()).count(words) < times:
            assert time.monotonic() < until, f"{words!r} never came:\n{screen}"
            time.sleep(_PAUSE)
        return settled(screen)

    def screen(self, *, above: bool = False) -> str:
        """What is on the screen; if wanted, with all rows above it, as they were written."""
        return self._do("capture-pane", "-p", *(("-J", "-S", "-") if above else ()))

    def ends(self) -> int:
        """Wait until the program has ended; its exit code."""
        until = time.monotonic() + PATIENCE
        while not (self._code.exists() and (code := self._code.read_text(encoding="utf-8"))):
            assert time.monotonic() < until, f"the program did not end:\n{self.screen()}"
            time.sleep(_PAUSE)
        return int(code)

    def end(self) -> None:
        self._do("kill-server")
        (Path("/tmp") / f"tmux-{os.getuid()}" / self._socket).unlink(missing_ok=True)  # noqa: S108

    def _do(self, *command: str) -> str:
        done = subprocess.run(  # noqa: S603
            [*self._tmux, *command],
            check=True,
            capture_output=True,
            encoding="utf-8",
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TERM": "xterm"},
        )
        return done.stdout


Open = Callable[..., Tmux]


def settled(screen: str) -> list[str]:
    """A screen without what is another at each run: ids, and how long something took."""
    rows = _ID.sub("ID", screen).rstrip("\n").split("\n")
    return [_without_time(row) for row in rows]


def _without_time(row: str) -> str:
    if _RUNS.search(row):
        return _RUNS.sub(r"⠋ \1  #", row)
    return _WORKS.sub(r"\1", _ENDED.sub(r"  \1  \2", row))


def opened(handrail: Handrail) -> Iterator[Open]:
    """What opens terminals; all are closed at the end."""
    made: list[Tmux] = []

    def start(width: int = 80, height: int = 40) -> Tmux:
        made.append(Tmux(handrail, width=width, height=height))
        return made[-1]

    yield start
    for one in made:
        one.end()


class Pty:
    """A terminal of which the test holds the other end; for what no screen has to be read for."""

    def __init__(
        self,
        handrail: Handrail,
        *arguments: str,
        env: Mapping[str, str] = {},
        stdout: Path | None = None,
        real: bool = False,
    ) -> None:
        self._master, self._slave = os.openpty()
        self.resizes(80, 24)
        self.before = termios.tcgetattr(self._slave)
        out = self._slave if stdout is None else os.open(stdout, os.O_WRONLY | os.O_CREAT, 0o600)
        begin = self._forked if forked.can(env) and not real else self._executed
        self._process = begin(arguments, out, handrail.environment(env), handrail.workspace)
        if stdout is not None:
            os.close(out)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._more = threading.Condition()
        self._leaves = threading.Event()
        self.seen = ""
        self._behind = 0
        self._reader.start()

    def _forked(
        self, arguments: Sequence[str], out: int, env: Mapping[str, str], cwd: Path
    ) -> forked.Forked:
        files = (self._slave, out, self._slave)
        return forked.start(arguments, files, env=env, cwd=cwd, terminal=True)

    def _executed(
        self, arguments: Sequence[str], out: int, env: Mapping[str, str], cwd: Path
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603  our own interpreter
            [sys.executable, "-m", "handrail.cli", *arguments],
            stdin=self._slave,
            stdout=out,
            stderr=self._slave,
            env=env,
            cwd=cwd,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  one thread
        )

    def _read(self) -> None:
        piece = b"-"
        while piece and not self._leaves.is_set():
            if not select.select([self._master], [], [], 0.05)[0]:
                continue
            with self._more:
                try:
                    piece = os.read(self._master, 65_536)
                except OSError:
                    piece = b""
                self.seen += piece.decode(errors="replace")
                self._more.notify_all()

    def sees(self, words: str) -> str:
        """Wait until these words have come; what came before them, and is now behind us."""
        rest = "".join(f"(?:{re.escape(one)}|{_SKIPPED})" for one in words[1:])
        painted = re.compile(re.escape(words[:1]) + rest)
        with self._more:
            came = self._more.wait_for(lambda: painted.search(self.seen, self._behind), PATIENCE)
            assert came, f"{words!r} never came:\n{self.seen}"
            before, self._behind = self.seen[self._behind : came.start()], came.end()
        return before

    def answers(self, word: str, *, after: str) -> str:
        """Type a line once these words have come; what came before them."""
        before = self.sees(after)
        self.types(f"{word}\r")
        return before

    def waits(self, seconds: float) -> bool:
        """Wait for more to come, but not long; whether it did."""
        with self._more:
            now = len(self.seen)
            return self._more.wait_for(lambda: len(self.seen) > now, seconds)

    def types(self, text: str) -> None:
        with suppress(OSError):
            os.write(self._master, text.encode(errors="surrogateescape"))

    def signals(self, number: int) -> None:
        with suppress(ProcessLookupError):  # it has ended by itself
            self._process.send_signal(number)

    def resizes(self, width: int, height: int) -> None:
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def hangs_up(self) -> None:
        self._leaves.set()
        self._reader.join(PATIENCE)  # as long as it reads, the terminal is there
        os.close(self._slave)
        os.close(self._master)
        self._slave = self._master = -1

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def ends_within(self, seconds: float) -> bool:
        """Wait for the program to end, but not for long; whether it did."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self.ended

    def ends(self) -> int:
        """Wait until the program has ended; its exit code."""
        try:
            code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGABRT)  # with what it did, by faulthandler
            self._process.wait(PATIENCE)
            time.sleep(0.2)
            raise AssertionError(f"the program did not end:\n{self.seen}") from None
        self._read_rest()
        return code

    def _read_rest(self) -> None:
        """Wait until what the program said last has been read."""
        quiet = 0
        while quiet < 2 and not self._leaves.is_set():
            with self._more:
                quiet = 0 if select.select([self._master], [], [], 0)[0] else quiet + 1
            time.sleep(0.01)

    @property
    def restored(self) -> bool:
        """Whether the terminal is set as it was."""
        return termios.tcgetattr(self._slave) == self.before

    @property
    def left_on(self) -> set[str]:
        """Modes that a program has left: no cursor, pastes in marks, another screen, a frame."""
        last = dict(_MODES.findall(self.seen))
        return {mode for mode, state in last.items() if state == ("l" if mode == "25" else "h")}

    def left_over(self, folder: Path) -> list[str]:
        """Processes of the program's session, or that work in a folder, and are still there."""
        return [
            told for one in Path("/proc").glob("[0-9]*") if (told := _of(one, self.pid, folder))
        ]

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait(PATIENCE)
        if self._master >= 0:
            self.hangs_up()


def _of(process: Path, session: int, folder: Path) -> str:
    """The command line of a process, if it belongs to a session or works in a folder."""
    try:
        its = int((process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[3])
        cwd, line = (process / "cwd").readlink(), (process / "cmdline").read_bytes()
    except (OSError, ValueError):  # it has ended meanwhile
        return ""
    if its != session and not cwd.is_relative_to(folder):
        return ""
    return line.replace(b"\0", b" ").decode(errors="replace")
