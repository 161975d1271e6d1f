"""`handrail runs replay`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

import anyio
import click

from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import quantity
from handrail.cli._base.exits import Exit
from handrail.cli._base.options import DATABASE, RUN, TOOL_OPTIONS
from handrail.cli._base.printable import clip, one_line
from handrail.cli._project.kit import Kit
from handrail.cli._runs.agent_parts import tools_to_replay
from handrail.cli._runs.resumed_app import app_to_resume
from handrail.cli._runs.saved import run_ids
from handrail.cli._runs.stores import open_store
from handrail.runs.replay import ReplayDifference, replay_run

_MAX_CHARS = 100


@as_command(
    "replay",
    "Run a recorded run again, without a model and without tools.",
    DATABASE,
    *TOOL_OPTIONS,
)
@click.argument("run", metavar="RUN", shell_complete=run_ids, help=RUN)
def command(app: App, *, run: str) -> Exit:
    """Run a recorded run again, with its recorded replies and results.

    No model is called, and no tool runs. Each call is checked and decided again with the tools and
    rules of today, and gets its recorded answer and result. The command prints the differences,
    and exits with 1 if there are any.
    """
    saved = open_store(app).find(run)
    state = saved.state()
    kit = Kit(app_to_resume(app, saved))
    work = partial(replay_run, state, saved.lines(), tools_to_replay(kit), policy=kit.rules)
    done = anyio.run(work)
    document: dict[str, Any] = {
        "id": saved.id,
        "turns": done.turns,
        "calls": done.calls,
        "differences": [asdict(difference) for difference in done.differences],
    }
    counts = f"{quantity(done.turns, 'turn')}, {quantity(done.calls, 'call')}"
    differs = quantity(len(done.differences), "difference")
    lines = [line for difference in done.differences for line in _lines(difference)]
    app.print(document, [*lines, f"{counts}, {differs}"])
    return Exit.FAILED if done.differences else Exit.DONE


def _lines(difference: ReplayDifference) -> Iterator[str]:
    call = f"{one_line(difference.tool)} ({one_line(difference.call_id)})"
    yield f"turn {difference.turn}  {call}: another {difference.what}"
    yield f"  recorded  {one_line(clip(difference.recorded, _MAX_CHARS))}"
    yield f"  now       {one_line(clip(difference.now, _MAX_CHARS))}"
