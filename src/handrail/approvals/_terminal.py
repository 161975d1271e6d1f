"""An approver prompting a person at a terminal. The only module importing rich."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, TextIO, TypeVar

from anyio import CancelScope, CapacityLimiter, get_cancelled_exc_class, to_thread

from handrail import Allow, Call, Deny, HandrailError
from handrail._support.systems import find_user
from handrail.approvals._dialogue import RAIL, Dialogue
from handrail.approvals._display import MAX_PROMPT_BYTES, Look, RenderedLine, inline
from handrail.approvals._prompt import render_request, wrap_rows
from handrail.approvals._question import put_in_words, render_question
from handrail.approvals._remember import QUIET_SECONDS, Host, Remembers
from handrail.approvals._tty import NO_PROMPT, Ended, Tty, Unanswerable, Withdrawn, answerable
from handrail.permissions import Answer, Approver, Explanation, Pending

if TYPE_CHECKING:
    from rich.console import Console
    from rich.style import Style
    from rich.text import Text

_T = TypeVar("_T")
_MAX_WAITING = 20
_MIN_COLUMNS = 20
_UNKNOWN_SIZE = 1_000
_LEAVE_SECONDS = 1.0
"""Seconds the reading thread may need to notice a withdrawn request."""


def terminal(  # noqa: PLR0913  each is an option with a default
    *,
    workspace: str | os.PathLike[str] | None = None,
    stdin: TextIO | None = None,
    console: Console | None = None,
    most_waiting: int = _MAX_WAITING,
    remember: Remembers | None = None,
    explain: Callable[[Call], Explanation] | None = None,
    stop: Callable[[], None] | None = None,
    allow_edits: Callable[[], None] | None = None,
    undo: str = "",
    quiet: float = QUIET_SECONDS,
    plain: bool = False,
) -> Approver:
    """Return an approver prompting the person at the terminal, one request at a time.

    It denies a call if no one can answer: without a terminal, in raw mode, if the call is too long
    to show, or if too many requests wait. Requests go to ``console`` (default: stderr).

    Pass the ``workspace`` for shell commands to show the files matching their patterns. Pass
    ``remember`` to offer rules to store, an executor's ``explain`` to show the matching rules, and
    ``stop`` to let the person end the run. ``allow_edits`` switches to a mode without approval for
    file changes. These are called from a worker thread. ``undo`` is how a person can undo a change,
    such as ``/undo``.

    Keys work immediately, without Enter, ``quiet`` seconds after the request. Text typed for
    something else is not a key: letters in a row, and pasted text, answer nothing. On a terminal
    unable to draw a row again (``TERM=dumb``), or if ``HANDRAIL_PLAIN`` is set, they need Enter.
    With ``plain``, too, and the request has words in place of signs and a rail: for screen readers
    and logs.
    """
    screen = _ConsoleScreen(console if console is not None else _stderr(), plain=plain)
    host = Host(
        workspace=workspace,
        remember=remember,
        explain=explain,
        stop=stop,
        allow_edits=allow_edits,
        undo=undo,
        quiet=quiet,
        by=find_user(),
    )
    return _Asker(screen, stdin, most_waiting, host).ask


def ask_at_terminal(
    *, stdin: TextIO | None = None, console: Console | None = None, plain: bool = False
) -> Callable[[str, Sequence[str]], Awaitable[str | None]]:
    """Return a function for ``ask_user``, asking the person at the terminal.

    It shows the question and its choices with numbers. It returns the choice or the text typed by
    the person: None for an empty line, and if no one can answer. ``terminal`` has the same
    arguments.
    """
    screen = _ConsoleScreen(console if console is not None else _stderr(), plain=plain)
    return _Asker(screen, stdin, _MAX_WAITING, Host()).ask_question


def _stderr() -> Console:
    if sys.platform == "win32":
        raise HandrailError(
            "The terminal approver needs Linux or macOS. On Windows, use `callback` or the console."
        )
    try:
        from rich.console import Console  # an extra, loaded when it is needed
    except ImportError:
        raise HandrailError(
            "The terminal approver needs rich: pip install 'handrail[terminal]'"
        ) from None
    return Console(stderr=True)


class _ConsoleScreen:
    """A console printing text unchanged: no markup, no emoji names, no added line breaks."""

    def __init__(self, console: Console, *, plain: bool = False) -> None:
        self._console = console
        self._plain = plain
        self._drawn = 0
        """The rows to draw again."""

    @property
    def has_keys(self) -> bool:
        is_dumb = self._console.is_dumb_terminal or os.environ.get("HANDRAIL_PLAIN")
        return not (is_dumb or self._plain)

    @property
    def is_seen(self) -> bool:
        return self._console.is_terminal

    @property
    def width(self) -> int:
        return max(min(self._console.width, self._real.columns) - 1, _MIN_COLUMNS)

    @property
    def height(self) -> int:
        return min(self._console.height, self._real.lines)

    @property
    def _real(self) -> os.terminal_size:
        """The terminal's real size, which may differ from the environment variables."""
        try:
            columns, lines = os.get_terminal_size(self._console.file.fileno())
        except (OSError, ValueError):  # not a file, or not a terminal
            columns, lines = 0, 0
        return os.terminal_size((columns or _UNKNOWN_SIZE, lines or _UNKNOWN_SIZE))

    def show(self, lines: Iterable[RenderedLine]) -> None:
        """Print lines. The background of changed rows is as wide as the longest."""
        for is_filled, rows in groupby(lines, self._has_ground):
            block = [self._text(line) for line in rows]
            longest = max(text.cell_len for text in block)
            for text in block:
                if is_filled:
                    text.pad_right(longest - text.cell_len)
                self._print(text, "\n")

    def _has_ground(self, line: RenderedLine) -> bool:
        is_changed = line.look in {"added", "removed"}
        return is_changed and self._style(line.look).bgcolor is not None

    def ask(self, line: RenderedLine) -> None:
        self._print(self._text(line), "")

    def draw(self, lines: Sequence[RenderedLine], *, ends: bool = False) -> None:
        if self._drawn:
            up = f"\x1b[{self._drawn - 1}A" if self._drawn > 1 else ""
            self._console.file.write(f"\r{up}\x1b[J")
        for line in lines[:-1]:
            self._print(self._text(line), "\n")
        self._print(self._text(lines[-1]), "\n" if ends else "")
        self._drawn = 0 if ends else len(lines)

    def _text(self, line: RenderedLine) -> Text:
        from rich.text import Text  # an extra, loaded when it is needed

        line = put_in_words(line) if self._plain else line
        text = Text(line.text, style=self._style(line.look), end="")
        for start, stop, look in line.spans:
            text.stylize(self._style(look), start, stop)
        return text

    def _print(self, text: Text, end: str) -> None:
        try:
            self._console.print(
                text, end=end, markup=False, highlight=False, emoji=False, soft_wrap=True
            )
        except OSError:  # the terminal is gone
            raise Unanswerable(_UNSEEN) from None

    def _style(self, look: Look) -> Style:
        """Return a style from the console's theme, or one for every background."""
        return self._console.get_style(f"handrail.{look}", default=_STYLES[look])


_STYLES: dict[Look, str] = {
    "plain": "",
    "title": "bold",
    "muted": "dim not bold",
    "added": "green",
    "removed": "red",
    "ask": "not dim bold magenta",
    "warning": "not dim bold yellow",
    "bad": "not dim bold red",
    "picked": "bold reverse",
    "changed": "bold underline",
}
"""Styles legible on light and dark backgrounds: colored text also has a sign or a word.

A console's theme can have others, such as ``handrail.added``.
"""


class _Asker:
    """Prompts for one request after the other, in arrival order, each in a thread."""

    def __init__(
        self, screen: _ConsoleScreen, stdin: TextIO | None, most_waiting: int, host: Host
    ) -> None:
        self._screen = screen
        self._stdin = stdin
        self._most_waiting = most_waiting
        self._host = host
        self._turns: list[threading.Event] = []
        self._moved = threading.Condition()
        self._speaks = threading.Lock()
        """Held by the thread using the terminal. A withdrawn one needs a moment to leave."""

    async def ask(self, pending: Pending) -> Answer | Pending:
        """Prompt for an answer, after the requests before this one."""
        if not self._screen.is_seen:
            return Deny(_UNSEEN)
        try:
            answer = await self._in_turn(partial(self._answer, pending))
        except Unanswerable as why:
            return Deny(str(why))
        return pending if answer is None else answer

    async def ask_question(self, question: str, choices: Sequence[str]) -> str | None:
        """Ask a model's question, after the requests before it."""
        if not self._screen.is_seen:
            return None
        try:
            return await self._in_turn(partial(self._answer_question, question, choices))
        except (Unanswerable, Ended):
            return None

    async def _in_turn(self, answer: Callable[[Tty], _T]) -> _T | None:
        """Return what a function reads in a thread, when it has the terminal for itself."""
        withdrawn, left = threading.Event(), threading.Event()
        with self._moved:
            if len(self._turns) > self._most_waiting:
                raise Unanswerable(_TOO_MANY)
            self._turns.append(withdrawn)
        try:
            answerable(self._fd())
            asking = partial(self._wait_and_ask, answer, withdrawn, left)
            return await to_thread.run_sync(
                asking, abandon_on_cancel=True, limiter=CapacityLimiter(1)
            )
        except get_cancelled_exc_class():
            self._withdraw(withdrawn)
            with CancelScope(shield=True):  # let the thread print that it was withdrawn
                await to_thread.run_sync(left.wait, _LEAVE_SECONDS, limiter=CapacityLimiter(1))
            raise
        finally:
            self._withdraw(withdrawn)

    def _withdraw(self, withdrawn: threading.Event) -> None:
        with self._moved:
            if not withdrawn.is_set():
                withdrawn.set()
                self._turns.remove(withdrawn)
                self._moved.notify_all()

    def _fd(self) -> int | None:
        stdin = self._stdin if self._stdin is not None else sys.stdin
        try:
            return stdin.fileno()
        except (AttributeError, OSError, ValueError):  # missing, closed, or not a file
            return None

    def _wait_and_ask(
        self, answer: Callable[[Tty], _T], withdrawn: threading.Event, left: threading.Event
    ) -> _T | None:
        with self._moved:
            self._moved.wait_for(lambda: withdrawn.is_set() or self._turns[0] is withdrawn)
        with self._speaks:
            try:
                if withdrawn.is_set():
                    return None
                return answer(Tty(answerable(self._fd()), withdrawn.is_set))
            except Withdrawn:
                self._screen.show(
                    [RenderedLine(""), RenderedLine("The request was withdrawn.", "warning")]
                )
                return None
            finally:
                left.set()

    def _answer_question(self, question: str, choices: Sequence[str], tty: Tty) -> str | None:
        """Return what the person chooses or types; None if that is nothing."""
        rows = [
            RenderedLine(inline(line, prose=True), "title")
            for line in question.strip().splitlines()
        ]
        rows += [RenderedLine("")] * bool(choices)
        for number, choice in enumerate(choices, 1):
            rows.append(RenderedLine(f"  {number}  {inline(choice, prose=True)}"))
        rows += [RenderedLine("")] * bool(choices)
        width = self._screen.width - len(RAIL)
        self._screen.show([RenderedLine(""), *map(_put_behind_rail, wrap_rows(rows, width))])
        tty.drain()
        self._screen.ask(_put_behind_rail(RenderedLine(_NUMBER if choices else _WORDS)))
        said = tty.line().strip()
        named = {str(number): choice for number, choice in enumerate(choices, 1)}
        return named.get(said, said) or None

    def _answer(self, pending: Pending, tty: Tty) -> Answer | Pending:
        host = self._host
        width = self._screen.width - len(RAIL)
        request = render_request(pending, workspace=host.workspace, width=width)
        if request.view.too_long:
            reason = f"Denied: the call has {request.view.size} bytes, too many to show."
            self._screen.show([RenderedLine(reason, "warning")])
            return Deny(_TOO_LONG.format(request.view.size))
        if count := host.rest.count(pending):
            what = pending.headline or f"{pending.call.name} {pending.call.args}"
            said = f"Allowed with the rest of the program, as call {count}: {what}"
            self._screen.show([RenderedLine(inline(said), "muted")])
            return Allow(by=host.by, via="terminal")
        question = render_question(
            request.view, workspace=host.workspace, width=width, undo=host.undo
        )
        return Dialogue(request, question, tty, screen=self._screen, host=host).answer()


def _put_behind_rail(line: RenderedLine) -> RenderedLine:
    text = RAIL + line.text if line.text else RAIL.rstrip()
    return replace(line, text=text, spans=((0, 1, "ask"),))


_NUMBER = "A number or your own answer (Enter: none): "
_WORDS = "Your answer (Enter: none): "
_UNSEEN = NO_PROMPT.format("the request cannot be shown on a terminal")
_TOO_MANY = (
    "Not run: too many calls are waiting for the user's approval. Send fewer such calls at a time."
)
_TOO_LONG = (
    "Not run: the call has {} bytes, too many to show to the user for approval (at most "
    f"{MAX_PROMPT_BYTES}). Split it into smaller calls."
)
