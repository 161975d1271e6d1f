"""What a person can tell the chat itself: lines that begin with a slash."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

from handrail import HandrailError
from handrail.approvals import Line
from handrail.cli._chat_lines import cost_lines
from handrail.cli._chat_screen import Screen
from handrail.cli._chat_words import fitting, safe
from handrail.cli._columns import columns
from handrail.cli._exits import Halt
from handrail.cli._models import model_of
from handrail.cli._session import Session
from handrail.cli._settings import Origin
from handrail.messages import Model
from handrail.tools import undo

_COMMAND = re.compile(r"/([a-z]+)(?:\s+(.*?))?\s*", re.DOTALL)
_Told: TypeAlias = Iterator[str]


@dataclass
class Commands:
    """Carries commands out, between two turns."""

    session: Session
    screen: Screen
    model: str
    """As it was named."""
    began: float = field(default_factory=time.monotonic)
    undone: list[str] = field(default_factory=list[str])
    """Files whose last change was taken back, and of which the model does not know yet."""
    over: bool = False

    def take(self, line: str) -> bool:
        """Carry a line out, if it is a command."""
        found = _COMMAND.fullmatch(line.strip())
        if found is None:
            return False
        name, rest = found[1], found[2] or ""
        for told in ALL[name][0](self, rest) if name in ALL else _unknown(name):
            self.screen.show(Line(fitting(told, self.screen.width)))
        return True

    def news(self) -> list[str]:
        """What the model has to be told before all else."""
        told = [f"The user has undone your last change of {name!r}." for name in self.undone]
        self.undone = []
        return told


def _help(_chat: Commands, _rest: str) -> _Told:
    yield from columns([(f"/{name}", told) for name, (_, told) in ALL.items()])
    yield from columns(list(_KEYS.items()))


def _undo(chat: Commands, _rest: str) -> _Told:
    workspace = chat.session.kit.workspace
    kept = workspace.changes.ids()
    if not kept:
        yield "There is nothing to undo. What commands changed is not kept."
        return
    try:
        name = undo(workspace, kept[-1])
    except HandrailError as error:
        yield safe(str(error))
        return
    chat.undone.append(name)
    yield f"The last change of {safe(name)} is undone."


def _mode(chat: Commands, rest: str) -> _Told:
    rules = chat.session.kit.rules
    try:
        if rest:
            rules.switch(rest)
    except HandrailError as error:
        yield safe(str(error))
        return
    yield f"mode {rules.mode}"


def _tools(chat: Commands, _rest: str) -> _Told:
    specs = chat.session.executor.tools.specs
    rows = [
        (one.name, one.effect.name.lower(), safe(one.description.partition("\n")[0]))
        for one in specs
    ]
    yield from columns(rows, width=chat.screen.width) if rows else ["no tools"]


def _model(chat: Commands, rest: str) -> _Told:
    if rest:
        try:
            chat.session.model = _made(chat, rest)
        except Halt as halt:
            yield safe(f"{halt}; {halt.hint}")
            return
        chat.model = rest
    yield f"model {safe(chat.model)}"


def _made(chat: Commands, named: str) -> Model:
    """A model by its name; whoever goes on with this chat later gets the same."""
    app, saved = chat.session.kit.app, chat.session.saved
    values = {**app.settings.values, "model": named}
    origins = {**app.settings.origins, "model": Origin("flag", "/model")}
    made = model_of(replace(app.settings, values=values, origins=origins), app.workspace)
    saved.tell(settings=values, given=sorted({*saved.about["given"], "model"}))
    return made


def _cost(chat: Commands, _rest: str) -> _Told:
    yield from cost_lines(chat.session.state, time.monotonic() - chat.began)


def _quit(chat: Commands, _rest: str) -> _Told:
    chat.over = True
    yield from ()


def _unknown(name: str) -> _Told:
    yield f"There is no command /{safe(name)}; /help lists those that there are."


ALL: Mapping[str, tuple[Callable[[Commands, str], _Told], str]] = MappingProxyType(
    {
        "help": (_help, "this list"),
        "undo": (_undo, "take the last change of a file back; again for the one before"),
        "mode": (_mode, "show, or set, what happens to calls that no rule speaks of"),
        "tools": (_tools, "list the tools"),
        "model": (_model, "show the model, or go on with another"),
        "cost": (_cost, "tokens, turns, calls and time so far"),
        "quit": (_quit, "end the chat; it can be gone on with"),
    }
)
_KEYS = {
    "Ctrl-C": "stop what goes on; at an empty line, or twice, end the chat",
    "Ctrl-D": "end the chat",
    "Enter": "at an empty line, go on with what was stopped",
}
