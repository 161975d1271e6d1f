"""What a command costs until it has printed, in CPU time, beside the imports it cannot do without."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from math import inf
from pathlib import Path

from definition import Row

RUNS = 15


APP = """
from handrail import READ, Access, Call, Text, tool
from handrail.messages import Reply

@tool(effect=READ, touches=lambda **_: Access(READ, "shelf:1"))
async def look(number: int) -> str:
    "Look at a shelf."
    return f"saw {number}"

async def model(request):
    turn = sum(isinstance(message, Reply) for message in request.messages)
    if turn == 3:
        return Reply((Text("Done."),))
    return Reply(tuple(Call("look", {"number": n}, f"c{turn}-{n}") for n in range(3)))
"""
"""A model with a script, and its tool: three turns of three calls."""
PLAIN = (
    "import anyio, app; from handrail.agent import Agent; "
    "anyio.run(Agent(app.model, [app.look]).run, 'Go')"
)


def rows() -> list[Row]:
    """The version, the help, a list of the coding tools, and a run, which is also recorded."""
    return [
        row("--version", "import click", 1.5),
        row("--help", "import click", 1.5),
        row("tools list", "import handrail, click", 2),
        row("run -m app.py:model -t app.py:look --mode edits Go", PLAIN, 2.75),
    ]


def row(arguments: str, beside: str, times: float) -> Row:
    """One interleaved run; the least of many is nearest to the cost."""
    ours = theirs = inf
    for _ in range(RUNS):
        ours = min(ours, spent([str(script()), *arguments.split()]))
        theirs = min(theirs, spent([sys.executable, "-c", beside]))
    beside = "the same agent without a command" if beside == PLAIN else beside
    held = f"ratio {ours / theirs:.2f} <= {times:g}, to {beside}"
    return Row(
        f"handrail {arguments}", ours * 1e3, theirs * 1e3, "ms CPU", held, ours <= times * theirs
    )


def script() -> Path:
    """The console script of this interpreter's environment."""
    return Path(sys.executable).with_name("handrail")


def spent(command: list[str]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "app.py").write_text(APP, encoding="utf-8")
        state = {**os.environ, "XDG_STATE_HOME": folder, "XDG_CONFIG_HOME": folder}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True, cwd=folder, env=state)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
