"""Send an editor a run's events, in order."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import anyio
from acp import (
    image_block,
    start_tool_call,
    update_agent_message_text,
    update_agent_thought_text,
    update_tool_call,
    update_user_message,
    update_user_message_text,
)
from acp.schema import UsageUpdate

from handrail import Access, Call, FailureKind, Image, Result, Text
from handrail.agent import InnerEvent, RunEvent
from handrail.cli._acp.prompts import encode
from handrail.cli._acp.tool_calls import (
    find_kind,
    list_locations,
    read_output,
    read_plan,
    show_change,
    show_output,
    write_title,
)
from handrail.cli._chat.calls import read_args
from handrail.cli._chat.changes import CallChanges
from handrail.events import Decided, Event, Finished, Progressed, Requested, Started, Yielded
from handrail.messages import Delta, Message, Prompt, Reasoning, Reply, Restart, ToolResults

SendUpdate: TypeAlias = Callable[[Any], Awaitable[None]]
"""Sends one update to the editor."""
_OUTPUT_SECONDS = 0.25
"""Seconds between two output updates for one call."""


class Updates:
    """Sends what happens in one conversation to the editor."""

    def __init__(self, send: SendUpdate, root: Path, changes: CallChanges) -> None:
        self._send_update = send
        self._root = root
        self._changes = changes
        self._queue, self._updates = anyio.create_memory_object_stream[Any](math.inf)
        self.turns = 0
        """Replies so far."""
        self.window: int | None = None
        """The model's context size in tokens, if known."""
        self._streams = False
        """Whether text from the present reply was sent."""
        self._ids: dict[tuple[str, str], str] = {}
        self._open: dict[tuple[str, str], Call] = {}
        self._output: dict[str, str] = {}
        self._shown_at: dict[str, float] = {}

    async def send_all(self) -> None:
        """Send updates in their order, until the conversation is closed."""
        async for update in self._updates:
            if isinstance(update, anyio.Event):
                update.set()
            else:
                with suppress(ConnectionError):  # the editor has left
                    await self._send_update(update)

    async def flush(self) -> None:
        """Wait until all updates so far are sent."""
        sent = anyio.Event()
        self.put(sent)
        await sent.wait()

    def put(self, update: Any) -> None:
        """Add an update to send."""
        self._queue.send_nowait(update)

    def say(self, text: str) -> None:
        """Show handrail's own message, in its own paragraph."""
        self.put(update_agent_message_text(f"\n\n*{text}*\n\n"))

    # messages

    def show_history(self, messages: Iterable[Message]) -> None:
        """Show an earlier conversation."""
        for message in messages:
            if isinstance(message, Prompt):
                self._show_prompt(message)
            else:
                self.on_run_event(message)

    def _show_prompt(self, prompt: Prompt) -> None:
        for part in prompt.parts:
            if isinstance(part, Text):
                self.put(update_user_message_text(part.text))
            elif isinstance(part, Image):
                self.put(update_user_message(image_block(encode(part.data), part.media_type)))

    def on_run_event(self, event: RunEvent) -> None:
        """Show an agent event."""
        match event:
            case Delta(text, thought):
                self._streams = True
                self._say_text(text, is_thought=thought)
            case Restart(reason):
                self._streams = False
                self.say(f"The reply starts again: {reason}")
            case Reply():
                self._on_reply(event)
            case ToolResults(results):
                for result in results:
                    self._end((str(self.turns), result.call_id), result)
            case InnerEvent(call_id, inner):
                self._on_inner(call_id, inner)
            case _:
                pass  # argument fragments: the call follows

    def _say_text(self, text: str, *, is_thought: bool) -> None:
        make = update_agent_thought_text if is_thought else update_agent_message_text
        self.put(make(text))

    def _on_reply(self, reply: Reply) -> None:
        self.turns += 1
        for part in () if self._streams else reply.parts:
            if isinstance(part, Text | Reasoning):
                self._say_text(part.text, is_thought=isinstance(part, Reasoning))
        self._streams = False
        for call in reply.calls:
            self.begin_call(str(self.turns), call)
        if self.window and reply.usage.total:
            used = min(reply.usage.total, self.window)
            self.put(UsageUpdate(session_update="usage_update", used=used, size=self.window))

    def _on_inner(self, call_id: str, event: object) -> None:
        """Show a sub-agent's activity, as its call's output. A program's calls have rows."""
        while isinstance(event, InnerEvent):
            event = event.event
        if isinstance(event, Requested) and not _is_inside(event.turn):
            self._add_output((str(self.turns), call_id), f"{write_title(event.call)}\n")

    # calls

    def on_event(self, event: Event) -> None:
        """Show an executor event."""
        turn = find_turn(getattr(event, "turn", ""))
        match event:
            case Requested(_, call):
                self.begin_call(turn, call)
            case Decided():
                self._set_locations((turn, event.call_id), event.accesses)
            case Started():
                self._update((turn, event.call_id), status="in_progress")
            case Progressed():
                self._add_output((turn, event.call_id), f"{event.message}\n")
            case Yielded():
                self._add_output((turn, event.call_id), event.text)
            case Finished(_, result):
                self._end((turn, result.call_id), result)
            case _:
                pass  # asked and answered by its own request

    def begin_call(self, turn: str, call: Call) -> str:
        """Show a call, unless it is shown, and return its name for the editor."""
        key = (turn, call.id)
        if key in self._ids:
            return self._ids[key]
        name = self._ids[key] = f"call-{len(self._ids) + 1}"
        if (plan := read_plan(call)) is not None:
            self.put(plan)
            return name
        self._open[key] = call
        title = f"└ {write_title(call)}" if _is_inside(turn) else write_title(call)
        kind, args = find_kind(call), read_args(call)
        self.put(start_tool_call(name, title, kind=kind, status="pending", raw_input=args))
        return name

    def _update(self, key: tuple[str, str], **fields: Any) -> None:
        if key in self._open:
            self.put(update_tool_call(self._ids[key], **fields))

    def _set_locations(self, key: tuple[str, str], accesses: Iterable[Access]) -> None:
        if locations := list_locations(accesses, self._root):
            self._update(key, locations=locations)

    def _add_output(self, key: tuple[str, str], text: str) -> None:
        """Show what a call has written so far, a few times a second."""
        name = self._ids.get(key, "")
        self._output[name] = self._output.get(name, "") + text
        now = time.monotonic()
        if now - self._shown_at.get(name, 0.0) >= _OUTPUT_SECONDS:
            self._shown_at[name] = now
            self._update(key, content=[show_output(self._output[name])])

    def _end(self, key: tuple[str, str], result: Result) -> None:
        if result.failure is not None and result.failure.kind is FailureKind.PENDING:
            return
        call = self._open.get(key)
        if call is None:
            return  # shown as a plan, or has ended
        self._output.pop(self._ids[key], None)
        status = "failed" if result.failure is not None else "completed"
        diffs = [show_change(change.as_text, self._root) for change in self._changes(call.id)]
        self._update(key, status=status, content=diffs or [show_output(read_output(result))])
        del self._open[key]


def _is_inside(turn: str) -> bool:
    """Return whether a tool's own call made this turn."""
    return turn.rpartition("/")[2].startswith(".")


def find_turn(key: str) -> str:
    """Return a turn's name in this conversation: its number, or the key of an inner one."""
    return key if _is_inside(key) else key.rpartition("/")[2]
