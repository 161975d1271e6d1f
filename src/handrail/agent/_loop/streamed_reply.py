"""Match the calls a stream sends early with the calls of its reply, and time the reply."""

from __future__ import annotations

import json
from dataclasses import replace
from time import perf_counter
from typing import TypeGuard, TypeVar

from handrail import Call, Text
from handrail.messages import ArgsDelta, Delta, ModelError, Reply, Restart, TruncatedCall

_AnyCall = TypeVar("_AnyCall", bound=Call | TruncatedCall)


class StreamedReply:
    """A stream's text and calls. Each call gets a separate id. Make it before you ask.

    A stream may send calls in another order than its reply, or leave some out. It may also send
    calls the reply does not have: they came from a failed model, before its replacement.
    """

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._early: list[tuple[str, Call]] = []
        self._outdated: set[str] = set()
        self._texts: list[str] = []
        self._began = perf_counter()

    def add_piece(self, piece: Delta | ArgsDelta | Restart) -> None:
        """Add text from the stream. If the reply starts again, its text does too.

        The calls before that may have started, but the reply may use their ids for other calls.
        """
        if isinstance(piece, Restart):
            self._texts = []
            self._outdated = {call.id for call in self.early}
        elif isinstance(piece, Delta) and not piece.thought:
            self._texts.append(piece.text)

    def add(self, call: Call) -> Call:
        """Add a call from the stream, and return it with a separate id."""
        own = self._with_own_id(call)
        self._early.append((call.id, own))
        return own

    @property
    def early(self) -> tuple[Call, ...]:
        """The calls from the stream."""
        return tuple([call for _, call in self._early])

    def partial(self) -> Reply | None:
        """Return the received part of an interrupted reply, or None.

        Its calls have separate ids already. After that, only those it lacks are
        early calls.
        """
        text = [Text("".join(self._texts))] if self._texts else []
        calls = [call for call in self.early if call.id not in self._outdated]
        self._early = [pair for pair in self._early if pair[1].id in self._outdated]
        return self._timed(Reply((*text, *calls), "other")) if text or calls else None

    def match(self, reply: Reply) -> Reply:
        """Return the reply with the early calls in it, and with its seconds.

        After that, only those it lacks are early calls. Raises ModelError if a call of
        the reply differs from the early call with the same id, which may have started. A refused
        reply has no calls: the provider rejects it whole.
        """
        reply = self._timed(reply)
        if reply.stop == "refused":
            return replace(reply, parts=tuple([one for one in reply.parts if not _is_call(one)]))
        if not self._early and _has_own_ids(reply):
            return reply
        early = self._find_early(reply)
        parts = [
            (early.get(at) or self._with_own_id(part)) if _is_call(part) else part
            for at, part in enumerate(reply.parts)
        ]
        return replace(reply, parts=tuple(parts))

    def _timed(self, reply: Reply) -> Reply:
        """Return a reply with the time since the request, unless the model has set it."""
        if reply.seconds is not None:
            return reply
        # each field is listed, as `replace` takes ten times as long
        said = reply.parts, reply.stop, reply.usage, reply.model, reply.stop_detail
        return Reply(*said, seconds=perf_counter() - self._began)

    def _find_early(self, reply: Reply) -> dict[int, Call]:
        """Take a reply's early calls, by their positions in it.

        If several calls have the same id, those with the same arguments belong together.
        """
        found: dict[int, Call] = {}
        for is_same in (_is_equal, self._has_same_id):
            for at, part in enumerate(reply.parts):
                same = [pair for pair in self._early if at not in found and is_same(part, *pair)]
                for pair in same[:1]:
                    _expect_same(part, pair[1])
                    found[at] = pair[1]
                    self._early.remove(pair)
        return found

    def _has_same_id(self, part: object, early_id: str, early: Call) -> bool:
        return _is_call(part) and part.id == early_id and early.id not in self._outdated

    def _with_own_id(self, call: _AnyCall) -> _AnyCall:
        own, number = call.id or "call", 1
        while own in self._ids:
            number += 1
            own = f"{call.id or 'call'}-{number}"
        self._ids.add(own)
        return call if own == call.id else replace(call, id=own)


def _is_equal(part: object, early_id: str, early: Call) -> bool:
    return part == replace(early, id=early_id)


def _expect_same(part: object, early: Call) -> None:
    """Raise ModelError if a complete call differs from the started one."""
    if not isinstance(part, Call):
        return
    if part == early:
        return
    if (part.name, _plain_args(part)) != (early.name, _plain_args(early)):
        raise ModelError(
            f"The model streamed the call {early.id!r}, and its Reply has another call with this "
            "id. Yield each Call as it is in the Reply."
        )


def _plain_args(call: Call) -> object:
    """Return a call's arguments as JSON values, or as text if they are none."""
    if not isinstance(call.args, str):
        return dict(call.args)
    try:
        return json.loads(call.args)
    except (ValueError, RecursionError):
        return call.args


def _is_call(part: object) -> TypeGuard[Call | TruncatedCall]:
    return isinstance(part, Call | TruncatedCall)


def _has_own_ids(reply: Reply) -> bool:
    ids = [part.id for part in reply.parts if type(part) is Call or type(part) is TruncatedCall]
    return len(set(ids)) == len(ids) and "" not in ids
