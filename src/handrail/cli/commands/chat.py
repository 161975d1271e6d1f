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
from handrail.agent import RunState
from handrail.approvals import RenderedLine, make_printable, terminal
from handrail.cli._base.app import App, as_command
from handrail.cli._base.exits import Exit, Halt
from handrail.cli._base.options import MODEL_OPTIONS, TOOL_OPTIONS
from handrail.cli._base.settings import runs_folder
from handrail.cli._base.stdout import Outlet
from handrail.cli._chat.commands import mode_lines
from handrail.cli._chat.input import Keyboard
from handrail.cli._chat.lines import diff_lines
from handrail.cli._chat.screen import ChatScreen, Printed
from handrail.cli._chat.talk import ChatApprover, Talk
from handrail.cli._chat.watch import Watcher
from handrail.cli._project.kit import MAX_COMPARED_BYTES, Kit
from handrail.cli._project.models import model_of
from handrail.cli._runs.journal import usage
from handrail.cli._runs.saved import SavedRun, find_run, new_run, run_ids
from handrail.cli._runs.session import app_to_resume, flag_settings, open_session
from handrail.messages import Model
from handrail.permissions import Approver


@as_command("chat", "Chat with a model that can use tools.", *TOOL_OPTIONS, *MODEL_OPTIONS)
@click.argument("prompt", required=False, default="", help="First message to the model.")
@click.option(
    "--resume",
    metavar="RUN",
    shell_complete=run_ids,
    help="Resume a saved run: its ID, a prefix of the ID, or last.",
)
def command(app: App, prompt: str, resume: str | None) -> Exit:
    """Chat with a model that can use tools.

    Approval requests appear in the terminal. Ctrl-C stops the current step and keeps the
    conversation. Every step is saved: resume a chat with --resume. Type /help for commands.
    """
    if not app.asks:
        raise Halt(
            "chat needs a terminal",
            code="no_terminal",
            hint="without one, use `handrail run PROMPT`",
        )
    saved, data = None if resume is None else find_run(resume), Outlet(app)
    if saved is not None:
        app = app_to_resume(app, saved)
    kit, model = Kit(app), model_of(app.settings, app.workspace)
    _ = kit.tools  # report missing tools before a run is saved
    saved = saved or _start_run(app, prompt)
    with saved.hold():
        try:
            return _talk(kit, model, saved, prompt, data=data)
        finally:
            _drop_if_empty(saved)


def _start_run(app: App, prompt: str) -> SavedRun:
    settings = app.settings
    return new_run(
        app.workspace,
        prompt,
        command="chat",
        settings=settings.values,
        given=flag_settings(settings),
    )


def _talk(kit: Kit, model: Model, saved: SavedRun, prompt: str, *, data: Outlet) -> Exit:
    app = kit.app
    screen = ChatScreen(sys.stderr, color=app.tints, live=os.environ.get("TERM") != "dumb")
    sys.stdout = Printed(screen)
    keyboard = Keyboard(runs_folder().with_name("chat_history"))
    watcher = Watcher(screen, _FileChanges(kit))
    approver = ChatApprover(screen, watcher, partial(_approver, kit))
    session = open_session(kit, saved, model, approver=approver.ask, on_event=watcher.on_event)
    with keyboard.listen(), start_blocking_portal() as portal:
        with portal.wrap_async_context_manager(session) as open_:
            talk = Talk(
                open_, portal, keyboard=keyboard, screen=screen, watcher=watcher, approver=approver
            )
            screen.say(_headline(kit, len(open_.executor.tools)))
            for row in mode_lines(kit.rules, screen.width):
                screen.say(row)
            exits = talk.until_over(prompt)
        _print_how_to_resume(saved, screen)
    if app.output != "text":
        data.document(_document(saved))
    return exits


def _headline(kit: Kit, tools: int) -> str:
    model = make_printable(kit.app.settings["model"]).text
    count = "1 tool" if tools == 1 else f"{tools} tools"
    return f"{model} · mode {kit.rules.mode} · {count} · /help"


def _print_how_to_resume(saved: SavedRun, screen: ChatScreen) -> None:
    if not _is_empty(saved.state()):
        screen.say(f"resume this chat with `handrail chat --resume {saved.id}`")


def _document(saved: SavedRun) -> dict[str, Any]:
    """Return the outcome of the chat as data."""
    state = saved.state()
    which = {"id": saved.id, "stop": saved.about["stop"]}
    counts = {"turns": state.turns, "calls": state.calls, "usage": usage(state.usage)}
    return {**({"id": "", "stop": "empty"} if _is_empty(state) else which), **counts}


def _is_empty(state: RunState) -> bool:
    return not state.messages and not state.inbox


def _drop_if_empty(saved: SavedRun) -> None:
    """Delete the saved run of a chat without messages."""
    with suppress(Halt):  # keep a run that cannot be read
        if _is_empty(saved.state()):
            shutil.rmtree(saved.folder, ignore_errors=True)


def _approver(kit: Kit, **options: Any) -> Approver:
    """Return an approver that prompts at the terminal, with color if wanted."""
    from rich.console import Console  # an optional package

    return terminal(
        workspace=kit.app.workspace,
        console=Console(stderr=True, no_color=not kit.app.tints),
        remember=kit.memory,
        **options,
    )


class _FileChanges:
    """The file changes of calls, each shown once."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._shown = {entry.number for entry in kit.workspace.changes.entries()}
        """Changes that are not shown again. Models of earlier chats may have used the same ID."""

    def __call__(self, call_id: str, width: int) -> Iterable[RenderedLine]:
        """Return the diff of the file that a call changed, as lines."""
        workspace = self._kit.workspace
        entry = workspace.changes.find(call_id)
        if entry is None or entry.command or entry.number in self._shown:
            return []
        self._shown.add(entry.number)
        path, before, _ = entry.changes[0]
        after: bytes | None = None
        with suppress(OSError, HandrailError), workspace.file(path) as file:
            after = os.pread(file.fd, MAX_COMPARED_BYTES, 0)
        gone = after is None  # the file was deleted since
        old = workspace.changes.content(before.content) if before is not None else None
        return [] if gone else diff_lines(path, old, after or b"", width)
