"""Binds input keys beyond a line editor's usual ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol, TypeAlias

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, Filter, is_searching
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from handrail.cli._base.exits import Exit
from handrail.cli._input.lines import NEXT_MODE, Lines
from handrail.cli._input.pastes import Pastes, clean_paste

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
    completing = Condition(lambda: buffer.complete_state is not None)
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
    on("escape", when=completing)(lambda _event: buffer.cancel_completion())
    on("escape", when=working & ~completing)(lambda _event: actions.stop())
    on("c-c")(lambda _event: actions.interrupt())
    on("c-d", when=empty)(lambda _event: lines.end(Exit.DONE))
    on("c-g")(lambda _event: actions.edit())
    on("c-v")(lambda _event: actions.paste_image())
    on("c-b", when=working)(lambda _event: lines.on_background())
    on("c-l")(lambda _event: actions.draw_again())
    on("c-@")(lambda _event: None)  # no selection, whose text the next key would replace
    on("c-z")(lambda event: event.app.suspend_to_background())
    return keys


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
