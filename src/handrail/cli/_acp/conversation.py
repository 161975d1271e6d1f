"""One conversation in an editor: an open saved run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from acp import RequestError
from acp.helpers import update_current_mode
from acp.schema import StopReason
from anyio.abc import TaskGroup, TaskStatus

from handrail.agent import RunEvent, RunResult
from handrail.cli._acp.questions import AskPermission, EditorApprover
from handrail.cli._acp.updates import SendUpdate, Updates
from handrail.cli._base.exits import Halt
from handrail.cli._chat.changes import CallChanges
from handrail.cli._project.kit import Kit
from handrail.cli._project.models import describe_retry
from handrail.cli._runs.saved import SavedRun
from handrail.cli._runs.session import Session, open_session
from handrail.messages import Content, Model, ModelError
from handrail.models import RetryWait

_STOPS: dict[str, StopReason] = {
    "answer": "end_turn",
    "interrupted": "cancelled",
    "limit": "max_turn_requests",
    "pending": "end_turn",
    "refused": "refusal",
    "truncated": "max_tokens",
}


_GRACE_SECONDS = 5.0
"""Seconds for a turn to end in, when the conversation is closed."""


@dataclass
class _PromptTurn:
    """One prompt, and how it ended."""

    ended: anyio.Event = field(default_factory=anyio.Event)
    stop: StopReason = "end_turn"
    error: RequestError | None = None


class Conversation:
    """A saved run, held by this process until the editor closes it or leaves."""

    session: Session
    _group: TaskGroup

    def __init__(
        self, kit: Kit, model: Model, saved: SavedRun, *, send: SendUpdate, ask: AskPermission
    ) -> None:
        self.kit = kit
        self._model = model
        self.saved = saved
        root = Path(kit.workspace.root)
        self.updates = Updates(send, root, CallChanges(kit.workspace))
        self._approver = EditorApprover(ask, kit, self.updates)
        self._closing = anyio.Event()
        self._closed = anyio.Event()
        self._turn: _PromptTurn | None = None
        self._mode = str(kit.rules.mode)
        """The mode the editor shows."""

    async def hold_open(self, *, task_status: TaskStatus[None]) -> None:
        """Hold the run until ``close``."""
        try:
            with self.saved.hold():
                async with open_session(
                    self.kit,
                    self.saved,
                    self._model,
                    approver=self._approver,
                    ask=self._approver.ask_question,
                    on_event=self.updates.on_event,
                ) as self.session:
                    self.session.hooks.say = self.updates.say
                    self.session.on_wait = self._say_wait
                    self.updates.window = self.session.window
                    async with anyio.create_task_group() as self._group:
                        self._group.start_soon(self.updates.send_all)
                        task_status.started()
                        await self._closing.wait()
                        await self._end_turn()
                        self._group.cancel_scope.cancel()
                state = self.saved.state()
                if not state.messages and not state.inbox:
                    self.saved.remove()
        finally:
            self._closed.set()

    def tell_mode(self) -> None:
        """Tell the editor if the mode has changed: by the editor, an answer, or a plan."""
        if self._mode != str(self.kit.rules.mode):
            self._mode = str(self.kit.rules.mode)
            self.updates.put(update_current_mode(self._mode))

    def _watch(self, event: RunEvent) -> None:
        self.updates.on_run_event(event)
        self.tell_mode()

    def _say_wait(self, wait: RetryWait) -> None:
        self.updates.say(f"The model: {describe_retry(wait, wait.seconds)}.")

    async def _end_turn(self) -> None:
        """Let the present turn end: with its requests open, or else interrupted."""
        for stop in (self._approver.leave, self.session.interrupt):
            if self._turn is not None:
                stop()
                with anyio.move_on_after(_GRACE_SECONDS):
                    await self._turn.ended.wait()

    async def close(self) -> None:
        """Stop what runs, and release the run."""
        self._closing.set()
        await self._closed.wait()

    def show_history(self) -> None:
        """Send what was said so far to the editor."""
        self.updates.show_history(self.session.state.messages)

    def cancel(self) -> None:
        """Stop the present turn. A call waiting for approval does not run."""
        if self._turn is not None:
            self.session.interrupt()

    async def prompt(self, content: Sequence[Content]) -> StopReason:
        """Run one turn, and return why it ended.

        The turn ends by itself if the editor no longer waits for it.
        """
        if self._turn is not None:
            raise RequestError.invalid_request({"details": "A turn is running. Cancel it first."})
        self._turn = turn = _PromptTurn()
        self._group.start_soon(self._run_turn, turn, content)
        await turn.ended.wait()
        if turn.error is not None:
            raise turn.error
        return turn.stop

    async def _run_turn(self, turn: _PromptTurn, content: Sequence[Content]) -> None:
        try:
            turn.stop = await self._run(content)
        except ModelError as error:
            details = {"details": error.reason, "hint": error.hint, "kind": error.kind}
            turn.error = RequestError(-32603, str(error), details)
        except Halt as halt:
            turn.error = as_request_error(halt)
        except Exception as error:  # noqa: BLE001  a model can raise anything
            turn.error = RequestError(-32603, f"{type(error).__name__}: {error}")
        await self.updates.flush()
        self._turn = None
        turn.ended.set()

    async def _run(self, content: Sequence[Content]) -> StopReason:
        session = self.session
        session.stopping = False
        answers = await session.answers(self._approver)
        if session.stopping:
            return "cancelled"
        prompt = await session.admit(*content)
        run = session.run(*prompt, answers=answers, watch=self._watch, per_prompt=True)
        done = await session.finish(run)
        if notice := _describe_end(done):
            self.updates.say(notice)
        return "max_tokens" if done.limit == "tokens" else _STOPS.get(done.stop_reason, "end_turn")


def _describe_end(done: RunResult[object]) -> str:
    """Return the note about a turn's end, or "" after an answer."""
    if done.stop_reason == "pending":
        count = len(done.state.pending)
        waiting = "1 call waits" if count == 1 else f"{count} calls wait"
        return f"{waiting} for approval. Send a message to be asked again."
    if done.stop_reason == "limit":
        return f"This turn has reached the limit on {done.limit}. Send a message to continue."
    if done.stop_reason in {"answer", "interrupted", "stopped"}:
        return ""
    return f"There is no answer: {done.stop_detail}"


def as_request_error(halt: Halt) -> RequestError:
    """Return a command's end as a protocol error."""
    return RequestError(-32603, str(halt), {"code": halt.code, "hint": halt.hint})
