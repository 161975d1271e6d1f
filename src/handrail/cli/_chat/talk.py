"""The chat loop: the main thread reads the terminal, and an event loop in another runs turns."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from concurrent.futures import wait
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
)
from functools import partial
from typing import Any, Protocol, TypeAlias

import anyio
from anyio import from_thread
from anyio.from_thread import BlockingPortal

from handrail import Call
from handrail.agent import RunResult, RunState
from handrail.cli._base.exits import Exit, Halt
from handrail.cli._chat import setting_commands
from handrail.cli._chat.commands import run_command
from handrail.cli._chat.conversation import Conversation, Step
from handrail.cli._chat.line_commands import add_note, begin_prompt, command_of, note_of, run_line
from handrail.cli._chat.plain import PlainWatcher
from handrail.cli._chat.run_face import draw_time
from handrail.cli._chat.watch import Watcher
from handrail.cli._input.attachments import find_attachments
from handrail.cli._input.lines import NEXT_MODE, Choices, Commands, Files, Tree
from handrail.cli._project.models import join_hints
from handrail.cli._runs.session import Session
from handrail.cli._screen.markdown import Markdown
from handrail.cli._screen.rows import Row, Span, fold, sent_rows
from handrail.cli._screen.rows import safe_line as safe
from handrail.cli._screen.terminal import Screen
from handrail.messages import Content, ModelError, Reply
from handrail.permissions import Answer, Approver, Explanation, Pending
from handrail.tools import AnswerQuestion

_POLL_SECONDS = 0.05
"""Seconds between checks for Ctrl-C or a signal."""


Lend: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]
"""Gives the terminal to an approval request, until a block's end."""


class Person(Protocol):
    """Where the chat gets its messages from."""

    interrupts: int
    """Requests to stop the current turn; the chat sets it back."""
    ended: Exit | None
    """The exit code to end with, once a person or a signal has asked for an end."""
    images: dict[str, bytes]
    """Pasted images, by their names in messages."""
    next_text: str
    """What the next message begins with."""
    on_background: Callable[[], None]
    """Called when a running command is to continue in the background."""
    on_idle: Callable[[], None]
    """Called again and again while the chat waits for a message."""

    def line(self) -> str | Exit:
        """Return the next message, or an exit code if there is none."""
        ...


class ChatInput(Protocol):
    """Reads the terminal during a chat."""

    @property
    def lines(self) -> Person:
        """The messages."""
        ...

    def listen(self) -> AbstractContextManager[None]:
        """Read keys and handle signals until a block's end."""
        ...

    def lend(self) -> AbstractAsyncContextManager[None]:
        """Let others use the terminal until a block's end."""
        ...

    def show_completions(self, commands: Commands, files: Files, tree: Tree) -> None:
        """Set what the input completes."""
        ...

    def show_choices(self, choices: Choices) -> None:
        """Set what commands choose from."""
        ...

    def show_status(self, status: Callable[[int], Row], output: Callable[[], str]) -> None:
        """Set the renderer for the row below the input, by width, and a tool's last output."""
        ...


class ChatApprover:
    """Asks the person at the terminal, while the chat prints nothing else."""

    session: Session
    """Set by the Talk before any call can need approval."""

    def __init__(
        self,
        screen: Screen,
        watcher: Watcher | PlainWatcher,
        asks: Callable[..., Approver],
        *,
        lend: Lend,
        asks_question: AnswerQuestion,
    ) -> None:
        self._screen = screen
        self._lend = lend
        self._watcher = watcher
        self._asks = asks(explain=self._explain, stop=self._stop)
        self._asks_question = asks_question
        self._speaking = anyio.Lock()
        """Held by the one who asks. The others wait."""

    async def ask(self, pending: Pending) -> Answer | Pending:
        """Prompt for approval of one call."""
        async with self._use_terminal():
            return await self._asks(pending)

    async def ask_question(self, question: str, choices: Sequence[str]) -> str | None:
        """Ask the model's question."""
        async with self._use_terminal():
            return await self._asks_question(question, choices)

    @asynccontextmanager
    async def _use_terminal(self) -> AsyncGenerator[None]:
        async with self._speaking:
            self._watcher.pause()
            with self._screen.hold():
                async with self._lend():
                    yield

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
        person: Person,
        screen: Screen,
        watcher: Watcher | PlainWatcher,
        approver: ChatApprover,
    ) -> None:
        self._session = session
        self._portal = portal
        self._person = person
        self._screen = screen
        self._watcher = watcher
        self._approver = approver
        model: str = session.kit.app.settings["model"]
        self.conversation = Conversation(session, screen, watcher, model)
        person.on_background = self._move_to_background
        person.on_idle = watcher.look_at_jobs
        watcher.meter.place = session.kit.describe_place()
        watcher.count = session.state.calls
        watcher.meter.read(session.state, session.model)
        approver.session = session
        session.on_wait = watcher.on_wait

    def status(self, width: int) -> Row:
        """Return what happens and what was used, as a row."""
        self._set_meter()
        return self._watcher.status(width) or self._watcher.meter.row(
            self.conversation.model, width
        )

    def _set_meter(self) -> None:
        """Tell the meter what a command can change."""
        meter = self._watcher.meter
        meter.mode, meter.window = str(self._session.kit.rules.mode), self._session.window
        meter.jobs = len(self._watcher.jobs.running)

    def last_output(self) -> str:
        """Return the last call's whole result, safe to show."""
        last = self._watcher.last_output if isinstance(self._watcher, Watcher) else ""
        return "\n".join([safe(line) for line in last.splitlines()])

    def until_over(self, first: str) -> Exit:
        """Chat until the user or a signal ends it, and return the exit code."""
        if self._session.state.messages:
            self._greet()
        line = first or self._person.line()
        while isinstance(line, str):
            ended = self._take_line(line)
            self._watcher.meter.place = self._session.kit.describe_place()
            line = self._person.line() if ended is None else ended
        return line

    def _greet(self) -> None:
        """Show where a resumed chat was left: its last reply, and whether a turn is unfinished."""
        replies = (
            message
            for message in reversed(self._session.state.messages)
            if isinstance(message, Reply)
        )
        text = Markdown(self._screen.width)
        last = next((reply.text for reply in replies), "")
        self._screen.show(*text.feed(last), *text.end())
        if _is_open(self._session.state):
            self._screen.say("the last turn is unfinished; press Enter to continue it")

    def _take_line(self, line: str) -> Exit | None:
        """Act on a line, and return an exit code if the chat is to end."""
        if line == NEXT_MODE:
            setting_commands.set_next_mode(self.conversation)
            return None
        self._show_sent(line)
        if command := command_of(line):
            return self._work(partial(self._run_typed, command))
        if note := note_of(line):
            for row in add_note(self.conversation, note):
                self._screen.say(safe(str(row)))
            return None
        if run_command(self.conversation, line) or begin_prompt(self.conversation, line):
            return self._after_command()
        if not line.strip() and not _is_open(self._session.state):
            return None
        return self._work(partial(self._run_turn, self._make_prompt(line)))

    def _make_prompt(self, text: str) -> list[str | Content]:
        """Return the content sent for a message: notes, named files, and its text."""
        if not text.strip():
            return []
        workspace = self._session.kit.workspace
        found = list(find_attachments(text, workspace, self._person.images))
        for one in found:
            row = (Span("  "), Span(safe(one.note), "muted"))
            self._screen.show(*fold(row, self._screen.width))
        parts = [one.part for one in found if one.part is not None]
        return [*self.conversation.take_notes(), *parts, text]

    def _show_sent(self, line: str) -> None:
        """Print a message above its input. A terminal shows others itself."""
        if self._screen.frame is not None and line.strip():
            self._screen.show((), *sent_rows(line, self._screen.width))

    def _after_command(self) -> Exit | None:
        """Do what a command has begun, and return an exit code if the conversation is to end."""
        conversation = self.conversation
        if conversation.over:
            return Exit.DONE
        if (step := conversation.take_step()) is not None:
            ended = self._work(partial(self._run_step, step))
            if ended is not None or not (parts := conversation.take_parts()):
                return ended
            return self._work(partial(self._run_turn, [*conversation.take_notes(), *parts]))
        self._person.next_text, conversation.next_text = conversation.next_text, ""
        if prompt := conversation.take_prompt():
            return self._work(partial(self._run_turn, self._make_prompt(prompt)))
        return None

    def _work(self, work: Callable[[], Awaitable[None]]) -> Exit | None:
        """Wait for some work, and let the person interrupt it."""
        person = self._person
        person.interrupts, interrupting = 0, False
        self._session.stopping = False
        turn = self._portal.start_task_soon(work)
        while not wait([turn], _POLL_SECONDS).done:
            if not interrupting and (person.interrupts or person.ended is not None):
                self._portal.start_task_soon(self._interrupt)
                interrupting = True
        turn.result()
        if person.ended is None and person.interrupts > 1:
            return Exit.INTERRUPTED
        return person.ended

    def _move_to_background(self) -> None:
        """Move the model's running command to the background."""
        if self.conversation.scope is None:
            self._portal.start_task_soon(self._session.kit.jobs.move_to_background)

    def _interrupt(self) -> None:
        self._session.interrupt()
        if self.conversation.scope is not None:
            self.conversation.scope.cancel()

    async def _run_typed(self, command: str) -> None:
        """Run a command typed by the user, and show its output."""
        watcher = self._watcher
        watcher.begin()
        rows, said = list[Row](), ""
        async with anyio.create_task_group() as group:
            group.start_soon(draw_time, self._watcher)
            with anyio.CancelScope() as self.conversation.scope:
                try:
                    done = await run_line(self.conversation, command, watcher.show_running)
                    rows, watcher.last_output = done
                except Halt as halt:
                    said = f"{halt}; {halt.hint}"
            if self.conversation.scope.cancelled_caught:
                said = "stopped"
            self.conversation.scope = None
            watcher.end()
            group.cancel_scope.cancel()
        self._screen.show(*rows)
        if said:
            self._screen.say(safe(said), "warn")

    async def _run_turn(self, prompts: Sequence[str | Content]) -> None:
        self._watcher.model = self._session.model
        self._set_meter()
        self._watcher.begin()
        async with anyio.create_task_group() as group:
            group.start_soon(draw_time, self._watcher)
            try:
                notice = _describe_end(await self._finish_turn(prompts))
            except Halt as halt:
                if halt.code != "hook":
                    raise
                notice = safe(str(halt).replace("\n", " "))
            except Exception as error:  # noqa: BLE001  a model can raise anything
                notice = _describe_error(error, "press Enter to retry")
            finally:
                self._watcher.end()
                group.cancel_scope.cancel()
            self._show_status()
            for line in notice.split("\n") if notice else ():
                self._screen.say(line, "warn")

    async def _run_step(self, step: Step) -> None:
        """Run a command's work, and print its rows."""
        try:
            for row in await step():
                self._screen.say(safe(row))
        except Exception as error:  # noqa: BLE001  a model can raise anything
            for line in _describe_error(error, "nothing has changed").split("\n"):
                self._screen.say(line, "warn")

    def _show_status(self) -> None:
        """Print the usage so far, if known and not on the screen anyway."""
        meter = self._watcher.meter
        if meter.is_known and isinstance(self._watcher, PlainWatcher):
            self._screen.say(meter.sentence)
        elif meter.is_known and self._screen.frame is None:
            self._screen.show((), meter.row(self.conversation.model, self._screen.width))

    async def _finish_turn(self, prompts: Sequence[str | Content]) -> RunResult[Any] | None:
        answers = await self._session.answers(self._approver.ask)
        if self._session.stopping:
            return None
        admitted = await self._session.admit(*prompts)
        run = self._session.run(
            *admitted, answers=answers, watch=self._watcher.on_run_event, per_prompt=True
        )
        return await self._session.finish(run)


def _describe_error(error: Exception, then: str) -> str:
    """Return an error as rows: what happened, and what to do."""
    hint = join_hints(error.hint if isinstance(error, ModelError) else "", then)
    unexpected = f"unexpected error: {type(error).__name__}: {error}"
    text = f"model error: {error.reason}" if isinstance(error, ModelError) else unexpected
    return "\n".join([safe(text.replace("\n", " ")), safe(hint)])


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
        return safe(f"no answer: {done.stop_detail}".replace("\n", " "))
    return ""


def _is_open(state: RunState) -> bool:
    """Return whether a turn is unfinished and can be continued."""
    if state.waiting or state.inbox or state.open:
        return True
    last = state.messages[-1] if state.messages else None
    return last is not None and (not isinstance(last, Reply) or last.stop == "other")
