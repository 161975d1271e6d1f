"""One provocation's setup: tools, a scripted model, and an approver."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from conformance._world import World
from handrail import (
    Allow,
    Approvals,
    Ask,
    Call,
    CallLimits,
    CheckedCall,
    Decision,
    Deny,
    Executor,
    Image,
    LongResults,
    Registry,
    Result,
)
from handrail.permissions import Answer, Edit, Pending

Feature: TypeAlias = Literal["approvals", "changes", "images", "streams"]
"""Something a host may not have: approvals, changing tools, images, streaming tools."""
Word: TypeAlias = bool | Mapping[str, Any]
"""What the person says: yes, no, or yes with other arguments."""

TOO_LATE_SECONDS = 7200.0
VALID_SECONDS = 3600.0


class Read(NamedTuple):
    """One call's result, as the model read it."""

    call_id: str
    text: str
    images: int = 0


Replies: TypeAlias = Callable[[Sequence[Read]], Sequence[Call]]
"""Returns the next reply's calls, from all results the model has read so far."""


class Skipped(Exception):
    """The host does not have what the provocation needs."""


@dataclass(slots=True)
class Conversation:
    """One scripted model: the host asks for its replies, and passes it the results."""

    replies: Replies
    withdraw: Callable[[], None]
    """Removes a tool after the model has chosen it, if the provocation says so."""
    read: list[Read] = field(default_factory=list[Read])
    """All results read by the model, in order."""

    def reply(self, results: Sequence[Read] = ()) -> tuple[Call, ...]:
        """Return the calls in the model's next reply, or none if it is done.

        Args:
            results: The results read since the model's last reply.
        """
        self.read += results
        calls = tuple(self.replies(self.read))
        self.withdraw()
        return calls


@dataclass(slots=True, kw_only=True)
class Setup:
    """One provocation's tools, rules and approver."""

    world: World
    words: Mapping[str, Word]
    """What the person says, by call id."""
    is_late: bool
    """Whether the person answers after the request has expired."""
    needs: frozenset[Feature]
    tool_timeout: float = 10.0
    """Seconds a tool may run."""
    withdrawn: str = ""
    """The tool removed while the model writes its reply."""
    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """The call id and the text of every request shown to the approver."""
    registry: Registry = field(default_factory=Registry)
    _now: float = 1_000_000.0

    def __post_init__(self) -> None:
        for member in self.world.toolset():
            self.registry.add(member)

    @property
    def needs_approval(self) -> frozenset[str]:
        """The tools whose calls need approval, by name."""
        return frozenset({"append_text"}) if self.words else frozenset()

    def require(self, *features: Feature) -> None:
        """Skip the provocation unless these features are enough for it."""
        if missing := self.needs - set(features):
            raise Skipped(", ".join(sorted(missing)))

    def ask(self, call_id: str, question: str) -> Word:
        """Ask the person about a call. A host does this where its own approval request arrives.

        A host without the model's own id can pass another one.
        """
        call_id = call_id if call_id in self.words else next(iter(self.words))
        word = self.words[call_id]
        if not isinstance(word, bool) and call_id in dict(self.asked):
            word = True  # the edited call, which is decided again
        self.asked.append((call_id, question))
        if self.is_late:
            self._now += TOO_LATE_SECONDS
        return word

    def withdraw(self) -> None:
        """Remove the tool chosen by the model."""
        if self.withdrawn:
            self.registry.remove(self.withdrawn)
            self.withdrawn = ""

    def executor(self, *, asks_person: bool = False) -> Executor:
        """Return an executor with these tools and rules.

        Args:
            asks_person: Whether the person is its approver. By default, it has none.
        """
        approver = self._answer if asks_person else None
        return Executor(
            self.registry,
            policy=self._decide,
            approvals=Approvals(approver=approver, timeout=VALID_SECONDS),
            limits=CallLimits(timeout=self.tool_timeout),
            long_results=LongResults(reader="always"),
            clock=lambda: self._now,
        )

    def _decide(self, call: CheckedCall) -> Decision:
        if call.name in self.needs_approval:
            return Ask(f"Append {call.args['text']!r} to {call.args['path']}?")
        return Allow()

    async def _answer(self, pending: Pending) -> Answer:
        word = self.ask(pending.call.id, pending.question)
        if isinstance(word, bool):
            return Allow() if word else Deny.by_user()
        return Edit(word)


class Host(Protocol):
    """Prepares a framework for one provocation, and returns a function running a conversation."""

    def __call__(self, setup: Setup, /) -> Callable[[Conversation], Any]:
        """Return an async function. It may run several conversations at the same time."""
        ...


def run_with_handrail(setup: Setup) -> Callable[[Conversation], Any]:
    """The kit's host: handrail's own executor, without a framework."""
    executor = setup.executor(asks_person=True)

    async def run(conversation: Conversation) -> None:
        results: list[Read] = []
        async with executor:
            while calls := conversation.reply(results):
                results = [read_result(result) for result in await executor.run_all(calls)]

    return run


def read_result(result: Result) -> Read:
    """Return a model's view of a result."""
    images = sum(isinstance(part, Image) for part in result.parts)
    return Read(result.call_id, result.text, images)
