"""A command in bubblewrap, from its pipes to its first process."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import NamedTuple

from handrail.sandbox import _script as script
from handrail.sandbox._child import Child
from handrail.sandbox._mounted import Check
from handrail.sandbox._pipes import Pipes
from handrail.sandbox._room import Room
from handrail.sandbox._running import Running, Stream
from handrail.sandbox._spawn import SPAWNER, popen
from handrail.sandbox._targets import Targets
from handrail.sandbox._way_out import WayOut

__all__ = ["Targets", "Wrap", "launched"]


class Wrap(NamedTuple):
    """What is around a command."""

    room: Room
    program: str
    filter: bytes
    arguments: bytes
    """Read by bubblewrap from a file: in its command line, everybody could read them."""
    way_out: WayOut | None
    check: Callable[[], Check]


def launched(command: str, wrap: Wrap, release: Callable[[], None], *, notes: bool) -> Running:
    """Start a command. Its file descriptors are the output, the notes, and no other."""
    with Pipes() as pipes:
        output, status = pipes.output(), pipes.reading()
        ready, gate = pipes.reading(), pipes.gate()
        noted = pipes.reading() if notes else None
        opening = script.ready(ready.theirs) + script.waiting(gate.theirs)
        opening += script.noting(noted.theirs) if noted else ""
        words = script.argv(wrap.room.shell, command, wrap.room.limits, opening=opening)
        filtered = pipes.file(wrap.filter)
        arguments = pipes.file(wrap.arguments)
        argv = [
            wrap.program,
            *("--args", str(arguments), "--json-status-fd", str(status.theirs)),
            *(
                wrap.way_out.around(filtered, words)
                if wrap.way_out
                else ("--seccomp", str(filtered), "--", *words)
            ),
        ]
        process = SPAWNER.run(
            lambda: popen(argv, output=output.theirs, env={}, fds=pipes.inherited)
        )
    child = Child(status.ours, release)
    check = wrap.check()  # while bubblewrap is at work
    watch = functools.partial(child.admit, ready.ours, gate.ours, check.holds)
    threading.Thread(target=watch, name="handrail-gate", daemon=True).start()
    return Running(
        process,
        output=Stream(output.ours),
        notes=Stream(noted.ours) if noted else None,
        clear=child.clear,
        code=child.code,
    )
