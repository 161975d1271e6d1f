"""Starts a command in bubblewrap: its pipes, its options and its first process."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import anyio

from handrail.sandbox._bubblewrap.mount_check import MountCheck
from handrail.sandbox._bubblewrap.network import Route
from handrail.sandbox._process import script
from handrail.sandbox._process.pipes import Pipe, Pipes, send_all
from handrail.sandbox._process.running import PipeReader, Process
from handrail.sandbox._process.spawn import SPAWNER, popen
from handrail.sandbox._setup import Setup
from handrail.sandbox._values import SandboxUnavailable, Streams

_CHILD: Final = re.compile(rb'"child-pid": (\d+)\D')
_CODE: Final = re.compile(rb'"exit-code": (\d+)\D')
_CHUNK_BYTES: Final = 4096
_CHANGED: Final = (
    "The workspace changed while the sandbox was set up, so the command was not run. Stop other "
    "commands that run there, then retry."
)


class InitProcess:
    """Bubblewrap's reports on the first process, from a pipe hidden from commands."""

    def __init__(self, status: int, release: Callable[[], None]) -> None:
        """Wait until bubblewrap has started the process, which takes a moment.

        Killing bubblewrap before that could leave an unknown child.
        """
        self._status = status
        self._release = release
        self._status_text = b""
        while not (child := _CHILD.search(self._status_text)) and self._read_more():
            pass
        self._process: int | None = None
        self._pid = int(child[1]) if child else 0
        self._admitted = False
        if child:
            with contextlib.suppress(ProcessLookupError):  # it has ended already
                self._process = os.pidfd_open(int(child[1]))

    def admit(self, ready: int, gate: int, fine: Callable[[bytes], bool]) -> None:
        """Release the command if its mounts are correct.

        Its shell reports that it is ready, and waits. If it is never admitted, it ends.
        """
        try:
            with contextlib.suppress(OSError):  # it has ended in the meantime
                if os.read(ready, 1):
                    self._admitted = fine(Path(f"/proc/{self._pid}/mountinfo").read_bytes())
                if self._admitted:
                    os.write(gate, b"\n")
        finally:
            os.close(ready)
            os.close(gate)

    def _read_more(self) -> bytes:
        more = os.read(self._status, _CHUNK_BYTES)
        self._status_text += more
        return more

    async def clear(self) -> None:
        """Kill it, and wait until it has ended: the kernel ends it last."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)
            await anyio.wait_readable(self._process)
            os.close(self._process)
        self._release()
        while self._read_more():  # until bubblewrap ends, too
            pass
        os.close(self._status)
        self._status = -1

    def exit_code(self, code: int) -> int:
        """Return the exit code. Raises SandboxUnavailable if the command never ran."""
        while self._status >= 0 and self._read_more():
            pass
        ran = _CODE.search(self._status_text)
        if ran and self._admitted:
            return code
        if ran:
            raise SandboxUnavailable(_CHANGED)
        raise SandboxUnavailable("The sandbox could not be set up. Its error is in the output.")


FindOptions: TypeAlias = Callable[[], tuple[bytes, Callable[[], MountCheck]]]
"""Returns bubblewrap's options, and a function returning the check for their mounts."""


class LaunchSpec(NamedTuple):
    """A command's surroundings."""

    setup: Setup
    program: list[str]
    """The words to start bubblewrap."""
    filter: bytes
    find_options: FindOptions
    """Bubblewrap reads them from a socket, because every user can see its command line."""
    route: Route | None
    """The command's route to hosts, if any."""


def start_command(
    command: str, spec: LaunchSpec, release: Callable[[], None], *, streams: Streams
) -> Process:
    """Start a command with file descriptors for the output and the notes only."""
    with Pipes() as pipes:
        output, status = pipes.output(), pipes.extra_output()
        ready, gate = pipes.extra_output(), pipes.gate()
        notes_pipe = pipes.extra_output() if streams.notes else None
        source = pipes.standard_input() if streams.source else None
        opening = script.report_ready(ready.theirs) + script.wait_for_line(gate.theirs)
        opening += script.open_notes(notes_pipe.theirs) if notes_pipe else ""
        text = script.encode(command, spec.setup.limits, opening=opening)
        words = script.argv(spec.setup.shell, pipes.file(text))
        filtered, options = pipes.file(spec.filter), pipes.input()
        argv = _find_words(spec, words, filtered, ("--args", options), ("--json-status-fd", status))
        process, (packed, prepare_check) = _spawn(
            lambda: popen(
                argv,
                output=output.theirs,
                source=source.theirs if source else subprocess.DEVNULL,
                env={},
                fds=pipes.inherited,
            ),
            spec.find_options,
        )
    send_all(options.ours, packed)
    check = prepare_check()  # while bubblewrap is working
    init = InitProcess(status.ours, release)
    watch = functools.partial(init.admit, ready.ours, gate.ours, check.holds)
    threading.Thread(target=watch, name="handrail-gate", daemon=True).start()
    return Process(
        process,
        output=PipeReader(output.ours),
        notes=PipeReader(notes_pipe.ours) if notes_pipe else None,
        source=source.ours if source else None,
        clear=init.clear,
        code=init.exit_code,
        refused=spec.route.refused if spec.route else tuple,
    )


def _find_words(
    spec: LaunchSpec, words: list[str], filtered: int, *pipes: tuple[str, Pipe]
) -> list[str]:
    """Return the words to start bubblewrap with a command."""
    named = [word for option, pipe in pipes for word in (option, str(pipe.theirs))]
    wrapped = (
        spec.route.wrap_command(filtered, words)
        if spec.route
        else ("--seccomp", str(filtered), "--", *words)
    )
    return [*spec.program, *named, *wrapped]


def _spawn(
    start: Callable[[], subprocess.Popen[bytes]], find_options: FindOptions
) -> tuple[subprocess.Popen[bytes], tuple[bytes, Callable[[], MountCheck]]]:
    """Start bubblewrap, and find its options while the system loads it.

    It has no child before it has read its options, so it can be killed.
    """
    process = SPAWNER.run(start)
    try:
        return process, find_options()
    except BaseException:
        with process:
            process.kill()
        raise
