"""Binds input keys beyond a line editor's usual ones."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeAlias

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, Filter, is_searching
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.search import accept_search

from handrail.cli._base.exits import Exit
from handrail.cli._input.lines import NEXT_MODE, Lines
from handrail.cli._input.pastes import Pastes, clean_paste

_TWICE_SECONDS = 1.0
"""Longest time between two keys that are meant as one."""
_PICKS = re.compile(r"/[a-z]+ ")
_Handler: TypeAlias = Callable[[KeyPressEvent], None]


class Actions(Protocol):
    """Key actions beyond changing the text."""

    def send(self) -> None:
        """Send the message, or queue it."""

    def interrupt(self) -> None:
        """Stop the turn, drop the text, or end the chat."""

    def stop(self) -> None:
        """Stop the turn."""

    def edit(self) -> None:
        """Write the message in an editor."""

    def page(self) -> None:
        """Show a tool's last output in a pager."""

    def draw_again(self) -> None:
        """Redraw the input."""

    def paste_image(self) -> None:
        """Attach the image in the clipboard."""


def bind_keys(buffer: Buffer, lines: Lines, pastes: Pastes, actions: Actions) -> KeyBindings:
    """Return what keys do."""
    keys = KeyBindings()
    empty = Condition(lambda: not buffer.text)
    typing = ~is_searching
    queued = Condition(lambda: bool(lines.queued))
    working = Condition(lambda: not lines.reading)
    named = Condition(lambda: bool(pastes.name_at_end(buffer.document.text_before_cursor)))

    def on(*pressed: Keys | str, when: Filter | None = None) -> Callable[[_Handler], object]:
        return keys.add(*pressed, filter=typing if when is None else typing & when)

    on("enter")(lambda _event: _enter(buffer, actions))
    on("c-j")(lambda _event: buffer.insert_text("\n"))
    on("escape", "enter")(lambda _event: buffer.insert_text("\n"))
    on(Keys.BracketedPaste)(lambda event: _paste(buffer, pastes, event))
    on("backspace", when=named)(lambda _event: _delete_paste(buffer, pastes))
    folded = Condition(lambda: pastes.unfold(buffer.text) != buffer.text)
    on("c-o", when=folded)(lambda _event: _open_pastes(buffer, pastes))
    on("c-o", when=~folded)(lambda _event: actions.page())
    on("up", when=queued & empty)(lambda _event: _take_back(buffer, lines))
    on("s-tab", when=~working)(lambda _event: lines.send(NEXT_MODE))
    on("tab")(lambda _event: _complete(buffer))
    on("c-c")(lambda _event: actions.interrupt())
    on("c-d", when=empty)(lambda _event: lines.end(Exit.DONE))
    on("c-g")(lambda _event: actions.edit())
    on("c-v")(lambda _event: actions.paste_image())
    on("c-b", when=working)(lambda _event: lines.on_background())
    on("c-l")(lambda _event: actions.draw_again())
    on("c-@")(lambda _event: None)  # no selection, whose text the next key would replace
    on("c-z")(lambda event: event.app.suspend_to_background())
    _bind_leaving(keys, buffer, actions, working)
    return keys


def _bind_leaving(keys: KeyBindings, buffer: Buffer, actions: Actions, working: Condition) -> None:
    """Bind Esc, which leaves a search or a list, stops a turn, or goes back to a message."""
    choosing = Condition(lambda: buffer.complete_state is not None or is_picking(buffer))
    empty = Condition(lambda: not buffer.text)
    escapes = deque[float](maxlen=2)

    def bind(key: str, when: Filter, act: Callable[[], object], *, eager: bool = False) -> None:
        def run(_event: KeyPressEvent) -> None:
            act()

        keys.add(key, filter=when, eager=eager)(run)

    for key in ("enter", "escape"):
        bind(key, is_searching, lambda: _take_found(buffer), eager=True)
    typing = ~is_searching
    bind("escape", typing & choosing, lambda: _leave_choices(buffer))
    bind("escape", typing & working & ~choosing, actions.stop)
    bind("escape", typing & empty & ~working, lambda: _go_back(buffer, actions, escapes))


def _enter(buffer: Buffer, actions: Actions) -> None:
    state = buffer.complete_state
    if state is not None and is_picking(buffer):
        if state.current_completion is None and state.completions:
            buffer.apply_completion(state.completions[0])
        buffer.complete_state = None
        actions.send()
    elif state is not None and state.current_completion is not None:
        buffer.complete_state = None  # the completion is in the text already
    elif buffer.document.text_before_cursor.endswith("\\"):
        buffer.delete_before_cursor()
        buffer.insert_text("\n")
    else:
        actions.send()


def _take_found(buffer: Buffer) -> None:
    """End a search, with the cursor at the end of what it has found."""
    accept_search()
    buffer.cursor_position = len(buffer.text)


def _leave_choices(buffer: Buffer) -> None:
    """End a list. A command that only chooses from it goes away too."""
    buffer.cancel_completion()
    if is_picking(buffer):
        buffer.reset()


def _go_back(buffer: Buffer, actions: Actions, escapes: deque[float]) -> None:
    """Offer earlier messages to go back to, at the second of two keys."""
    escapes.append(time.monotonic())
    if len(escapes) == escapes.maxlen and escapes[1] - escapes[0] < _TWICE_SECONDS:
        escapes.clear()
        buffer.text = "/rewind"
        actions.send()


def is_picking(buffer: Buffer) -> bool:
    """Return whether the input chooses something for a command."""
    return _PICKS.match(buffer.text) is not None


def _paste(buffer: Buffer, pastes: Pastes, event: KeyPressEvent) -> None:
    buffer.insert_text(pastes.fold(clean_paste(event.data)))


def _delete_paste(buffer: Buffer, pastes: Pastes) -> None:
    """Delete a pasted text's name in one step."""
    buffer.delete_before_cursor(len(pastes.name_at_end(buffer.document.text_before_cursor)))


def _open_pastes(buffer: Buffer, pastes: Pastes) -> None:
    """Show pasted texts in full."""
    buffer.text = pastes.unfold(buffer.text)
    buffer.cursor_position = len(buffer.text)


def _take_back(buffer: Buffer, lines: Lines) -> None:
    """Put the last queued message back into the input."""
    buffer.text = lines.take_back() or ""
    buffer.cursor_position = len(buffer.text)


def _complete(buffer: Buffer) -> None:
    if buffer.complete_state is not None:
        buffer.complete_next()
    else:
        buffer.start_completion(select_first=True)
