"""The input as a prompt_toolkit application, in a separate thread.

Its rows are at the bottom of the terminal, and settled text is printed above them. Keys are read
and shown whatever the chat or a tool does. Nothing is printed in the middle of a frame: all new
text and the rows below it are one write.
"""

from __future__ import annotations

import os
import signal
import sys
import termios
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, TextIO, cast

import anyio
import anyio.to_thread
from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import ThreadedCompleter
from prompt_toolkit.data_structures import Size
from prompt_toolkit.output.vt100 import Vt100_Output

from handrail.cli._base.exits import Exit
from handrail.cli._input.completion import ChatCompleter
from handrail.cli._input.frames import DrawnFile, FramePace, FrameWidth
from handrail.cli._input.ground import QUESTION, AskingInput
from handrail.cli._input.history import SavedHistory
from handrail.cli._input.keys import bind_keys
from handrail.cli._input.layout import Parts, color_depth, make_layout
from handrail.cli._input.lines import Choices, Commands, Files, Lines, Tree
from handrail.cli._input.own_programs import (
    edit_text,
    find_editor,
    read_clipboard_image,
    split_command,
)
from handrail.cli._input.pastes import Pastes, clean_typed
from handrail.cli._screen.rows import Row
from handrail.cli._screen.terminal import Screen

_ESCAPE_SECONDS = 0.05
"""Escape-sequence timeout in seconds."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_MAX_INTERRUPTS = 2
_LEAVE_SECONDS = 5.0
_POLL_SECONDS = 0.01
_MAX_GROUND_WAITS = 20
"""How often to wait for the terminal to report its background.

Waits, not seconds: on a busy machine, the thread that reads the answer needs its turn between them.
"""
_USUAL_MODES = "\x1b[?2026l\x1b[?2004l\x1b[?25h\x1b[0m\r\n"
"""No frame has begun, pastes have no marks, the cursor is shown, and there is no color."""


class InputArea:
    """Reads messages below what is printed."""

    def __init__(
        self,
        screen: Screen,
        *,
        history: Path,
    ) -> None:
        self.lines = Lines()
        self._screen = screen
        self._pastes = Pastes()
        self._completer = ChatCompleter()
        self._buffer = Buffer(
            multiline=True,
            history=SavedHistory(history),
            completer=ThreadedCompleter(self._completer),
            complete_while_typing=True,
        )
        self._parts = Parts(self._buffer, self.lines, screen, lambda _width: ())
        self._file = DrawnFile(sys.stderr.fileno())
        self._keys = sys.stdin.fileno()
        self._usual = termios.tcgetattr(self._keys)
        self._asked = AskingInput(sys.stdin)
        self._asks = screen.theme.guessed
        """Whether to ask the terminal for its ground, with the first frame."""
        self._app = self._make_app()
        self.lines.on_reading = self._on_reading
        self._thread = threading.Thread(target=self._run, name="input", daemon=True)
        self._started = threading.Event()
        self._settled: deque[str] = deque()
        """Text not printed yet."""
        self._width = FrameWidth()
        self._pace = FramePace()
        self._is_news_due = False
        """Whether a later frame shows the news."""
        self._loan: _Loan | None = None
        self._output: Callable[[], str] = str
        """Returns a tool's last output."""

    def _make_app(self) -> Application[None]:
        app: Application[None] = Application(
            make_layout(self._parts),
            key_bindings=bind_keys(self._buffer, self.lines, self._pastes, self),
            input=self._asked,
            output=Vt100_Output(
                cast("TextIO", self._file),
                self._pt_size,
                term=os.environ.get("TERM"),
                enable_cpr=False,
            ),
            color_depth=lambda: color_depth(self._screen.theme),
            erase_when_done=True,
            include_default_pygments_style=False,
            terminal_size_polling_interval=None,
            before_render=lambda _app: self._begin_frame(),
            after_render=lambda _app: self._end_frame(),
        )
        app.ttimeoutlen = app.timeoutlen = _ESCAPE_SECONDS
        return app

    def _pt_size(self) -> Size:
        columns, rows = self._screen.size()
        return Size(rows=rows, columns=columns)

    def show_status(self, status: Callable[[int], Row], output: Callable[[], str]) -> None:
        """Set what makes the last row, for a width. It is called from another thread."""
        self._parts.status, self._output = status, output

    def show_completions(self, commands: Commands, files: Files, tree: Tree) -> None:
        """Set what the input completes. It is called from another thread."""
        self._completer.show(commands, files, tree)

    def show_choices(self, choices: Choices) -> None:
        """Set what commands choose from. It is called from another thread."""
        self._completer.choices = choices

    def _on_reading(self) -> None:
        """Show the chat is waiting for a message. It is called from another thread."""
        text, self.lines.next_text = self.lines.next_text, ""
        if text:
            self._post(lambda: self._set_text(text))
        self._app.invalidate()

    # -- drawing ----------------------------------------------------------------------------------

    def draw(self, settled: str, live: Sequence[Row]) -> None:
        """Print text above the input, and show these rows between them."""
        if settled:
            self._settled.append(settled)
        self._parts.live = live
        self._post(self._plan_frame)

    def _plan_frame(self) -> None:
        """Draw the news soon. A key's frame shows them too, and does not wait."""
        if not self._is_news_due:
            self._is_news_due = True
            loop: Any = self._app.loop
            loop.call_later(self._pace.count_seconds(), self._draw_news)

    def _draw_news(self) -> None:
        self._is_news_due = False
        self._app.invalidate()

    def draw_again(self) -> None:
        """Redraw the input."""
        self._app.renderer.erase(leave_alternate_screen=False)
        self._app.invalidate()

    def _begin_frame(self) -> None:
        """Print new text, in one write with the rows following it."""
        self._pace.begin()
        self._file.begin()
        renderer, output = self._app.renderer, self._app.output
        size = output.get_size()
        screen = renderer.last_rendered_screen
        wanted = self._app.layout.container.preferred_height(size.columns, size.rows).preferred
        shrinks = screen is not None and wanted < screen.height
        moved = self._width.count_moved(self._app, size.columns)
        text = self._take_settled()
        self._width.note_frame(is_news=bool(text or self._parts.live))
        if text or shrinks or moved is not None:
            output.cursor_up(moved or 0)
            renderer.erase(leave_alternate_screen=False)
            output.write_raw(text)
        if self._asks:
            self._asks = False
            output.write_raw(QUESTION)

    def _end_frame(self) -> None:
        self._file.end()
        self._pace.end()

    def _take_settled(self) -> str:
        taken = [self._settled.popleft() for _ in range(len(self._settled))]
        return "".join(taken).replace("\n", "\r\n")

    # -- what keys ask for ------------------------------------------------------------------------

    def send(self) -> None:
        """Send the message, or queue it during a turn. An empty one continues a turn."""
        text = clean_typed(self._pastes.unfold(self._buffer.text))
        if not text.strip() and not self.lines.reading:
            return
        if self._has_choices(text.strip()):
            self._set_text(f"{text.strip()} ")
            self._buffer.start_completion()
            return
        self._pastes.clear()
        self._buffer.reset()
        if text.strip():
            self._buffer.history.append_string(text)
        self.lines.send(text)

    def _has_choices(self, text: str) -> bool:
        """Return whether this is a command without an argument, with a list to choose from."""
        return text.startswith("/") and bool(self._completer.choices(text[1:]))

    def interrupt(self) -> None:
        """Stop the turn. Without one, drop the text, or end the chat if there is none."""
        if not self.lines.reading:
            self._unqueue()
            self._count_interrupt()
        elif self._buffer.text:
            self._buffer.reset()
            self._app.invalidate()  # no key was pressed if a signal came
        else:
            self.lines.end(Exit.INTERRUPTED)

    def stop(self) -> None:
        """Stop the turn."""
        self._unqueue()
        self.lines.interrupts = max(self.lines.interrupts, 1)

    def _unqueue(self) -> None:
        """Put queued messages back into the input: the person may want others now."""
        texts = [self._buffer.text] if self._buffer.text else []
        while not self.lines.reading and (text := self.lines.take_back()) is not None:
            texts.insert(0, text)
        self._set_text("\n".join(texts))

    def _set_text(self, text: str) -> None:
        self._buffer.text = text
        self._buffer.cursor_position = len(text)

    def _count_interrupt(self) -> None:
        self.lines.interrupts += 1
        if self.lines.interrupts > _MAX_INTERRUPTS:
            self._restore()
            os._exit(Exit.INTERRUPTED)

    def edit(self) -> None:
        """Write the message in an editor."""
        self._app.create_background_task(self._edit())

    async def _edit(self) -> None:
        editor = find_editor()
        if not editor:
            return
        before = self._pastes.unfold(self._buffer.text)
        async with in_terminal():
            after = await anyio.to_thread.run_sync(edit_text, editor, before)
        if after is not None:
            self._set_text(clean_typed(after))

    def page(self) -> None:
        """Show a tool's last output in a pager."""
        if text := self._output():
            self._app.create_background_task(self._page(text))

    async def _page(self, text: str) -> None:
        pager = split_command(os.environ.get("PAGER") or "less")
        async with in_terminal():
            await anyio.to_thread.run_sync(edit_text, pager, text, "output.txt")

    def paste_image(self) -> None:
        """Attach the image in the clipboard, under a name in the message."""
        self._app.create_background_task(self._paste_image())

    async def _paste_image(self) -> None:
        data = await anyio.to_thread.run_sync(read_clipboard_image)
        if data is not None:
            name = f"[image {len(self.lines.images) + 1}]"
            self.lines.images[name] = data
            self._buffer.insert_text(name)

    # -- the terminal, for others -----------------------------------------------------------------

    @asynccontextmanager
    async def lend(self) -> AsyncGenerator[None]:
        """Lend the original terminal to others, until the block's end."""
        loan = self._loan or _Loan()
        loan.borrowers += 1
        if self._loan is None:
            self._loan = loan
            self._post(lambda: self._app.create_background_task(self._lend(loan)))
        try:
            # the other event loop is in another thread
            while not loan.taken.is_set() and self._thread.is_alive():  # noqa: ASYNC110
                await anyio.sleep(_POLL_SECONDS)
            yield
        finally:
            loan.borrowers -= 1
            if not loan.borrowers:
                self._loan = None
                loan.over.set()

    async def _lend(self, loan: _Loan) -> None:
        async with in_terminal():
            self._file.write_now(self._take_settled())
            loan.taken.set()
            while not loan.over.is_set():  # noqa: ASYNC110
                await anyio.sleep(_POLL_SECONDS)

    # -- beginning and end ------------------------------------------------------------------------

    def _post(self, action: Callable[[], object]) -> None:
        """Run an action in the input's thread."""
        app: Any = self._app
        with suppress(AttributeError, RuntimeError):  # it has ended
            app.loop.call_soon_threadsafe(action, context=app.context.copy())

    def _run(self) -> None:
        code = Exit.FAILED
        try:
            with suppress(EOFError):  # the terminal has gone away
                self._app.run(self._started.set, set_exception_handler=False, handle_sigint=False)
            code = Exit.DONE
        finally:
            self._started.set()
            self.lines.end(code)

    @contextmanager
    def listen(self) -> Generator[None]:
        """Show the input and handle signals. At the end the terminal is as it was.

        On exit, ignore all further signals, because the program is about to end.
        """
        for number in _SIGNALS:
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGWINCH, lambda _number, _frame: self._app.invalidate())
        try:
            self._thread.start()
            self._started.wait()
            if self._screen.theme.guessed:
                self._learn_ground()
            yield
        finally:
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_IGN)
            signal.signal(signal.SIGWINCH, signal.SIG_DFL)
            self._post(self._leave)
            self._thread.join(_LEAVE_SECONDS)
            self._restore()

    def _learn_ground(self) -> None:
        """Wait for the terminal's answer, but not long. The input is on the screen by then."""
        for _ in range(_MAX_GROUND_WAITS):
            if self._asked.answered.wait(_POLL_SECONDS):
                break
        self._screen.theme = replace(
            self._screen.theme, ground=self._asked.ground or self._screen.theme.ground
        )
        self._app.invalidate()

    def _leave(self) -> None:
        with suppress(Exception):  # it has ended
            self._app.exit()

    def _restore(self) -> None:
        """Set the terminal as it was, whatever the input did or did not do."""
        with suppress(termios.error):  # the terminal has gone away
            termios.tcsetattr(self._keys, termios.TCSANOW, self._usual)
        if self._thread.is_alive():
            self._file.write_now(_USUAL_MODES)
        self._file.write_now(self._take_settled())

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if number != signal.SIGINT:
            self.lines.end(Exit.TERMINATED)
        elif self.lines.reading:
            self._post(self.interrupt)
        else:
            self._post(self._unqueue)
            self._count_interrupt()


class _Loan:
    """A time in which others have the terminal."""

    def __init__(self) -> None:
        self.borrowers = 0
        self.taken = threading.Event()
        self.over = threading.Event()
