"""Starts a command in bubblewrap: its pipes, its options and its first process."""

from __future__ import annotations

import functools
import subprocess
import threading
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from handrail.sandbox._bubblewrap.init_process import InitProcess
from handrail.sandbox._bubblewrap.mount_check import MountCheck
from handrail.sandbox._bubblewrap.network import Route
from handrail.sandbox._process import script
from handrail.sandbox._process.pipes import Pipe, Pipes, send_all
from handrail.sandbox._process.running import PipeReader, Process
from handrail.sandbox._process.spawn import SPAWNER, popen
from handrail.sandbox._setup import Setup
from handrail.sandbox._values import Streams

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
