"""What a command leaves on a real terminal, with its colours or without."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from cli_harness import Handrail

PATIENCE = 60.0
"""Seconds after which something that should be on the screen never will be."""
_PAUSE = 0.1
"""Seconds between two reads of the screen: what it waits for needs the processor too."""
_COUNT = itertools.count()
_TITLED = r"""
"$@"
printf '\033]2;ended %s\007' $?
exec sleep 1000
"""
"""A title is set once all has been shown; what a pane shows when it is dead would move the rest."""


class Screen:
    """One terminal with one command in it."""

    def __init__(
        self, handrail: Handrail, *, width: int, height: int = 50, patience: float = PATIENCE
    ) -> None:
        tmux = shutil.which("tmux")
        assert tmux is not None, "this needs tmux: install it"
        self._handrail = handrail
        self._patience = patience
        self._socket = f"handrail-screen-{os.getpid()}-{next(_COUNT)}"
        self._tmux = [tmux, "-L", self._socket, "-f", "/dev/null"]
        self._size = ["-x", str(width), "-y", str(height), "-c", str(handrail.workspace)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._do("kill-server")
        (Path("/tmp") / f"tmux-{os.getuid()}" / self._socket).unlink(missing_ok=True)  # noqa: S108

    def runs(self, *arguments: str, env: Mapping[str, str] = {}) -> None:
        """Start the command."""
        self._start([sys.executable, "-m", "handrail.cli", *arguments], env)

    def runs_line(self, line: str, *, env: Mapping[str, str] = {}) -> None:
        """Start a command of the shell."""
        self._start(["bash", "-c", line], env)

    def _start(self, command: list[str], env: Mapping[str, str]) -> None:
        wanted = self._handrail.environment(env)
        wanted.pop("COLUMNS", None)
        pairs = [f"{name}={value}" for name, value in wanted.items()]
        clean = ["env", "-i", *pairs, *command]
        self._do("new-session", "-d", *self._size, "sh", "-c", _TITLED, "sh", *clean)

    def types(self, text: str, *, after: str) -> None:
        """Type a line, once these words are on the screen."""
        self.shows(after)
        self._do("send-keys", "-l", text)
        self._do("send-keys", "Enter")

    def answers(self, text: str, *, prompt: re.Pattern[str]) -> None:
        """Type a line, once the last line of the screen is a prompt."""
        self._wait(lambda: bool(prompt.fullmatch(self.lines()[-1])), f"the prompt for {text!r}")
        self._do("send-keys", "-l", text)
        # An answer that is not shown yet would leave this prompt for the next answer to see
        self._wait(lambda: not prompt.fullmatch(self.lines()[-1]), f"the echo of {text!r}")
        self._do("send-keys", "Enter")

    def shows(self, words: str) -> None:
        """Wait until these words are on the screen."""
        self._wait(lambda: words in self._do("capture-pane", "-p"), repr(words))

    def ends(self) -> int:
        """Wait until the command has ended and all of it is shown; its exit code."""
        self._wait(lambda: self._title().startswith("ended"), "the end")
        return int(self._title().split()[1])

    def lines(self, *, colors: bool = False) -> list[str]:
        """What is on the screen."""
        shown = self._do("capture-pane", "-p", *(["-e", "-N"] if colors else []))
        return shown.rstrip("\n").split("\n")

    def _title(self) -> str:
        return self._do("display-message", "-p", "#{pane_title}")

    def _wait(self, arrived: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + self._patience
        while not arrived():
            assert time.monotonic() < until, f"{what} never came:\n{self._do('capture-pane', '-p')}"
            time.sleep(_PAUSE)

    def _do(self, *command: str) -> str:
        done = subprocess.run(  # noqa: S603
            [*self._tmux, *command],
            check=True,
            capture_output=True,
            encoding="utf-8",
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TERM": "xterm"},
        )
        return done.stdout
