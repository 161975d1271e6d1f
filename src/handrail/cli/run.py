"""`handrail run`."""

from __future__ import annotations

import select
import sys
import time
from typing import TextIO

import click

from handrail.agent import State
from handrail.cli._app import App, as_command
from handrail.cli._exits import Exit, Halt
from handrail.cli._headless import OnDenied, Task, on_denied, work
from handrail.cli._journal import prompt_line
from handrail.cli._kit import Kit
from handrail.cli._models import model_of
from handrail.cli._options import JUDGED, MODELLED
from handrail.cli._outlet import Outlet
from handrail.cli._saved import Saved, new_run
from handrail.cli._session import given
from handrail.messages import Prompt

_MOST_BYTES = 1 << 24
"""Of a prompt from stdin."""
_AT_ONCE = 0.5
"""Seconds after which it is said that stdin is waited for."""


@as_command("run", "Let a model work on a task, and ask nobody.", *JUDGED, *MODELLED)
@click.argument("prompt", nargs=-1)
@on_denied("fail")
def command(app: App, prompt: tuple[str, ...], on_denied: OnDenied) -> Exit:
    """Let a model work on a task, and ask nobody.

    PROMPT is the task; without one it is read from stdin. A - among its words adds what stdin
    says: git diff | handrail run "Review this." -

    The answer goes to stdout as it comes, all else to stderr.

    Nobody is asked: a call that somebody would have to allow is denied, and the run goes on
    without it. At the end these calls are listed, each with the rule that would have allowed it,
    and the exit code is 3. With --on-denied continue it is 0; with --on-denied suspend such calls
    wait, and the exit code is 4: see `handrail runs approve` and `handrail runs resume`.
    """
    task, data = asked(app, prompt), Outlet(app)
    kit = Kit(app)
    model = model_of(app.settings, app.workspace)
    _ = kit.tools, kit.rules  # what is wrong with them is said before anything is begun
    saved = _begun(app, task)
    with saved.held():
        return work(Task(kit=kit, saved=saved, model=model, data=data, on_denied=on_denied))


def _begun(app: App, task: str) -> Saved:
    """A new run, which can be gone on with from its first moment."""
    said, settings = Prompt.of(task), app.settings
    saved = new_run(
        app.workspace,
        task,
        command="run",
        settings=settings.values,
        given=given(settings),
        state=State(inbox=(said,)),
    )
    saved.note([prompt_line(time.time(), said)])
    return saved


def asked(app: App, prompt: tuple[str, ...]) -> str:
    """What a command line asks for: in words, or from stdin where it says so or has no words."""
    words = " ".join(one for one in prompt if one != "-").strip()
    piped = _piped(app, wanted="-" in prompt) if "-" in prompt or not words else ""
    if not words and not piped:
        raise Halt(
            "there is no prompt",
            code="no_prompt",
            hint="give one, as in `handrail run 'Mend the tests'`, or pipe it in",
        )
    return "\n\n".join(filter(None, (words, piped)))


def _piped(app: App, *, wanted: bool) -> str:
    """What is piped in; where a terminal is, only if it is asked for."""
    stdin: TextIO | None = sys.stdin  # None, if it was closed before us
    if stdin is None or (stdin.isatty() and not wanted):
        return ""
    if _waits(stdin):
        app.say("reading the prompt from stdin")
    text = stdin.buffer.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise Halt(
            f"stdin has more than {_MOST_BYTES:,} bytes",
            code="too_long",
            hint="put it into a file, and let the model read that",
        )
    return text.decode(errors="replace").strip()


def _waits(stdin: TextIO) -> bool:
    """Whether nothing comes at once, so that somebody might wonder."""
    try:
        return not select.select([stdin], [], [], _AT_ONCE)[0]
    except (OSError, ValueError):  # it is no file, and so all of it is there
        return False
