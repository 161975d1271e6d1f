"""One turn after the other: the main thread has the terminal, a loop of its own has the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import wait
from typing import Any

import anyio
from anyio import from_thread
from anyio.from_thread import BlockingPortal

from handrail import Call
from handrail.agent import Done, State
from handrail.approvals import Line
from handrail.cli._chat_commands import Commands
from handrail.cli._chat_input import Keyboard
from handrail.cli._chat_screen import Screen
from handrail.cli._chat_watch import Watcher
from handrail.cli._chat_words import Words, safe
from handrail.cli._exits import Exit, Halt
from handrail.cli._session import Session
from handrail.judgement import Answer, Approver, Explanation, Pending
from handrail.messages import ModelFailed, Reply

_LOOK = 0.05
"""Seconds between looks at whether somebody wants an end."""
_TICK = 0.25
_LIMIT = "Stopped at a limit of one prompt, such as max_turns. Enter goes on."


class Desk:
    """What the approver of a chat needs, some of which is there only later."""

    def __init__(self, screen: Screen, watcher: Watcher, asks: Callable[..., Approver]) -> None:
        self._screen = screen
        self._watcher = watcher
        self._asks = asks(explain=self._explain, stop=self._stop)
        self.session: Session | None = None

    async def ask(self, pending: Pending) -> Answer | Pending:
        """Ask the person, while nothing else is printed."""
        self._watcher.pause()
        with self._screen.held():
            return await self._asks(pending)

    def _explain(self, call: Call) -> Explanation:
        assert self.session is not None  # noqa: S101  nobody asks before it is open
        return self.session.executor.explain(call)

    def _stop(self) -> None:
        assert self.session is not None  # noqa: S101  nobody asks before it is open
        from_thread.run_sync(self.session.interrupt)


class Talk:
    """A chat, from one line of the person's to the next."""

    def __init__(
        self,
        session: Session,
        portal: BlockingPortal,
        *,
        keyboard: Keyboard,
        screen: Screen,
        watcher: Watcher,
        desk: Desk,
    ) -> None:
        self._session = session
        self._portal = portal
        self._keyboard = keyboard
        self._screen = screen
        self._watcher = watcher
        self._desk = desk
        self.commands = Commands(session, screen, session.kit.app.settings["model"])
        desk.session = session

    def until_over(self, first: str) -> Exit:
        """Talk until somebody wants an end; how to end."""
        if self._session.state.messages:
            self._greet()
        line = first or self._keyboard.line()
        while isinstance(line, str):
            ended = self._said(line)
            line = self._keyboard.line() if ended is None else ended
        return line

    def _greet(self) -> None:
        """Where a chat that is gone on with stands."""
        said = (one for one in reversed(self._session.state.messages) if isinstance(one, Reply))
        words = Words(self._screen.width)
        last = next((one.text for one in said), "")
        self._screen.write(words.feed(last) + words.end())
        if _is_open(self._session.state):
            self._screen.say("It was stopped in the middle: Enter goes on with it.")

    def _said(self, line: str) -> Exit | None:
        """Do what a line wants; how to end, if that is to follow."""
        if self.commands.take(line):
            return Exit.DONE if self.commands.over else None
        if not line.strip() and not _is_open(self._session.state):
            return None
        words = [*self.commands.news(), line] if line.strip() else []
        return self._turn(words)

    def _turn(self, words: Sequence[str]) -> Exit | None:
        keyboard = self._keyboard
        keyboard.interrupts, told = 0, False
        self._session.stopping = False
        turn = self._portal.start_task_soon(self._go_on, words)
        while not wait([turn], _LOOK).done:
            if not told and (keyboard.interrupts or keyboard.ended is not None):
                self._portal.start_task_soon(self._session.interrupt)
                told = True
        turn.result()
        if keyboard.ended is None and keyboard.interrupts > 1:
            return Exit.INTERRUPTED
        return keyboard.ended

    async def _go_on(self, words: Sequence[str]) -> None:
        self._watcher.begin()
        async with anyio.create_task_group() as group:
            group.start_soon(self._tick)
            try:
                said = _told(await self._finished(words))
            except Halt:
                raise
            except Exception as error:  # noqa: BLE001  of a model, which anybody may have written
                said = f"{_words(error)}\nEnter tries again."
            finally:
                self._watcher.end()
                group.cancel_scope.cancel()
            for line in said.split("\n") if said else ():
                self._screen.show(Line(line, "warning"))

    async def _tick(self) -> None:
        while True:
            self._watcher.tick()
            await anyio.sleep(_TICK)

    async def _finished(self, words: Sequence[str]) -> Done[Any] | None:
        answers = await self._session.answers(self._desk.ask)
        if self._session.stopping:
            return None
        run = self._session.run(*words, answers=answers, watch=self._watcher.happening, anew=True)
        return await self._session.finish(run)


def _words(error: Exception) -> str:
    """What went wrong, on one row."""
    other = f"This failed: {type(error).__name__}"
    what = "The model failed" if isinstance(error, ModelFailed) else other
    return safe(f"{what}: {error}").replace("\n", " ")


def _told(done: Done[Any] | None) -> str:
    """What to say of how a turn ended."""
    if done is None or done.stop == "interrupted":
        return "Stopped. Enter goes on with it; or say something else."
    if done.stop == "pending":
        count = len(done.state.pending)
        waits = "call waits" if count == 1 else "calls wait"
        return f"{count} {waits} for an answer: Enter asks again."
    return _LIMIT if done.stop == "limit" else ""


def _is_open(state: State) -> bool:
    """Whether there is something to go on with."""
    if state.waiting or state.inbox or state.open:
        return True
    last = state.messages[-1] if state.messages else None
    return last is not None and (not isinstance(last, Reply) or last.stop == "other")
