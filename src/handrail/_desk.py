"""The desk: what every call passes on its way in and out, whoever runs it.

It holds what an executor was told: tools, policy, hooks, limits. It keeps long results, and tells
whoever listens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from handrail._call import Call
from handrail._content import Text
from handrail._decision import Allow
from handrail._event import Event, Finished, Stored
from handrail._feed import Brief, Feed
from handrail._hook import After, Approver, Before, Ledger
from handrail._hooked import Unfinished, passed_back, passed_on
from handrail._invoke import Flight, Limits
from handrail._output import bounded
from handrail._policy import Policy
from handrail._preflight import Ready, preflight
from handrail._registry import Registry
from handrail._result import Kind, Result
from handrail._store import Store
from handrail._tool import AnyTool
from handrail._toolset import Toolset

MOST_HOOKING = 500
"""So many calls may be with the hooks at one time: more is a hook that calls its own executor."""
_TOO_DEEP = (
    "Checks of calls are running within one another without end, and so nothing was run. "
    "Tell the user."
)
_TOO_DEEP_AFTER = (
    "Checks of results are running within one another without end, and so this one is withheld. It "
    "may have had its effect: check before you call again. Tell the user."
)


@dataclass(slots=True, kw_only=True)
class Desk:
    """What an executor was told, and what it keeps."""

    offered: Toolset
    registry: Registry | None
    reader: AnyTool
    policy: Policy | None
    before: tuple[Before, ...]
    after: tuple[After, ...]
    approver: Approver | None
    limits: Limits
    hook_timeout: float
    store: Store
    run_id: str
    clock: Callable[[], float]
    ledger: Ledger
    answer_within: float
    bound_to: Callable[[Call], str] | None
    generation: int = 0
    only: tuple[str, ...] | None = None
    """The names that a registry's tools are narrowed to, whatever else comes and goes there."""
    native: bool = False
    """Whether the event loop is asyncio's."""
    feeds: list[Feed] = field(default_factory=list[Feed])
    keys: int = 0
    hooking: int = 0
    """How many calls and results are with the hooks now."""
    seen: Counter[str] = field(default_factory=Counter[str])

    @property
    def tools(self) -> Toolset:
        """What a model may call: the tools offered, and the reader once a result was too long."""
        return self.offered | Toolset(self.reader) if self.store else self.offered

    def judged(self, call: Call) -> Ready | Result:
        """A call after preflight: judged, or refused."""
        live = None
        if self.registry is not None and self.registry.generation != self.generation:
            live = None if call.name == self.reader.spec.name else self.registry.snapshot
        return preflight(call, self.tools, self.policy, live)

    def flight(self, ready: Ready, key: int = 0) -> Flight:
        """A call on its way; with a key of its own, unless it has one."""
        if not key:
            self.keys += 1
        flight = Flight(key or self.keys, ready, self.tell, self.clock)
        if ready.tool.takes_context:
            self.seen[ready.call.id] += 1
            again = self.seen[ready.call.id]
            flight.token = f"{self.run_id}/{ready.call.id}" + (f"#{again}" if again > 1 else "")
        return flight

    def dressed(self, ready: Ready, result: Result) -> Result:
        """A result within its bounds, and with what the model should know of its call."""
        most = ready.tool.spec.max_chars or self.limits.max_chars
        if len(result.text) > most:
            result, kept = self.shortened(result, most)
            self.tell(Stored(self.clock(), result.call_id, kept))
        notes = ready.args.repairs
        if ready.call.name != ready.tool.spec.name:
            notes = (f"{ready.call.name!r} is now called {ready.tool.spec.name!r}", *notes)
        if notes:
            note = f"[Note: {'; '.join(notes)}.]"
            parts = (*result.parts, Text(note)) if result.parts else ()
            result = result._replace(text=f"{result.text}\n{note}", parts=parts)
        return result

    def shortened(self, result: Result, most: int) -> tuple[Result, int]:
        """The head and the tail of a result; and how much of it is kept."""
        kept = self.store.put(result.call_id, result.text)
        text = bounded(result.text, most, result.call_id, self.reader.spec.name, readable=kept)
        failure = replace(result.failure, message=text) if result.failure else None
        shown = [part for part in result.parts if not isinstance(part, Text)]
        parts = (Text(text), *shown) if result.parts else ()
        return result._replace(text=text, parts=parts, data=None, failure=failure), kept

    async def checked(self, call: Call, begun: Unfinished | None = None) -> Call | Result:
        """A call as the hooks leave it; ``begun`` is how far they came with it."""
        if self.hooking >= MOST_HOOKING:
            return Result.fail(call.id, Kind.DENIED, _TOO_DEEP)
        self.hooking += 1
        try:
            if begun is not None:
                return await passed_on(call, begun.rest, self.hook_timeout, begun.answer)
            return await passed_on(call, self.before, self.hook_timeout)
        finally:
            self.hooking -= 1

    def loosens(self, call: Call, answer: Result) -> bool:
        """Whether a hook answered for a call that the policy does not simply allow."""
        if answer.failure is not None or self.policy is None:
            return False
        ready = self.judged(call)
        return isinstance(ready, Ready) and not isinstance(ready.decision, Allow)

    async def settled(self, call: Call, result: Result) -> Result:
        """A result as the hooks leave it: what the model gets."""
        self.hooking += 1
        try:
            if self.after and self.hooking < MOST_HOOKING:
                result = await passed_back(
                    call, result, self.after, self.hook_timeout, native=self.native
                )
            elif self.after:
                result = Result.fail(call.id, Kind.BUG, _TOO_DEEP_AFTER)
        finally:
            self.hooking -= 1
            self.tell(Finished(self.clock(), result))
        return result

    def tell(self, record: Event | Brief) -> None:
        """Let everybody know who listens."""
        for feed in self.feeds:
            feed.put(record)
