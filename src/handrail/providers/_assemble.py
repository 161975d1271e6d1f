"""From the pieces of a stream to a reply: no call merged, dropped or invented.

A call is made when its wire says that it is complete, and only of JSON that shows where it ends.
Where that is not certain, it waits: for something else to begin, or for the reason why the model
stopped. What an output limit may have cut off is a ``Cut``, which nobody runs.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Protocol

from handrail import Call, Text
from handrail.messages import Cut, Delta, Piece, Reply, Stop, Thought, Usage
from handrail.providers._ids import minted
from handrail.providers._read import Names, Wire, complete, most, paired


class Draft:
    """A call on its way."""

    __slots__ = ("args", "id", "made", "marked", "name")

    def __init__(self, name: str = "", args: str = "") -> None:
        self.name = name
        self.args = args
        self.id = ""
        self.marked = False
        """Whether the wire has said that there is no more to come."""
        self.made: Call | Cut | None = None


class Said:
    """Words or a thought on their way."""

    __slots__ = ("_held", "_pieces", "sealed", "thought", "wire")

    def __init__(self, wire: str, *, thought: bool, sealed: str = "") -> None:
        self.wire = wire
        self.thought = thought
        self.sealed = sealed
        self._pieces: list[str] = []
        self._held = ""

    def add(self, piece: str) -> str:
        """Take a piece in; what of it can be shown now. Half a character waits for the other."""
        self._pieces.append(piece)
        ready = self._held + piece
        self._held = ready[-1:] if "\ud800" <= ready[-1:] <= "\udbff" else ""
        return paired(ready[: len(ready) - len(self._held)])

    def become(self, text: str) -> None:
        """Be this text, whatever the pieces were."""
        self._pieces = [text]

    @property
    def part(self) -> Text | Thought | None:
        """It as a part of a reply, if there is anything to it."""
        text = paired("".join(self._pieces))
        if not self.thought:
            return Text(text) if text else None
        return Thought(text, self.sealed, self.wire) if text or self.sealed else None


class Assembler:
    """One reply, put together."""

    def __init__(self, wire: str, names: Names) -> None:
        self.seed = ""
        """The response's own id: with it, minted ids differ between replies."""
        self.model = ""
        self.usage = Usage()
        self._wire = wire
        self._names = names
        self._parts: list[Said | Draft] = []
        self._drafts: list[Draft] = []
        self._ids: set[str] = set()

    def head(self, event: Wire, key: str = "id") -> None:
        """Note the response's id and model where an event has them; the first ones count."""
        for name, at in (("seed", key), ("model", "model")):
            found = event.get(at)
            if isinstance(found, str) and not getattr(self, name):
                setattr(self, name, found)

    def count(self, usage: Usage) -> None:
        """Note the tokens so far."""
        self.usage = most(self.usage, usage)

    def said(self, *, thought: bool, sealed: str = "") -> Said:
        """Begin words or a thought of their own."""
        part = Said(self._wire, thought=thought, sealed=sealed)
        self._parts.append(part)
        return part

    def say(self, piece: str, *, thought: bool = False) -> list[Delta | Call]:
        """Go on with the words or the thought that was last, or begin anew."""
        if not piece:
            return []
        last = self._parts[-1] if self._parts else None
        if not isinstance(last, Said) or last.thought is not thought or last.sealed:
            last = self.said(thought=thought)
        return self.told(last, piece)

    def told(self, part: Said, piece: str) -> list[Delta | Call]:
        """Add a piece to words or a thought; what to show of it."""
        shown = part.add(piece)
        return [Delta(shown, part.thought)] if shown else []

    def begin(self, name: str = "", call_id: str = "", args: str = "") -> Draft:
        """Begin a call."""
        draft = Draft(name, args)
        self._parts.append(draft)
        self._drafts.append(draft)
        self.claim(draft, call_id)
        return draft

    def claim(self, draft: Draft, call_id: str) -> None:
        """Give a call the id that came for it, unless it has one or another call has this one."""
        if call_id and not draft.id and call_id not in self._ids:
            draft.id = call_id
            self._ids.add(call_id)

    def mark(self, draft: Draft) -> list[Delta | Call]:
        """The wire says that a call is complete; its JSON has to agree, or the call waits."""
        draft.marked = True
        return self.settle(draft) if complete(draft.args) else []

    def settle(self, draft: Draft, *, cut: bool = False) -> list[Delta | Call]:
        """Make a call of it, or a Cut; once."""
        if draft.made is not None:
            return []
        name, args = self._names.get(draft.name, draft.name), paired(draft.args)
        if not draft.id:
            at = self._drafts.index(draft)
            draft.id = minted(self.seed, at, (draft.name, args), self._ids)
            self._ids.add(draft.id)
        if cut:
            draft.made = Cut(name, draft.id, args)
            return []
        draft.made = Call(name, args if args.strip() else "{}", draft.id)
        return [draft.made]

    def move_on(self, *, marked: bool = True) -> list[Delta | Call]:
        """Something else begins, so that no limit can have cut off what was said to be complete.

        Where a wire says no such thing, calls are complete whose JSON is (``marked=False``).
        """
        return [
            call
            for draft in self._drafts
            if draft.made is None and (draft.marked if marked else complete(draft.args))
            for call in self.settle(draft)
        ]

    def finish(self, stop: Stop) -> list[Delta | Call]:
        """The model has stopped: each call that waits is now a call, or cut off."""
        made: list[Delta | Call] = []
        for draft in self._drafts:
            natural = stop in ("end", "calls") or (stop == "other" and complete(draft.args))
            made += self.settle(draft, cut=not natural)
        return made

    def reply(self, stop: Stop) -> Reply:
        """All of it."""
        self.finish(stop)
        found = (part.part if isinstance(part, Said) else part.made for part in self._parts)
        parts = tuple(part for part in found if part is not None)
        if stop in ("end", "calls"):
            stop = "calls" if any(isinstance(part, Call) for part in parts) else "end"
        return Reply(parts, stop, self.usage, self.model)


class Fed(Protocol):
    """A stream of one wire: events in, pieces out, at last the reply."""

    def feed(self, event: Wire) -> Iterable[Delta | Call]:
        """Take one event in."""
        ...

    def end(self) -> Reply:
        """There are no more events."""
        ...


async def pieces(stream: Fed, events: AsyncIterable[Wire]) -> AsyncIterator[Piece]:
    """What comes out of a stream while it comes in; calls that only its end completes included."""
    told: set[str] = set()
    async for event in events:
        for piece in stream.feed(event):
            if isinstance(piece, Call):
                told.add(piece.id)
            yield piece
    reply = stream.end()
    for call in reply.calls:
        if call.id not in told:
            yield call
    yield reply
