"""Slash commands showing or setting how a conversation works: mode, model, tools and cost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from handrail import HandrailError
from handrail._support import format_duration
from handrail.cli._base.columns import columns, quantity
from handrail.cli._base.exits import Halt
from handrail.cli._base.settings import SettingOrigin
from handrail.cli._chat.conversation import Conversation, Rows, halt_rows
from handrail.cli._project.models import model_of, window_of
from handrail.cli._project.trusted import trust_of
from handrail.cli._rules.mode import describe_mode
from handrail.cli._screen.rows import Span
from handrail.cli._screen.rows import safe_line as safe
from handrail.policy import InvalidRule, Mode, Rulebook

if TYPE_CHECKING:
    from handrail.cli._trust.files import TrustItem


def mode(chat: Conversation, rest: str) -> Rows:
    """Show or set the mode."""
    rules = chat.session.kit.rules
    try:
        if rest:
            rules.set_mode(_next_mode(rules) if rest == "next" else rest)
    except HandrailError as error:
        yield safe(str(error))
        return
    yield f"mode {rules.mode}"
    yield from mode_lines(rules, chat.screen.width)


def set_next_mode(chat: Conversation) -> None:
    """Set the next mode without a word: the screen's last row names it."""
    rules = chat.session.kit.rules
    rules.set_mode(_next_mode(rules))


def _next_mode(rules: Rulebook) -> Mode:
    """Return the mode after the current one, and after the last one the first. None is ``open``."""
    modes = [mode for mode in (Mode.PLAN, Mode.ASK, Mode.EDITS) if mode <= rules.ceiling]
    return next((mode for mode in modes if mode > rules.mode), modes[0])


def mode_lines(rules: Rulebook, width: int) -> list[str]:
    """Return what runs without approval in the current mode, as rows."""
    return list(columns([("", describe_mode(rules))], width=width))


def tools(chat: Conversation, _rest: str) -> Rows:
    """List the tools."""
    specs = chat.session.offered.specs
    rows = [
        (spec.name, spec.effect.name.lower(), safe(spec.description.partition("\n")[0]))
        for spec in specs
    ]
    yield from columns(rows, width=chat.screen.width) if rows else ["no tools"]


def model(chat: Conversation, rest: str) -> Rows:
    """Show the model, or switch to another one."""
    if rest:
        try:
            _load_model(chat, rest)
        except Halt as halt:
            yield from halt_rows(halt)
            return
        chat.model = rest
    yield f"model {safe(chat.model)}"


def _load_model(chat: Conversation, named: str) -> None:
    """Load a model by name, and save the name for when this chat is resumed."""
    app, session = chat.session.kit.app, chat.session
    values = {**app.settings.values, "model": named}
    origins = {**app.settings.origins, "model": SettingOrigin("flag", "/model")}
    settings = replace(app.settings, values=values, origins=origins)
    session.model, session.window = model_of(settings, app.workspace), window_of(settings)
    given = sorted({*session.saved.about["given"], "model"})
    session.saved.record.set_status(settings=values, given=given)


def trust(chat: Conversation, rest: str) -> Rows:
    """Show the files needing trust, then trust exactly what was shown."""
    from handrail.cli._trust.files import needing_trust  # seldom needed

    workspace = chat.session.kit.app.workspace
    try:
        new = [item for item in needing_trust(workspace).files if not item.trusted]
        if rest == "yes":
            yield from _grant(chat, new)
        elif rest:
            yield "type /trust to review files, then /trust yes"
        elif not new:
            yield "no files need trust"
        else:
            yield from _review(chat, new)
    except InvalidRule as error:
        yield safe(str(error))


def _review(chat: Conversation, items: Sequence[TrustItem]) -> Rows:
    """Show files, and remember what was shown."""
    from handrail.cli._trust.screen import header, screen_lines

    for item in items:
        yield ""
        yield header(item)
        yield from ((Span(line),) for line in screen_lines(item, chat.screen.width))
        chat.reviewed[item.path] = item.digest
    yield ""
    yield f"type /trust yes to trust this content of {quantity(len(items), 'file')}"


def _grant(chat: Conversation, items: Sequence[TrustItem]) -> Rows:
    workspace, reviewed = chat.session.kit.app.workspace, chat.reviewed
    agreed = [item for item in items if reviewed.get(item.path) == item.digest]
    for item in agreed:
        trust_of(workspace).grant(workspace / item.path, item.digest)
        yield f"trusted {safe(item.path)} ({item.kind})"
    for item in items:
        if item not in agreed:
            yield f"{safe(item.path)} was not shown with this content, and is not trusted"
    if agreed:
        chat.session.read_instructions()
        if {item.kind for item in agreed} - {"instructions", "command"}:
            yield "settings, rules, tools and hooks apply from the next chat on"
    elif not items:
        yield "no files need trust"


def cost(chat: Conversation, _rest: str) -> Rows:
    """Show what was used."""
    state, used = chat.session.state, chat.session.state.usage
    cached = f" ({used.cached_tokens:,} cached)" if used.cached_tokens else ""
    yield f"tokens  {used.input_tokens:,} in{cached}; {used.output_tokens:,} out"
    yield f"cost    {chat.watcher.meter.money}"
    yield f"turns   {state.turns}"
    yield f"calls   {state.calls}"
    yield f"time    {format_duration(time.monotonic() - chat.began)} in this process"
