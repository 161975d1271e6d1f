"""Assemble a reply from stream events. No call is merged, dropped or invented.

A call is complete when the API reports it as complete and its JSON is closed. Otherwise it waits
until another part begins, or until the API sends the stop reason. A call possibly cut off by an
output limit becomes a ``TruncatedCall``, which is never run. Calls are returned in reply order: a
complete call waits for the calls before it.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Collection, Iterable
from typing import Protocol, TypeAlias, TypeVar

from handrail import Call, Image
from handrail.messages import ArgsDelta, Delta, Reply, Stop, StreamItem, TruncatedCall, Usage
from handrail.providers._formats.drafts import (
    CallDraft,
    Fields,
    ImageDraft,
    OpaqueDraft,
    TextDraft,
    opaque,
)
from handrail.providers._formats.ids import make_id
from handrail.providers._formats.tolerant import (
    Data,
    Names,
    is_complete,
    larger_usage,
    object_at,
    text_at,
)

Piece: TypeAlias = Delta | ArgsDelta | Call
"""What a stream returns before its reply."""
Draft: TypeAlias = TextDraft | CallDraft | OpaqueDraft | ImageDraft

_D = TypeVar("_D", TextDraft, CallDraft, OpaqueDraft, ImageDraft)


class Assembler:
    """Assembles one reply."""

    def __init__(self, api: str, names: Names) -> None:
        self.seed = ""
        """The response id. It makes generated call ids differ between replies."""
        self.model = ""
        self.stop_detail = ""
        """What the provider says about a refusal or an invalid call."""
        self.usage = Usage()
        self.fields: Fields = {}
        """More reply fields."""
        self._api = api
        self._names = names
        self._parts: list[Draft] = []
        self._at: int | None = None
        self._drafts: list[CallDraft] = []
        self._returned = 0
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

    def insert_after(self, parts: Collection[Draft] | None) -> None:
        """Insert the next parts after the last of these, or at the end again for None."""
        if parts is None:
            self._at = None
        else:
            known = [at for at, part in enumerate(self._parts) if part in parts]
            self._at = max([self._at or 0, *(at + 1 for at in known)])

    def _place(self, part: _D) -> _D:
        if self._at is None or isinstance(part, CallDraft):
            self._parts.append(part)
        else:
            self._parts.insert(self._at, part)
            self._at += 1
        return part

    def begin_text(self, *, thought: bool, signature: str = "") -> TextDraft:
        """Begin a new text or reasoning part."""
        return self._place(TextDraft(thought=thought, signature=signature))

    def begin_opaque(self, value: Data) -> OpaqueDraft:
        """Begin a part to send back unchanged."""
        return self._place(OpaqueDraft(dict(value)))

    def add_image(self, image: Image) -> None:
        """Add an image."""
        self._place(ImageDraft(image))

    def continue_text(self, piece: str, *, thought: bool = False) -> list[Piece]:
        """Continue the last part if the kind matches. Otherwise begin a new one."""
        if not piece:
            return []
        last = self._parts[-1] if self._parts else None
        if not isinstance(last, TextDraft) or last.thought is not thought or last.is_sealed:
            last = self.begin_text(thought=thought)
        return self.add_text(last, piece)

    def add_text(self, part: TextDraft, piece: str) -> list[Piece]:
        """Add a piece to a part, and return what to show."""
        shown = part.content.add(piece)
        return [Delta(shown, part.thought)] if shown else []

    def begin(self, name: str = "", call_id: str = "", args: str = "") -> CallDraft:
        """Begin a call."""
        draft = self._place(CallDraft(name, args))
        self._drafts.append(draft)
        self.claim(draft, call_id)
        return draft

    def claim(self, draft: CallDraft, call_id: str) -> None:
        """Give a call this id, unless it has an id or another call uses this one."""
        if call_id and not draft.id and call_id not in self._ids:
            draft.id = call_id
            self._ids.add(call_id)

    def add_args(self, draft: CallDraft, piece: str) -> list[Piece]:
        """Append a fragment to a call's arguments, and return the fragments to show."""
        return self.show_args(draft, draft.args.add(piece))

    def show_args(self, draft: CallDraft, text: str) -> list[Piece]:
        """Return an argument fragment to show, with the call's later id."""
        if not text:
            return []
        draft.unshown.append(text)
        if not draft.id and not (self.seed and draft.name):
            return []
        call_id = self._identify(draft)
        shown, draft.unshown = "".join(draft.unshown), []
        return [ArgsDelta(call_id, self._names.get(draft.name, draft.name), shown)]

    def _identify(self, draft: CallDraft) -> str:
        """Return a call's id, generating one if missing."""
        if not draft.id:
            args = "" if self.seed else draft.args.text
            at = self._drafts.index(draft)
            draft.id = make_id(self.seed, at, (draft.name, args), self._ids)
            self._ids.add(draft.id)
        return draft.id

    def mark(self, draft: CallDraft) -> list[Piece]:
        """Record a call as complete in the API. The call waits if its JSON is incomplete."""
        draft.marked = True
        return self.settle(draft) if is_complete(draft.args.text) else []

    def settle(self, draft: CallDraft, *, cut: bool = False) -> list[Piece]:
        """Turn a draft into a Call or a TruncatedCall, once. Return the calls whose turn it is."""
        if draft.outcome is None:
            name, args = self._names.get(draft.name, draft.name), draft.args.text
            call_id = self._identify(draft)
            if cut:
                draft.outcome = TruncatedCall(name, call_id, args)  # not half an edit: decision 025
            else:
                via = text_at(object_at(draft.fields, "caller"), "type")
                draft.outcome = Call(name, args if args.strip() else "{}", call_id, via)
        return self._release()

    def _release(self) -> list[Piece]:
        """Return the next calls in reply order, up to the first unsettled one."""
        calls: list[Piece] = []
        for draft in self._drafts[self._returned :]:
            if draft.outcome is None:
                break
            self._returned += 1
            if isinstance(draft.outcome, Call):
                calls.append(draft.outcome)
        return calls

    def settle_complete(self, *, marked: bool = True) -> list[Piece]:
        """Settle complete calls when another part begins: no limit can have cut them off.

        Use ``marked=False`` for an API without completion marks. Then a call is complete if its
        JSON is.
        """
        return [
            call
            for draft in self._drafts[self._returned :]
            if draft.outcome is None and (draft.marked if marked else is_complete(draft.args.text))
            for call in self.settle(draft)
        ]

    def finish(self, stop: Stop) -> list[Piece]:
        """Settle all waiting calls when the model has stopped: as complete, or as truncated."""
        settled: list[Piece] = []
        for draft in self._drafts[self._returned :]:
            complete = stop in ("other", "paused") and is_complete(draft.args.text)
            natural = complete or stop in ("end", "calls")
            settled += self.settle(draft, cut=not natural)
        return settled

    def reply(self, stop: Stop) -> Reply:
        """Return the whole reply."""
        self.finish(stop)
        parts = [part for draft in self._parts for part in draft.parts(self._api)]
        if self.fields:
            parts.append(opaque(self.fields, self._api, "fields"))
        if stop in ("end", "calls"):
            stop = "calls" if any(isinstance(part, Call) for part in parts) else "end"
        return Reply(tuple(parts), stop, self.usage, self.model, self.stop_detail)


class StreamDecoder(Protocol):
    """Stream decoder for one API: takes events, returns fragments and calls, then the reply."""

    def feed(self, event: Data) -> Iterable[Piece]:
        """Process one event."""
        ...

    def end(self) -> Reply:
        """Return the reply after the last event."""
        ...


async def stream_items(
    stream: StreamDecoder, events: AsyncIterable[Data]
) -> AsyncIterator[StreamItem]:
    """Yield pieces, each call when it is complete, and the reply at the end."""
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
