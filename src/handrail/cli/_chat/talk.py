"""The chat loop: the main thread reads the terminal, and an event loop in another runs turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import wait
from typing import Any

import anyio
from anyio import from_thread
from anyio.from_thread import BlockingPortal

from handrail import Call
from handrail.agent import RunResult, RunState
from handrail.approvals import RenderedLine
from handrail.cli._base.exits import Exit, Halt
from handrail.cli._chat.commands import ChatCommands
from handrail.cli._chat.input import Keyboard
from handrail.cli._chat.screen import ChatScreen
from handrail.cli._chat.text import StreamedText, safe
from handrail.cli._chat.watch import Watcher
from handrail.cli._project.models import join_hints
from handrail.cli._runs.session import Session
from handrail.messages import ModelError, Reply
from handrail.permissions import Answer, Approver, Explanation, Pending

_POLL_SECONDS = 0.05
"""Seconds between checks for Ctrl-C or a signal."""
_TICK = 0.25


class ChatApprover:
    """Prompts for approval at the terminal, while the chat prints nothing else."""

    session: Session
    """Set by the Talk before any call can need approval."""

    def __init__(self, screen: ChatScreen, watcher: Watcher, asks: Callable[..., Approver]) -> None:
        self._screen = screen
        self._watcher = watcher
        self._asks = asks(explain=self._explain, stop=self._stop)

    async def ask(self, pending: Pending) -> Answer | Pending:
        """Prompt for approval of one call."""
        self._watcher.pause()
        with self._screen.hold():
            return await self._asks(pending)

    def _explain(self, call: Call) -> Explanation:
        return self.session.executor.explain(call)

    def _stop(self) -> None:
        from_thread.run_sync(self.session.interrupt)


class Talk:
    """A chat: reads a line, runs a turn, and repeats."""

    def __init__(
        self,
        session: Session,
        portal: BlockingPortal,
        *,
        keyboard: Keyboard,
        screen: ChatScreen,
        watcher: Watcher,
        approver: ChatApprover,
    ) -> None:
        self._session = session
        self._portal = portal
        self._keyboard = keyboard
        self._screen = screen
        self._watcher = watcher
        self._approver = approver
        self.commands = ChatCommands(session, screen, session.kit.app.settings["model"])
        approver.session = session

    def until_over(self, first: str) -> Exit:
        """Chat until the user or a signal ends it, and return the exit code."""
        if self._session.state.messages:
            self._greet()
        line = first or self._keyboard.line()
        while isinstance(line, str):
            ended = self._take_line(line)
            line = self._keyboard.line() if ended is None else ended
        return line

    def _greet(self) -> None:
        """Show where a resumed chat was left: its last reply, and whether a turn is unfinished."""
        replies = (
            message
            for message in reversed(self._session.state.messages)
            if isinstance(message, Reply)
        )
        text = StreamedText(self._screen.width)
        last = next((reply.text for reply in replies), "")
        self._screen.write(text.feed(last) + text.end())
        if _is_open(self._session.state):
            self._screen.say("the last turn is unfinished; press Enter to continue it")

    def _take_line(self, line: str) -> Exit | None:
        """Act on a line, and return an exit code if the chat is to end."""
        if self.commands.run(line):
            return Exit.DONE if self.commands.over else None
        if not line.strip() and not _is_open(self._session.state):
            return None
        prompts = [*self.commands.take_notes(), line] if line.strip() else []
        return self._turn(prompts)

    def _turn(self, prompts: Sequence[str]) -> Exit | None:
        keyboard = self._keyboard
        keyboard.interrupts, interrupting = 0, False
        self._session.stopping = False
        turn = self._portal.start_task_soon(self._run_turn, prompts)
        while not wait([turn], _POLL_SECONDS).done:
            if not interrupting and (keyboard.interrupts or keyboard.ended is not None):
                self._portal.start_task_soon(self._session.interrupt)
                interrupting = True
        turn.result()
        if keyboard.ended is None and keyboard.interrupts > 1:
            return Exit.INTERRUPTED
        return keyboard.ended

    async def _run_turn(self, prompts: Sequence[str]) -> None:
        self._watcher.begin()
        async with anyio.create_task_group() as group:
            group.start_soon(self._tick)
            try:
                notice = _describe_end(await self._finish_turn(prompts))
            except Halt:
                raise
            except Exception as error:  # noqa: BLE001  a model can raise anything
                hint = error.hint if isinstance(error, ModelError) else ""
                retry = join_hints(hint, "press Enter to retry")
                notice = f"{_describe_error(error)}\n{safe(retry)}"
            finally:
                self._watcher.end()
                group.cancel_scope.cancel()
            for line in notice.split("\n") if notice else ():
                self._screen.show(RenderedLine(line, "warning"))

    async def _tick(self) -> None:
        while True:
            self._watcher.tick()
            await anyio.sleep(_TICK)

    async def _finish_turn(self, prompts: Sequence[str]) -> RunResult[Any] | None:
        answers = await self._session.answers(self._approver.ask)
        if self._session.stopping:
            return None
        run = self._session.run(
            *prompts, answers=answers, watch=self._watcher.on_run_event, per_prompt=True
        )
        return await self._session.finish(run)


def _describe_error(error: Exception) -> str:
    """Return an error as one row."""
    unexpected = f"unexpected error: {type(error).__name__}: {error}"
    text = f"model error: {error.reason}" if isinstance(error, ModelError) else unexpected
    return safe(text).replace("\n", " ")


def _describe_end(done: RunResult[Any] | None) -> str:
    """Return a notice about how a turn ended, or an empty string if it ended with an answer."""
    if done is None or done.stop_reason in {"interrupted", "stopped"}:
        return "stopped; press Enter to continue, or type a new message"
    if done.stop_reason == "pending":
        count = len(done.state.pending)
        waiting = "1 call is" if count == 1 else f"{count} calls are"
        return f"{waiting} waiting for approval; press Enter to answer"
    if done.stop_reason == "limit":
        return f"reached the limit on {done.limit} for one prompt; press Enter to continue"
    if done.stop_reason != "answer":
        return safe(f"no answer: {done.stop_detail}").replace("\n", " ")
    return ""


def _is_open(state: RunState) -> bool:
    """Return whether a turn is unfinished and can be continued."""
    if state.waiting or state.inbox or state.open:
        return True
    last = state.messages[-1] if state.messages else None
    return last is not None and (not isinstance(last, Reply) or last.stop == "other")
