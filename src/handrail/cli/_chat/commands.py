"""Slash commands: lines that control the chat and are not sent to the model."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

from handrail import HandrailError
from handrail.approvals import RenderedLine
from handrail.cli._base.columns import columns
from handrail.cli._base.exits import Halt
from handrail.cli._base.settings import SettingOrigin
from handrail.cli._chat.lines import cost_lines
from handrail.cli._chat.screen import ChatScreen
from handrail.cli._chat.text import safe, truncate
from handrail.cli._project.models import model_of
from handrail.cli._rules.mode import describe_mode
from handrail.cli._runs.session import Session
from handrail.cli._runs.undone import note_for_model, undo_lines
from handrail.messages import Model
from handrail.policy import Rulebook
from handrail.tools import list_changes, undo

_COMMAND = re.compile(r"/([a-z]+)(?:\s+(.*?))?\s*", re.DOTALL)
_Rows: TypeAlias = Iterator[str]


@dataclass
class ChatCommands:
    """Runs slash commands between two turns."""

    session: Session
    screen: ChatScreen
    model: str
    """The model's name, as the user gave it."""
    began: float = field(default_factory=time.monotonic)
    undone: list[str] = field(default_factory=list[str])
    """Messages for the model about changes that were undone since its last turn."""
    over: bool = False

    def run(self, line: str) -> bool:
        """Run a line if it is a command, and return whether it is one."""
        match = _COMMAND.fullmatch(line.strip())
        if match is None:
            return False
        name, rest = match[1], match[2] or ""
        for row in ALL[name][0](self, rest) if name in ALL else _unknown(name):
            self.screen.show(RenderedLine(truncate(row, self.screen.width)))
        return True

    def take_notes(self) -> list[str]:
        """Return messages to send to the model before the user's next prompt, each once."""
        notes, self.undone = self.undone, []
        return notes


def _help(_chat: ChatCommands, _rest: str) -> _Rows:
    yield from columns([(f"/{name}", summary) for name, (_, summary) in ALL.items()])
    yield from columns(list(_KEYS.items()))


def _undo(chat: ChatCommands, _rest: str) -> _Rows:
    workspace = chat.session.kit.workspace
    try:
        if not list_changes(workspace):
            yield "nothing to undo"
            return
        report = undo(workspace)
    except (HandrailError, OSError) as error:
        yield safe(str(error))
        return
    chat.undone.append(note_for_model(report))
    yield from map(safe, undo_lines(report))


def _mode(chat: ChatCommands, rest: str) -> _Rows:
    rules = chat.session.kit.rules
    try:
        if rest:
            rules.set_mode(rest)
    except HandrailError as error:
        yield safe(str(error))
        return
    yield f"mode {rules.mode}"
    yield from mode_lines(rules, chat.screen.width)


def mode_lines(rules: Rulebook, width: int) -> list[str]:
    """Return what runs without approval in the current mode, as rows."""
    return list(columns([("", describe_mode(rules))], width=width))


def _tools(chat: ChatCommands, _rest: str) -> _Rows:
    specs = chat.session.executor.tools.specs
    rows = [
        (spec.name, spec.effect.name.lower(), safe(spec.description.partition("\n")[0]))
        for spec in specs
    ]
    yield from columns(rows, width=chat.screen.width) if rows else ["no tools"]


def _model(chat: ChatCommands, rest: str) -> _Rows:
    if rest:
        try:
            chat.session.model = _load_model(chat, rest)
        except Halt as halt:
            yield from (safe(row) for row in (str(halt), f"  {halt.hint}") if row.strip())
            return
        chat.model = rest
    yield f"model {safe(chat.model)}"


def _load_model(chat: ChatCommands, named: str) -> Model:
    """Load a model by name, and save the name for when this chat is resumed."""
    app, saved = chat.session.kit.app, chat.session.saved
    values = {**app.settings.values, "model": named}
    origins = {**app.settings.origins, "model": SettingOrigin("flag", "/model")}
    model = model_of(replace(app.settings, values=values, origins=origins), app.workspace)
    saved.update(settings=values, given=sorted({*saved.about["given"], "model"}))
    return model


def _cost(chat: ChatCommands, _rest: str) -> _Rows:
    yield from cost_lines(chat.session.state, time.monotonic() - chat.began)


def _quit(chat: ChatCommands, _rest: str) -> _Rows:
    chat.over = True
    yield from ()


def _unknown(name: str) -> _Rows:
    yield f"unknown command /{safe(name)}; type /help for a list"


ALL: Mapping[str, tuple[Callable[[ChatCommands, str], _Rows], str]] = MappingProxyType(
    {
        "help": (_help, "show this list"),
        "undo": (_undo, "undo the last change of a tool or command; repeat to undo earlier ones"),
        "mode": (_mode, "show or set the default decision for calls that no rule matches"),
        "tools": (_tools, "list the tools"),
        "model": (_model, "show the model, or switch to another one"),
        "cost": (_cost, "show tokens, turns, calls and time so far"),
        "quit": (_quit, "end the chat; you can resume it later"),
    }
)
_KEYS = {
    "Ctrl-C": "stop the current step; at an empty line, or twice, end the chat",
    "Ctrl-D": "end the chat",
    "Enter": "at an empty line, continue what was stopped",
}
