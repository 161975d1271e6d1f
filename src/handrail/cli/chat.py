"""`handrail chat`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import click
from anyio.from_thread import start_blocking_portal

from handrail import HandrailError
from handrail.agent import State
from handrail.approvals import Line, displayed, terminal
from handrail.cli._app import App, as_command
from handrail.cli._chat_input import Keyboard
from handrail.cli._chat_lines import diff_lines
from handrail.cli._chat_screen import Printed, Screen
from handrail.cli._chat_talk import Desk, Talk
from handrail.cli._chat_watch import Watcher
from handrail.cli._exits import Exit, Halt
from handrail.cli._journal import usage
from handrail.cli._kit import MOST_BYTES, Kit
from handrail.cli._models import model_of
from handrail.cli._options import JUDGED, MODELLED, run_ids
from handrail.cli._outlet import Outlet
from handrail.cli._saved import Saved, find_run, new_run, runs_folder
from handrail.cli._session import given, opened, taken_up
from handrail.judgement import Approver
from handrail.messages import Model


@as_command("chat", "Talk to a model that uses tools.", *JUDGED, *MODELLED)
@click.argument("prompt", required=False, default="")
@click.option(
    "--resume",
    metavar="RUN",
    shell_complete=run_ids,
    help="Go on with a saved run: its id, the beginning of it, or last.",
)
def command(app: App, prompt: str, resume: str | None) -> Exit:
    """Talk to a model that uses tools, with PROMPT as the first words.

    What the rules ask is asked at the terminal. Ctrl-C stops what goes on, and what was said is
    kept. The chat is saved at each step, and can be gone on with by its id. /help lists what else
    can be typed.
    """
    if not app.asks:
        raise Halt(
            "a chat needs a terminal",
            code="no_terminal",
            hint="let a model work without one by `handrail run`",
        )
    saved, data = None if resume is None else find_run(resume), Outlet(app)
    if saved is not None:
        app = taken_up(app, saved)
    kit, model = Kit(app), model_of(app.settings, app.workspace)
    _ = kit.tools  # what is missing is said before anything is made
    saved = saved or _begun(app, prompt)
    with saved.held():
        try:
            return _talked(kit, model, saved, prompt, data=data)
        finally:
            _drop_if_empty(saved)


def _begun(app: App, prompt: str) -> Saved:
    settings = app.settings
    return new_run(
        app.workspace, prompt, command="chat", settings=settings.values, given=given(settings)
    )


def _talked(kit: Kit, model: Model, saved: Saved, prompt: str, *, data: Outlet) -> Exit:
    app = kit.app
    screen = Screen(sys.stderr, color=app.tints, live=os.environ.get("TERM") != "dumb")
    sys.stdout = Printed(screen)
    keyboard = Keyboard(runs_folder().with_name("chat_history"))
    watcher = Watcher(screen, _Changes(kit))
    desk = Desk(screen, watcher, partial(_approver, kit))
    session = opened(kit, saved, model, approver=desk.ask, tell=watcher.event)
    with keyboard.heard(), start_blocking_portal() as portal:
        with portal.wrap_async_context_manager(session) as open_:
            talk = Talk(open_, portal, keyboard=keyboard, screen=screen, watcher=watcher, desk=desk)
            screen.say(_headline(kit, len(open_.executor.tools)))
            exits = talk.until_over(prompt)
        _say_how_to_go_on(saved, screen)
    if app.output != "text":
        data.document(_told(saved))
    return exits


def _headline(kit: Kit, tools: int) -> str:
    model = displayed(kit.app.settings["model"]).text
    count = "1 tool" if tools == 1 else f"{tools} tools"
    return f"{model} · mode {kit.rules.mode} · {count} · /help"


def _say_how_to_go_on(saved: Saved, screen: Screen) -> None:
    if not _is_empty(saved.state()):
        screen.say(f"To go on with this chat: handrail chat --resume {saved.id}")


def _told(saved: Saved) -> dict[str, Any]:
    """What it came to."""
    state = saved.state()
    which = {"id": saved.id, "stop": saved.about["stop"]}
    counts = {"turns": state.turns, "calls": state.calls, "usage": usage(state.usage)}
    return {**({"id": "", "stop": "empty"} if _is_empty(state) else which), **counts}


def _is_empty(state: State) -> bool:
    return not state.messages and not state.inbox


def _drop_if_empty(saved: Saved) -> None:
    """Of a chat in which nothing was said, nothing is kept."""
    with suppress(Halt):  # one that cannot be read is for somebody to look at
        if _is_empty(saved.state()):
            shutil.rmtree(saved.folder, ignore_errors=True)


def _approver(kit: Kit, **options: Any) -> Approver:
    """Asks at the terminal; the screen has the colours that were asked for."""
    from rich.console import Console  # noqa: PLC0415  an extra, loaded when it is needed

    return terminal(
        read=kit.text_of,
        workspace=kit.app.workspace,
        console=Console(stderr=True, no_color=not kit.app.tints),
        remember=kit.memory,
        **options,
    )


class _Changes:
    """What calls made of files, each told once."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._told: dict[str, object] = {}

    def __call__(self, call_id: str, width: int) -> Iterable[Line]:
        """The change of a call, if it made one."""
        workspace = self._kit.workspace
        kept = workspace.changes.get(call_id)
        if kept is None or self._told.get(call_id) is kept:  # ids may come again
            return []
        self._told[call_id] = kept
        after: bytes | None = None
        with suppress(OSError, HandrailError), workspace.file(kept.real) as found:
            after = os.pread(found.fd, MOST_BYTES, 0)
        gone = after is None  # somebody was quicker
        return [] if gone else diff_lines(kept.real, kept.before, after or b"", width)
