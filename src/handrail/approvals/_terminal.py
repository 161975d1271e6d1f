"""An approver that asks a person at a terminal. The only module that knows rich."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TextIO

from anyio import CancelScope, CapacityLimiter, get_cancelled_exc_class, to_thread

from handrail import Call, Deny, HandrailError
from handrail.approvals._dialogue import Dialogue, Host
from handrail.approvals._display import LONGEST
from handrail.approvals._files import Read
from handrail.approvals._prompt import Line, Look, prompt
from handrail.approvals._remember import Remembers
from handrail.approvals._tty import Tty, Unanswerable, Withdrawn, answerable
from handrail.judgement import Answer, Approver, Explanation, Pending

if TYPE_CHECKING:
    from rich.console import Console

MOST_WAITING = 20
_NARROWEST = 20
_UNKNOWN_SIZE = 1_000
_A_MOMENT = 1.0
"""Seconds for which whoever reads an answer may need to see that it is wanted no more."""


def terminal(  # noqa: PLR0913  each is an option with a default
    *,
    read: Read | None = None,
    workspace: str | os.PathLike[str] | None = None,
    stdin: TextIO | None = None,
    console: Console | None = None,
    most_waiting: int = MOST_WAITING,
    remember: Remembers | None = None,
    explain: Callable[[Call], Explanation] | None = None,
    stop: Callable[[], None] | None = None,
) -> Approver:
    """An approver that asks whoever sits at the terminal, one question at a time.

    It answers no by itself where nobody can answer: without a terminal, in raw mode, for a call
    that is too long to judge, and when too many questions wait. ``read`` gives the text of a file
    as it is now, so that a change is shown as a diff; ``workspace`` is where shell commands run,
    so that their patterns are shown as names; ``remember`` offers rules to store; ``explain``, an
    executor's, tells which rules speak of a call; ``stop`` ends the run, if that is what a person
    wants. All of them are called from a worker thread. Questions go to ``console``, which is stderr
    if not given.
    """
    screen = _Screen(console if console is not None else _stderr())
    host = Host(read=read, workspace=workspace, remember=remember, explain=explain, stop=stop)
    return _Asker(screen, stdin, most_waiting, host).ask


def _stderr() -> Console:
    try:
        from rich.console import Console  # noqa: PLC0415  an extra, loaded when it is needed
    except ImportError:
        raise HandrailError(
            "a terminal approver needs rich: pip install 'handrail[terminal]'"
        ) from None
    return Console(stderr=True)


class _Screen:
    """A console that prints text as it is: no markup, no emoji names, no line breaks of its own."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @property
    def is_seen(self) -> bool:
        return self._console.is_terminal

    @property
    def width(self) -> int:
        return max(min(self._console.width, self._real.columns) - 1, _NARROWEST)

    @property
    def height(self) -> int:
        return min(self._console.height, self._real.lines)

    @property
    def _real(self) -> os.terminal_size:
        """The size where lines break, which a variable of the environment may have wrong."""
        try:
            columns, lines = os.get_terminal_size(self._console.file.fileno())
        except (OSError, ValueError):  # no file, or no terminal
            columns, lines = 0, 0
        return os.terminal_size((columns or _UNKNOWN_SIZE, lines or _UNKNOWN_SIZE))

    def show(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self._print(line, "\n")

    def ask(self, words: str) -> None:
        self._print(Line(words), "")

    def _print(self, line: Line, end: str) -> None:
        from rich.text import Text  # noqa: PLC0415  an extra, loaded when it is needed

        text = Text(line.text, style=_STYLES[line.look], end="")
        try:
            self._console.print(
                text, end=end, markup=False, highlight=False, emoji=False, soft_wrap=True
            )
        except OSError:  # the terminal is gone, and with it whoever would have read this
            raise Unanswerable(_UNSEEN) from None


_STYLES: dict[Look, str] = {
    "plain": "",
    "title": "bold",
    "added": "green",
    "removed": "red",
    "warning": "bold yellow",
}


class _Asker:
    """Questions in a line, in the order in which they came; each in a thread of its own."""

    def __init__(
        self, screen: _Screen, stdin: TextIO | None, most_waiting: int, host: Host
    ) -> None:
        self._screen = screen
        self._stdin = stdin
        self._most_waiting = most_waiting
        self._host = host
        self._turns: list[threading.Event] = []
        self._moved = threading.Condition()
        self._speaks = threading.Lock()
        """Held by whoever uses the terminal; one that was withdrawn may need a moment to leave."""

    async def ask(self, pending: Pending) -> Answer | Pending:
        """Ask, once those before it have their answers."""
        if not self._screen.is_seen:
            return Deny(_UNSEEN)
        withdrawn, left = threading.Event(), threading.Event()
        with self._moved:
            if len(self._turns) > self._most_waiting:
                return Deny(_TOO_MANY)
            self._turns.append(withdrawn)
        try:
            answerable(self._fd())
            asked = partial(self._asked, pending, withdrawn, left)
            return await to_thread.run_sync(
                asked, abandon_on_cancel=True, limiter=CapacityLimiter(1)
            )
        except Unanswerable as why:
            return Deny(str(why))
        except get_cancelled_exc_class():
            self._withdraw(withdrawn)
            with CancelScope(shield=True):  # the last word about it is said before all else
                await to_thread.run_sync(left.wait, _A_MOMENT, limiter=CapacityLimiter(1))
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
        except (AttributeError, OSError, ValueError):  # none, closed, or no file at all
            return None

    def _asked(
        self, pending: Pending, withdrawn: threading.Event, left: threading.Event
    ) -> Answer | Pending:
        with self._moved:
            self._moved.wait_for(lambda: withdrawn.is_set() or self._turns[0] is withdrawn)
        with self._speaks:
            try:
                return self._answer(pending, withdrawn)
            except Withdrawn:
                self._screen.show([Line(""), Line("The question was withdrawn.", "warning")])
                return pending
            finally:
                left.set()

    def _answer(self, pending: Pending, withdrawn: threading.Event) -> Answer | Pending:
        if withdrawn.is_set():
            return pending
        tty, host = Tty(answerable(self._fd()), withdrawn.is_set), self._host
        asked = prompt(pending, read=host.read, workspace=host.workspace, width=self._screen.width)
        if asked.too_long:
            self._screen.show([Line(f"Denied: {asked.size} bytes are too many.", "warning")])
            return Deny(_TOO_LONG.format(asked.size))
        return Dialogue(pending, asked, tty, screen=self._screen, host=host).answer()


_UNSEEN = (
    "Nobody could be asked, since the question cannot be shown on a terminal, and so nothing was "
    "run. Go on without this call, or tell the user what you wanted to do."
)
_TOO_MANY = (
    "Too many questions are waiting for an answer, and so nothing was run. Send fewer calls at a "
    "time that need one."
)
_TOO_LONG = (
    f"The call is too long to be shown to the person who must allow it: {{}} bytes, and {LONGEST} "
    "are the most. Nothing was run. Send it in smaller pieces."
)
