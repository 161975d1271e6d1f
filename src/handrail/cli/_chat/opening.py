"""Holds a chat's conversations. The input is on the screen before this module is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from handrail import HandrailError
from handrail._version import __version__
from handrail.agent import RunState
from handrail.approvals import ask_at_terminal, terminal
from handrail.cli._base.app import App
from handrail.cli._base.exits import Exit, Halt
from handrail.cli._chat.choices import list_choices
from handrail.cli._chat.commands import name_commands
from handrail.cli._chat.conversation import Conversation
from handrail.cli._chat.run_face import open_watcher
from handrail.cli._chat.setting_commands import mode_lines
from handrail.cli._chat.talk import ChatApprover, ChatInput, Talk
from handrail.cli._project.kit import Kit
from handrail.cli._project.models import LateModel, model_of
from handrail.cli._project.server_prompts import reviewed_servers
from handrail.cli._runs.resumed_app import app_to_resume, flag_settings
from handrail.cli._runs.saved import SavedRun, find_run, new_run, standing_of
from handrail.cli._runs.session import open_session
from handrail.cli._screen.rows import Row, Span, safe_line
from handrail.cli._screen.terminal import Screen
from handrail.messages import Model
from handrail.permissions import Approver
from handrail.policy import Mode
from handrail.runs.lines import usage
from handrail.runs.statuses import Standing
from handrail.tools import list_files

if TYPE_CHECKING:
    from rich.console import Console


_END_REASONS = {None: "prompt_input_exit", "": "clear"}
"""Why a session ends, for hooks, by the run following it."""


class _Opened(NamedTuple):
    """A saved run, with what it needs to continue."""

    kit: Kit
    model: Model
    saved: SavedRun


def _start_run(app: App, prompt: str) -> SavedRun:
    settings = app.settings
    return new_run(
        app.workspace,
        prompt,
        command="chat",
        settings=settings.values,
        given=flag_settings(settings),
    )


class Terminal(NamedTuple):
    """The person's screen and input."""

    screen: Screen
    input: ChatInput
    plain: bool


def hold_chat(
    app: App, prompt: str, resume: str | None, terminal: Terminal
) -> tuple[Exit, dict[str, Any]]:
    """Hold one conversation after the other: /clear and /resume start another one.

    Returns the exit code, and the outcome as data.
    """
    saved = None if resume is None else find_run(resume)
    if saved is not None:
        app = app_to_resume(app, saved)
    kit, model = Kit(app), model_of(app.settings, app.workspace, say=app.say)
    _ = kit.tools  # report missing tools before a run is saved
    now = _Opened(kit, model, saved or _start_run(app, prompt))
    screen, terminal_input, plain = terminal
    with start_blocking_portal() as portal:
        while True:
            _show_completions(now.kit, terminal_input)
            with now.saved.hold():
                try:
                    exits, last = _converse(
                        now, portal, terminal_input, screen, prompt=prompt, plain=plain
                    )
                    document = _document(now.saved)
                finally:
                    _drop_if_empty(now.saved)
            if last.following is None:
                break
            now, prompt = _open_next(now, last), ""
    return exits, document


def _add_servers(kit: Kit, talk: Conversation) -> dict[str, list[tuple[str, str]]]:
    """Add what completes an MCP server's name, until its prompts are known."""
    servers = talk.server_prompts
    servers |= {one: [(f"/{one}:", "list its prompts")] for one in reviewed_servers(kit.app)}
    return servers


def _show_completions(
    kit: Kit, terminal_input: ChatInput, servers: Mapping[str, Sequence[tuple[str, str]]] = {}
) -> None:
    """Set what the input completes."""
    terminal_input.show_completions(
        partial(name_commands, kit.app.workspace, servers),
        partial(_list_files, kit),
        partial(anyio.run, partial(list_files, kit.workspace)),
    )


def _converse(
    now: _Opened,
    portal: BlockingPortal,
    terminal_input: ChatInput,
    screen: Screen,
    *,
    prompt: str,
    plain: bool,
) -> tuple[Exit, Conversation]:
    """Hold one conversation. Return the exit code, and what it left."""
    kit, model, saved = now
    watcher = open_watcher(screen, kit, plain=plain)
    console = _open_console(kit, screen, plain=plain)
    asks = partial(_approver, kit, console=console, plain=plain)
    asks_question = ask_at_terminal(console=console, plain=plain)
    approver = ChatApprover(
        screen, watcher, asks, lend=terminal_input.lend, asks_question=asks_question
    )
    session = open_session(
        kit,
        saved,
        model,
        approver=approver.ask,
        on_event=watcher.on_event,
        ask=approver.ask_question,
    )
    with portal.wrap_async_context_manager(session) as open_:
        open_.hooks.say = screen.say
        talk = Talk(
            open_,
            portal,
            person=terminal_input.lines,
            screen=screen,
            watcher=watcher,
            approver=approver,
        )
        terminal_input.show_status(talk.status, talk.last_output)
        terminal_input.show_choices(partial(list_choices, talk.conversation))
        _show_completions(kit, terminal_input, _add_servers(kit, talk.conversation))
        screen.show(_headline(kit, len(open_.offered)), ())
        for row in mode_lines(kit.rules, screen.width):
            screen.say(row)
        if screen.frame is None:
            screen.show(())
        if isinstance(model, LateModel):  # while the first message is being typed
            Thread(target=model.load, daemon=True).start()
        exits = talk.until_over(prompt)
        open_.ends_by = _END_REASONS.get(talk.conversation.following, "resume")
    _print_how_to_resume(saved, screen)
    return exits, talk.conversation


def _open_next(before: _Opened, last: Conversation) -> _Opened:
    """Return the run chosen by a command, or a new one with the same model and mode."""
    app = before.kit.app
    if last.following:
        saved = find_run(last.following)
        app = app_to_resume(app, saved)
        return _Opened(Kit(app), model_of(app.settings, app.workspace, say=app.say), saved)
    chosen = {"model": last.model} if last.model != app.settings["model"] else {}
    app = replace(app, flags={**app.flags, **chosen})
    kit = Kit(app)
    kit.rules.set_mode(str(before.kit.rules.mode))
    return _Opened(kit, last.session.model, _start_run(app, ""))


def _list_files(kit: Kit, folder: str) -> Iterable[tuple[str, bool]]:
    """Yield a workspace folder's names, as far as the rules let a model see them."""
    above = f"{folder}/" if folder else ""
    with suppress(HandrailError):  # outside the workspace
        for entry in kit.workspace.list_folder(kit.workspace.inside(folder or ".")):
            if not kit.workspace.is_hidden(f"{above}{entry.name}"):
                yield entry.name, entry.is_folder


def _headline(kit: Kit, tools: int) -> Row:
    model = safe_line(kit.app.settings["model"])
    count = "1 tool" if tools == 1 else f"{tools} tools"
    about = f" {__version__}  {model}  mode {kit.rules.mode}  {count}  /help"
    return (Span("handrail", "title"), Span(about, "muted"))


def _print_how_to_resume(saved: SavedRun, screen: Screen) -> None:
    if not _is_empty(saved.state()):
        screen.say(f"resume this chat with `handrail chat --resume {saved.id}`")


def _document(saved: SavedRun) -> dict[str, Any]:
    """Return the chat's outcome as data."""
    state = saved.state()
    empty = {"id": "", **Standing("done", "empty")._asdict()}
    which = {"id": saved.id, **standing_of(saved.about)._asdict()}
    counts = {"turns": state.turns, "calls": state.calls, "usage": usage(state.usage)}
    return {**(empty if _is_empty(state) else which), **counts}


def _is_empty(state: RunState) -> bool:
    return not state.messages and not state.inbox


def _drop_if_empty(saved: SavedRun) -> None:
    """Delete a saved chat without messages."""
    with suppress(Halt):  # keep an unreadable run
        if _is_empty(saved.state()):
            saved.remove()


def _may_allow_edits(kit: Kit) -> bool:
    return kit.rules.mode is Mode.ASK and kit.rules.ceiling >= Mode.EDITS


def _open_console(kit: Kit, screen: Screen, *, plain: bool) -> Console:
    """Return where questions are printed, with color if wanted."""
    from rich.console import Console  # an optional package
    from rich.theme import Theme

    styles = screen.theme.question_styles()
    return Console(stderr=True, no_color=plain or not kit.app.tints, theme=Theme(styles))


def _approver(kit: Kit, *, console: Console, plain: bool, **options: Any) -> Approver:
    """Return an approver prompting at the terminal."""
    return terminal(
        workspace=kit.app.workspace,
        console=console,
        plain=plain,
        remember=kit.memory,
        allow_edits=partial(kit.rules.set_mode, "edits") if _may_allow_edits(kit) else None,
        undo="/undo",
        **options,
    )
