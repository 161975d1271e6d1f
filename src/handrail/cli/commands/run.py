"""`handrail run`."""

from __future__ import annotations

import select
import sys
import time
from typing import TextIO

import click

from handrail.agent import RunState
from handrail.cli._base.app import App, as_command
from handrail.cli._base.exits import Exit, Halt
from handrail.cli._base.options import MODEL_OPTIONS, PLAIN, TOOL_OPTIONS
from handrail.cli._base.stdout import Outlet
from handrail.cli._project.kit import Kit
from handrail.cli._project.models import model_of
from handrail.cli._runs.headless import Face, OnDenied, Task, on_denied, run_task
from handrail.cli._runs.resumed_app import flag_settings
from handrail.cli._runs.saved import SavedRun, new_run
from handrail.messages import Model, Prompt
from handrail.runs.lines import prompt_line

_MAX_STDIN_BYTES = 1 << 24
"""Size limit for a prompt from stdin."""
_NOTICE_SECONDS = 0.5
"""Seconds without input after which the command reports reading stdin."""


@as_command("run", "Run a task non-interactively.", *TOOL_OPTIONS, *MODEL_OPTIONS)
@click.argument(
    "prompt",
    nargs=-1,
    help='The task (default: read stdin). A - adds stdin: git diff | handrail run "Review." -',
)
@on_denied("fail")
@PLAIN
def command(app: App, *, prompt: tuple[str, ...], on_denied: OnDenied, plain: bool) -> Exit:
    """Run a task non-interactively.

    The answer is streamed to stdout, everything else goes to stderr. If both are a terminal, the
    run is drawn as in a chat.

    You are never prompted. A call that needs approval is denied, and the run continues without
    it. At the end these calls are listed, each with a rule that would allow it, and the exit code
    is 3. With --on-denied continue, it is 0. With --on-denied suspend, such calls wait, and the
    exit code is 4: see `handrail runs approve` and `handrail runs resume`.
    """
    task, data = read_prompt(app, prompt), Outlet(app)
    kit = Kit(app)
    model = model_of(app.settings, app.workspace, say=app.say)
    _ = kit.tools, kit.rules  # report errors in them before a run is saved
    saved = _start_run(app, task)
    with saved.hold():
        face = _open_face(kit, model, plain=plain) if _is_drawn(app, data) else None
        return run_task(
            Task(kit=kit, saved=saved, model=model, data=data, on_denied=on_denied, face=face)
        )


def _is_drawn(app: App, data: Outlet) -> bool:
    """Return whether a person reads both the answer and the rest at a terminal."""
    return data.at_terminal and sys.stderr.isatty() and app.output == "text" and not app.quiet


def _open_face(kit: Kit, model: Model, *, plain: bool) -> Face:
    from handrail.cli._chat.run_face import RunFace, open_watcher  # not needed in pipes
    from handrail.cli._screen.terminal import open_screen

    screen = open_screen(kit.app, plain=plain)
    watcher = open_watcher(screen, kit, plain=plain)
    return RunFace(screen, watcher, model, str(kit.rules.mode))


def _start_run(app: App, task: str) -> SavedRun:
    """Save a new run, which can be resumed from now on."""
    message, settings = Prompt.of(task), app.settings
    saved = new_run(
        app.workspace,
        task,
        command="run",
        settings=settings.values,
        given=flag_settings(settings),
        state=RunState(inbox=(message,)),
    )
    saved.record.note([prompt_line(time.time(), message)])
    return saved


def read_prompt(app: App, prompt: tuple[str, ...]) -> str:
    """Return the prompt: the arguments, or stdin if there are none, or both with a ``-``."""
    text = " ".join(word for word in prompt if word != "-").strip()
    piped = _read_stdin(app, wanted="-" in prompt) if "-" in prompt or not text else ""
    if not text and not piped:
        raise Halt(
            "no prompt is given",
            code="no_prompt",
            hint="pass one, as in `handrail run 'Fix the tests'`, or pipe it to stdin",
        )
    return "\n\n".join(filter(None, (text, piped)))


def _read_stdin(app: App, *, wanted: bool) -> str:
    """Read stdin, or a terminal's only if the user asked for it."""
    stdin: TextIO | None = sys.stdin  # None if it was closed before the start
    if stdin is None or (stdin.isatty() and not wanted):
        return ""
    if _waits(stdin):
        app.say("reading the prompt from stdin")
    text = stdin.buffer.read(_MAX_STDIN_BYTES + 1)
    if len(text) > _MAX_STDIN_BYTES:
        raise Halt(
            f"stdin is longer than {_MAX_STDIN_BYTES:,} bytes",
            code="too_long",
            hint="save it to a file in the workspace, and ask the model to read that file",
        )
    return text.decode(errors="replace").strip()


def _waits(stdin: TextIO) -> bool:
    """Return whether stdin has no input yet, for the user to wonder."""
    try:
        return not select.select([stdin], [], [], _NOTICE_SECONDS)[0]
    except (OSError, ValueError):  # it is not a file, and its content is in memory
        return False
