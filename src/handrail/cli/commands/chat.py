"""`handrail chat`.

Little is imported here: the input is drawn first, and the rest is loaded while a person types.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from handrail.cli._base.app import App, as_command
from handrail.cli._base.exits import Exit, Halt
from handrail.cli._base.options import MODEL_OPTIONS, PLAIN, TOOL_OPTIONS
from handrail.cli._base.settings import runs_folder
from handrail.cli._base.stdout import Outlet
from handrail.cli._screen.rows import Span, fold
from handrail.cli._screen.terminal import Printed, Screen, open_screen

if TYPE_CHECKING:
    from handrail.cli._chat.talk import ChatInput


def _run_ids(context: click.Context, option: click.Parameter, start: str) -> list[str]:
    """Return saved run ids, for completion."""
    from handrail.cli._runs.saved import run_ids

    return run_ids(context, option, start)


@as_command("chat", "Chat with a model that can use tools.", *TOOL_OPTIONS, *MODEL_OPTIONS)
@click.argument("prompt", required=False, default="", help="First message to the model.")
@click.option(
    "--resume",
    metavar="RUN",
    shell_complete=_run_ids,
    help="Resume a saved run: its ID, a prefix of the ID, or last.",
)
@PLAIN
def command(app: App, prompt: str, resume: str | None, *, plain: bool) -> Exit:
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
    screen = open_screen(app, plain=plain)
    if not app.settings["model"] and resume is None:
        from handrail.cli._setup.choosing import set_up

        app.say("no model is set; choose one")
        set_up(app)
    app = replace(app, tell=partial(_tell, screen))  # reads the settings again
    data, terminal_input = Outlet(app), _open_input(screen, plain=plain)
    sys.stdout = Printed(screen)
    try:
        with terminal_input.listen():
            from handrail.cli._chat.opening import Terminal, hold_chat

            terminal = Terminal(screen, terminal_input, plain)
            exits, document = hold_chat(app, prompt, resume, terminal)
    finally:
        screen.frame = None
    if app.output != "text":
        data.document(document)
    return exits


def _tell(screen: Screen, line: str) -> None:
    """Print a line for people above the input, broken between words."""
    screen.show(*fold((Span(line),), screen.width))


def _open_input(screen: Screen, *, plain: bool) -> ChatInput:
    """Return the message reader: an input with several rows, or lines without any drawing."""
    if plain or os.environ.get("TERM") == "dumb" or os.environ.get("HANDRAIL_PLAIN"):
        from handrail.cli._chat.input import Keyboard

        return Keyboard(runs_folder().with_name("chat_history"))
    from handrail.cli._input.area import InputArea  # loads prompt_toolkit

    area = InputArea(screen, history=runs_folder().with_name("chat_history.jsonl"))
    screen.frame = area
    return area
