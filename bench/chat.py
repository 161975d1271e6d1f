"""What a person waits for in a chat: until the input is drawn, and from a key to the screen.

Keys go through tmux, beside a pane in which the kernel shows them.
"""

from __future__ import annotations

import os
import pty
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from definition import Row

INPUT_CPU = 0.45
"""CPU seconds until the input is drawn and takes keys, at most."""
READY_CPU = 1.1
"""CPU seconds until a message can be sent; one typed before is sent then."""
KEY_MS = 40.0
"""Milliseconds from a key to the screen: the median, at most."""
STARTS = 7
KEYS = "QWTYUOVXZN"
"""None of them is on the screen, or part of an escape sequence."""
TIMES = 5
SIGN = "❯".encode()  # noqa: RUF001  a sign, not a quotation mark
DRAWN = b"Describe a change"
MODEL = """
import anyio
from handrail import Text
from handrail.messages import Delta, Reply


async def model(request):
    for _ in range(6000):
        yield Delta("some more words ")
        await anyio.sleep(0.005)
    yield Reply((Text("Done."),))
"""
PROBE = """
import os, sys, time
from handrail.cli._main import main

write = os.write


def watch(file, data):
    done = write(file, data)
    if {!r} in data:
        write(file, b"CPU %f" % time.process_time())
        os._exit(0)
    return done


os.write = watch
sys.exit(main())
"""
PATIENCE = 20.0


def rows() -> list[Row]:
    """What a person waits for."""
    with _folder() as (folder, env):
        return [*starts(folder, env), *keys(folder, env)]


@contextmanager
def _folder() -> Iterator[tuple[Path, dict[str, str]]]:
    with tempfile.TemporaryDirectory() as home:
        work = Path(home, "work")
        work.mkdir()
        work.joinpath("model.py").write_text(MODEL, encoding="utf-8")
        yield work, {"HOME": home, "PATH": os.environ["PATH"], "TERM": "xterm-256color"}


def _words() -> list[str]:
    return [sys.executable, "-m", "handrail.cli", "chat", "-m", "model.py:model"]


def starts(folder: Path, env: dict[str, str]) -> Iterator[Row]:
    """CPU time until the input takes keys, and until a message can be sent."""
    limits = {"takes keys": (SIGN, INPUT_CPU), "is ready": (DRAWN, READY_CPU)}
    spent(folder, env, DRAWN)  # writes the byte code
    for what, (text, limit) in limits.items():
        least = min(spent(folder, env, text) for _ in range(STARTS))
        held = f"<= {limit} s, the least of {STARTS}"
        yield Row(f"a chat's input {what}", least, limit, "s CPU", held, least <= limit)


def spent(folder: Path, env: dict[str, str], text: bytes) -> float:
    """CPU seconds of a chat until it writes a text. It says so itself, and ends."""
    child, terminal = pty.fork()
    if not child:
        os.chdir(folder)
        words = [sys.executable, "-c", PROBE.format(text), *_words()[3:]]
        os.execve(sys.executable, words, env)
    seen = b""
    with suppress(OSError):  # it has ended
        while piece := os.read(terminal, 65_536):
            seen += piece
    os.waitpid(child, 0)
    os.close(terminal)
    return float(seen.rpartition(b"CPU ")[2])


def keys(folder: Path, env: dict[str, str]) -> Iterator[Row]:
    """The median from a key to the screen: at an empty input, and while a reply streams in."""
    with Pane(folder, env, ["cat"]) as plain:
        plain.waits_for(b"")
        least = plain.latency()
    with Pane(folder, env, _words()) as chat:
        chat.waits_for(DRAWN)
        chat.waits_for(b"")
        idle = chat.latency()
        chat.types("q")
        chat.types("Enter")
        chat.waits_for(b"some more words")
        streams = chat.latency()
    for what, took in (("at an empty input", idle), ("while a reply streams in", streams)):
        held = f"median <= {KEY_MS:g}; a key that the kernel shows: {least:.1f}"
        yield Row(f"a key {what}", took, KEY_MS, "ms", held, took <= KEY_MS)


class Pane:
    """A program in tmux, and a client that hears what it prints."""

    def __init__(self, folder: Path, env: dict[str, str], words: Sequence[str]) -> None:
        found = shutil.which("tmux")
        if found is None:
            sys.exit("this needs tmux: install it")
        self._words = [found, "-S", str(folder.parent / f"tmux-{words[-1][:3]}"), "-f", "/dev/null"]
        pairs = [f"{name}={value}" for name, value in env.items()]
        command = ["env", "-i", *pairs, *words]
        opened = ["-C", "new-session", "-x", "80", "-y", "24", "-c", str(folder), *command]
        self._client = subprocess.Popen(
            [*self._words, *opened], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
        )
        assert self._client.stdin and self._client.stdout  # noqa: PT018
        self._to, self._from = self._client.stdin, self._client.stdout
        os.set_blocking(self._from.fileno(), False)
        self._seen = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run([*self._words, "kill-server"], check=False)
        self._client.wait()

    def types(self, key: str) -> None:
        """Press a key."""
        self._to.write(f"send-keys {key}\n".encode())
        self._to.flush()

    def waits_for(self, text: bytes) -> None:
        """Wait until a text is printed; without one, until nothing is printed any more."""
        until = time.monotonic() + PATIENCE
        quiet = time.monotonic() + 1
        while text not in self._seen or not text:
            piece = self._from.read() or b""
            self._seen = self._seen[-200:] + piece
            if piece:
                quiet = time.monotonic() + 1
            elif not text and time.monotonic() > quiet:
                return
            assert time.monotonic() < until, self._seen
            time.sleep(0.0005)

    def latency(self) -> float:
        """The median of milliseconds from a key to the screen."""
        took = []
        for _ in range(TIMES):
            for key in KEYS:
                self._seen = b""
                began = time.monotonic()
                self.types(key)
                self.waits_for(key.encode())
                took.append((time.monotonic() - began) * 1e3)
                time.sleep(0.05)  # as a person types
            self.types("C-u")
            time.sleep(0.2)
        return statistics.median(took)
