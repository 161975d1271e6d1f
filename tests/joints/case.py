"""What a row asks of a door, and what it sees there."""

from __future__ import annotations

import re
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import anyio
from anyio.lowlevel import checkpoint

from handrail import Call, CheckedCall, Hook, Image, Result, Text, Tool
from handrail.events import Event, Finished, Progressed, Started, Yielded
from handrail.messages import Model, Prompt, Reply, Request, StreamItem, ToolResults
from handrail.permissions import Answer

PATIENCE = 30
_ROUNDS = 12
_BACKGROUND = re.compile(r"\[The background call '(\w+)' of \w+ has ended\.")


class Signal:
    """Is set and awaited in any thread."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.set = self._event.set

    async def wait(self) -> None:
        """Wait until it is set."""
        await anyio.to_thread.run_sync(self._event.wait, PATIENCE, abandon_on_cancel=True)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A script of replies, the tools, and the options of their executor and turns."""

    replies: tuple[tuple[Call, ...], ...]
    tools: tuple[Tool[..., Any], ...]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Of the executor."""
    turn: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Principal, deps and metadata."""
    answers: tuple[Answer, ...] = ()
    """One for each request, given later and by another executor, where that is possible."""
    inside: Callable[[], AbstractContextManager[object]] = nullcontext
    """What the caller is inside of when it sends the calls, or starts the run."""
    begun: Signal | None = None
    """Set by the tool that is to be cancelled."""
    asks_inside: bool = False
    """Whether the tool asks while it runs."""
    reads_approval: bool = False
    """Whether the tool reads that a person has approved what a policy asked."""
    needs_session: bool = False
    """Whether the calls are of one session, where a client has one."""
    prompt: str = "go"
    """What the user writes."""
    model: Model | None = None
    """Sends the replies in place of the function that reads them."""


class Shown(NamedTuple):
    """What a model or a client reads of one result."""

    text: str
    failed: bool = False
    images: int = 0


@dataclass
class Seen:
    """What was seen at a door."""

    results: dict[str, Shown] = field(default_factory=dict[str, Shown])
    progress: list[tuple[str, float | None]] = field(default_factory=list[Any])
    yielded: list[str] = field(default_factory=list[str])
    host: list[str] = field(default_factory=list[str])
    """"call" and "result", when the host's own events or callbacks heard of one."""

    def take(self, *results: Result) -> None:
        """Keep results that are not pending."""
        for result in results:
            if result.pending is None:
                images = sum(isinstance(part, Image) for part in result.parts)
                self.results[result.call_id] = Shown(
                    result.text, result.failure is not None, images
                )

    def read(self, messages: Iterable[object]) -> None:
        """Keep the results in messages. One of a call in the background comes later, in a prompt."""
        for message in messages:
            if isinstance(message, ToolResults):
                self.take(*message.results)
            elif isinstance(message, Prompt):
                head, _, text = getattr(message.parts[0], "text", "").partition("\n")
                if ended := _BACKGROUND.match(head):
                    self.results[ended[1]] = Shown(text)

    def note(self, event: object) -> None:
        """Keep what an event says of progress and output."""
        if isinstance(event, Progressed):
            self.progress.append((event.message, event.fraction))
        elif isinstance(event, Yielded):
            self.yielded.append(event.text)

    def hear(self, event: object) -> None:
        """Keep what an event of a run says of calls."""
        if isinstance(event, Started | Reply) and getattr(event, "calls", (event,)):
            self.host.append("call")
        elif isinstance(event, Finished | ToolResults):
            self.host.append("result")

    def hook(self, *, results: bool = False) -> Hook:
        """Return a hook that observes events, and keeps results if it is to."""

        def observe(_key: str, _call: CheckedCall | Call, event: Event) -> None:
            self.note(event)
            if results and isinstance(event, Finished):
                self.take(event.result)

        return Hook(observe=observe)


Door: TypeAlias = Callable[[Case], Awaitable[Seen]]
"""Runs a case in one way."""


async def let_others_run() -> None:
    """Let other tasks run until they wait for something else."""
    for _ in range(_ROUNDS):
        await checkpoint()


def make_model(case: Case) -> Any:
    """Return a model that sends each call of a reply when it is complete, and needs no memory."""
    if case.model is not None:
        return case.model

    async def model(request: Request) -> Any:
        turn = sum(isinstance(message, Reply) for message in request.messages)
        calls = case.replies[turn] if turn < len(case.replies) else ()
        for call in calls:
            item: StreamItem = call
            yield item
            await let_others_run()
        yield Reply(calls, "calls") if calls else Reply((Text("done"),))

    return model
