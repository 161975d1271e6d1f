"""Assemble a reply from the events of a stream. No call is merged, dropped or invented.

A call is complete when the API reports it as complete and its JSON is closed. Otherwise it waits
until another part begins, or until the API sends the stop reason. A call that an output limit may
have cut off becomes a ``TruncatedCall``, which is never run.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Protocol

from handrail import Call, Text
from handrail.messages import Delta, Reasoning, Reply, Stop, StreamItem, TruncatedCall, Usage
from handrail.providers._formats.ids import make_id
from handrail.providers._formats.tolerant import (
    Data,
    Names,
    is_complete,
    join_surrogates,
    larger_usage,
)


class CallDraft:
    """A call that is being received."""

    __slots__ = ("args", "id", "marked", "name", "outcome")

    def __init__(self, name: str = "", args: str = "") -> None:
        self.name = name
        self.args = args
        self.id = ""
        self.marked = False
        """Whether the API has reported the call as complete."""
        self.outcome: Call | TruncatedCall | None = None


class TextDraft:
    """Text or reasoning that is being received."""

    __slots__ = ("_held", "_pieces", "api", "signature", "thought")

    def __init__(self, api: str, *, thought: bool, signature: str = "") -> None:
        self.api = api
        self.thought = thought
        self.signature = signature
        self._pieces: list[str] = []
        self._held = ""

    def add(self, piece: str) -> str:
        """Append a piece and return the text to show now. Half a surrogate pair is held back."""
        self._pieces.append(piece)
        ready = self._held + piece
        self._held = ready[-1:] if "\ud800" <= ready[-1:] <= "\udbff" else ""
        return join_surrogates(ready[: len(ready) - len(self._held)])

    def replace_text(self, text: str) -> None:
        """Replace everything received so far with this text."""
        self._pieces = [text]

    @property
    def part(self) -> Text | Reasoning | None:
        """The part of the reply, or None if it is empty."""
        text = join_surrogates("".join(self._pieces))
        if not self.thought:
            return Text(text) if text else None
        return Reasoning(text, self.signature, self.api) if text or self.signature else None


class Assembler:
    """Assembles one reply."""

    def __init__(self, api: str, names: Names) -> None:
        self.seed = ""
        """The id of the response. It makes generated call ids differ between replies."""
        self.model = ""
        self.stop_detail = ""
        """What the provider says about a refusal or an invalid call."""
        self.usage = Usage()
        self._api = api
        self._names = names
        self._parts: list[TextDraft | CallDraft] = []
        self._drafts: list[CallDraft] = []
        self._ids: set[str] = set()

    def note_response(self, event: Data, key: str = "id") -> None:
        """Record the response's id and model if an event has them. The first values are kept."""
        for name, at in (("seed", key), ("model", "model")):
            value = event.get(at)
            if isinstance(value, str) and not getattr(self, name):
                setattr(self, name, value)

    def note_usage(self, usage: Usage) -> None:
        """Record the tokens used so far."""
        self.usage = larger_usage(self.usage, usage)

    def begin_text(self, *, thought: bool, signature: str = "") -> TextDraft:
        """Begin a new part of text or reasoning."""
        part = TextDraft(self._api, thought=thought, signature=signature)
        self._parts.append(part)
        return part

    def continue_text(self, piece: str, *, thought: bool = False) -> list[Delta | Call]:
        """Continue the last part if it is of the same kind; otherwise begin a new one."""
        if not piece:
            return []
        last = self._parts[-1] if self._parts else None
        if not isinstance(last, TextDraft) or last.thought is not thought or last.signature:
            last = self.begin_text(thought=thought)
        return self.add_text(last, piece)

    def add_text(self, part: TextDraft, piece: str) -> list[Delta | Call]:
        """Add a piece to a part, and return what to show."""
        shown = part.add(piece)
        return [Delta(shown, part.thought)] if shown else []

    def begin(self, name: str = "", call_id: str = "", args: str = "") -> CallDraft:
        """Begin a call."""
        draft = CallDraft(name, args)
        self._parts.append(draft)
        self._drafts.append(draft)
        self.claim(draft, call_id)
        return draft

    def claim(self, draft: CallDraft, call_id: str) -> None:
        """Give a call this id, unless it has an id or another call uses this one."""
        if call_id and not draft.id and call_id not in self._ids:
            draft.id = call_id
            self._ids.add(call_id)

    def mark(self, draft: CallDraft) -> list[Delta | Call]:
        """Record that the API reports a call as complete. The call waits if its JSON is not."""
        draft.marked = True
        return self.settle(draft) if is_complete(draft.args) else []

    def settle(self, draft: CallDraft, *, cut: bool = False) -> list[Delta | Call]:
        """Turn a draft into a Call or a TruncatedCall, once."""
        if draft.outcome is not None:
            return []
        name, args = self._names.get(draft.name, draft.name), join_surrogates(draft.args)
        if not draft.id:
            at = self._drafts.index(draft)
            draft.id = make_id(self.seed, at, (draft.name, args), self._ids)
            self._ids.add(draft.id)
        if cut:
            draft.outcome = TruncatedCall(name, draft.id, args)
            return []
        draft.outcome = Call(name, args if args.strip() else "{}", draft.id)
        return [draft.outcome]

    def settle_complete(self, *, marked: bool = True) -> list[Delta | Call]:
        """Settle complete calls when another part begins: no limit can have cut them off.

        Use ``marked=False`` for an API that does not report calls as complete. Then a call is
        complete if its JSON is.
        """
        return [
            call
            for draft in self._drafts
            if draft.outcome is None and (draft.marked if marked else is_complete(draft.args))
            for call in self.settle(draft)
        ]

    def finish(self, stop: Stop) -> list[Delta | Call]:
        """Settle all waiting calls when the model has stopped: as complete, or as truncated."""
        settled: list[Delta | Call] = []
        for draft in self._drafts:
            complete = stop in ("other", "paused") and is_complete(draft.args)
            natural = complete or stop in ("end", "calls")
            settled += self.settle(draft, cut=not natural)
        return settled

    def reply(self, stop: Stop) -> Reply:
        """Return the whole reply."""
        self.finish(stop)
        outcomes = (
            draft.part if isinstance(draft, TextDraft) else draft.outcome for draft in self._parts
        )
        parts = tuple(part for part in outcomes if part is not None)
        if stop in ("end", "calls"):
            stop = "calls" if any(isinstance(part, Call) for part in parts) else "end"
        return Reply(parts, stop, self.usage, self.model, self.stop_detail)


class StreamDecoder(Protocol):
    """Decodes the stream of one API: takes events, returns deltas and calls, then the reply."""

    def feed(self, event: Data) -> Iterable[Delta | Call]:
        """Process one event."""
        ...

    def end(self) -> Reply:
        """Return the reply after the last event."""
        ...


async def stream_items(
    stream: StreamDecoder, events: AsyncIterable[Data]
) -> AsyncIterator[StreamItem]:
    """Yield deltas, each call when it is complete, and the reply at the end."""
    sent: set[str] = set()
    async for event in events:
        for piece in stream.feed(event):
            if isinstance(piece, Call):
                sent.add(piece.id)
            yield piece
    reply = stream.end()
    for call in reply.calls:
        if call.id not in sent:
            yield call
    yield reply
