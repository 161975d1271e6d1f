"""Starts a command in bubblewrap: its pipes, its options and its first process."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import NamedTuple

from handrail.sandbox._bubblewrap.init_process import InitProcess
from handrail.sandbox._bubblewrap.mount_check import MountCheck
from handrail.sandbox._bubblewrap.network import Route
from handrail.sandbox._process import script
from handrail.sandbox._process.pipes import Pipes
from handrail.sandbox._process.running import PipeReader, Process
from handrail.sandbox._process.spawn import SPAWNER, popen
from handrail.sandbox._setup import Setup


class LaunchSpec(NamedTuple):
    """The surroundings of a command."""

    setup: Setup
    program: list[str]
    """The words that start bubblewrap."""
    filter: bytes
    arguments: bytes
    """Options that bubblewrap reads from a file, because every user can see its command line."""
    route: Route | None
    """The way of the command to hosts, if it has one."""
    check: Callable[[], MountCheck]


def start_command(
    command: str, spec: LaunchSpec, release: Callable[[], None], *, notes: bool
) -> Process:
    """Start a command with file descriptors for the output and the notes only."""
    with Pipes() as pipes:
        output, status = pipes.output(), pipes.extra_output()
        ready, gate = pipes.extra_output(), pipes.gate()
        notes_pipe = pipes.extra_output() if notes else None
        opening = script.report_ready(ready.theirs) + script.wait_for_line(gate.theirs)
        opening += script.open_notes(notes_pipe.theirs) if notes_pipe else ""
        text = script.encode(command, spec.setup.limits, opening=opening)
        words = script.argv(spec.setup.shell, pipes.file(text))
        filtered = pipes.file(spec.filter)
        arguments = pipes.file(spec.arguments)
        argv = [
            *spec.program,
            *("--args", str(arguments), "--json-status-fd", str(status.theirs)),
            *(
                spec.route.wrap_command(filtered, words)
                if spec.route
                else ("--seccomp", str(filtered), "--", *words)
            ),
        ]
        process = SPAWNER.run(
            lambda: popen(argv, output=output.theirs, env={}, fds=pipes.inherited)
        )
    init = InitProcess(status.ours, release)
    check = spec.check()  # while bubblewrap is working
    watch = functools.partial(init.admit, ready.ours, gate.ours, check.holds)
    threading.Thread(target=watch, name="handrail-gate", daemon=True).start()
    return Process(
        process,
        output=PipeReader(output.ours),
        notes=PipeReader(notes_pipe.ours) if notes_pipe else None,
        clear=init.clear,
        code=init.exit_code,
        refused=spec.route.refused if spec.route else tuple,
    )
