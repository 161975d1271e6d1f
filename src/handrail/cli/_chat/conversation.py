"""A terminal conversation's state, which slash commands read and change."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import anyio

from handrail.cli._base.exits import Halt
from handrail.cli._chat.plain import PlainWatcher
from handrail.cli._chat.watch import Watcher
from handrail.cli._runs.session import Session
from handrail.cli._screen.rows import Row, safe_line
from handrail.cli._screen.terminal import Screen
from handrail.messages import Content

Rows: TypeAlias = Iterator[str | Row]
Step: TypeAlias = Callable[[], Awaitable[Iterable[str]]]
"""Long work that can be interrupted. It returns rows to print."""


@dataclass
class Conversation:
    """One conversation in a chat."""

    session: Session
    screen: Screen
    watcher: Watcher | PlainWatcher
    model: str
    """The model's name, as the user gave it."""
    began: float = field(default_factory=time.monotonic)
    notes: list[str] = field(default_factory=list[str])
    """Messages for the model about what the person did since its last turn: undo, commands."""
    reviewed: dict[str, str] = field(default_factory=dict[str, str])
    """Files shown for trust, each with its shown digest."""
    next_text: str = ""
    """What the next message begins with."""
    local_models: list[tuple[str, str]] | None = None
    """Models on this machine's servers, with the server's address; None if not asked."""
    over: bool = False
    """Whether the conversation is to end."""
    following: str | None = None
    """The run following in the same chat: its id, or empty for a new one."""
    prompt: str = ""
    """A message for the model from the user's own command."""
    step: Step | None = None
    """Work begun by a command."""
    scope: anyio.CancelScope | None = None
    """Around work that the person can stop, while it runs."""
    parts: list[Content] = field(default_factory=list[Content])
    """A message for the model, from a prompt of an MCP server."""
    server_prompts: dict[str, list[tuple[str, str]]] = field(
        default_factory=dict[str, list[tuple[str, str]]]
    )
    """What was listed of each server: what to type, and its description."""

    def take_notes(self) -> list[str]:
        """Return messages to send to the model before the user's next prompt, each once."""
        notes, self.notes = self.notes, []
        return notes

    def take_prompt(self) -> str:
        """Return a command's message for the model, once."""
        prompt, self.prompt = self.prompt, ""
        return prompt

    def take_parts(self) -> list[Content]:
        """Return a server's message for the model, once."""
        parts, self.parts = self.parts, []
        return parts

    def take_step(self) -> Step | None:
        """Return a command's work, once."""
        step, self.step = self.step, None
        return step


def halt_rows(halt: Halt) -> Rows:
    """Yield a problem and its hint."""
    yield from (safe_line(row) for row in (str(halt), f"  {halt.hint}") if row.strip())
