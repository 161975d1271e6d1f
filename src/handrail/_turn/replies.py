"""Run a reply's calls, complete or still arriving, and resume waiting ones."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

from handrail._definition.tool import check_deps
from handrail._support import close_generator
from handrail._turn.turn import Turn
from handrail._values.approval import Answer
from handrail._values.call import Call
from handrail._values.pending import Pending
from handrail._values.result import Result
from handrail.messages import ModelError, Reply, Restart, StreamItem, ToolResults, TruncatedCall


class ReplyCalls:
    """One reply's calls, as they arrive, and their results in reply order."""

    def __init__(
        self,
        given: Reply | AsyncIterable[StreamItem],
        turn: Turn[Any],
        show: Callable[[StreamItem], object] | None,
    ) -> None:
        self._given = given
        self._turn = turn
        self._show = show
        self._sent: list[Call] = []
        self._valid_from = 0
        self._places: list[int] = []

    def calls(self) -> Iterable[Call] | AsyncIterable[Call]:
        """Return the calls to run."""
        if isinstance(self._given, Reply):
            return self._match(self._given)
        return self._read(self._given)

    def results(self, ran: list[Result]) -> ToolResults:
        """Return one result for each call in the reply, from its turn's results."""
        ran, places = ran[len(ran) - len(self._sent) :], iter(self._places)
        calls = [one for one in self._turn.reply.parts if isinstance(one, Call | TruncatedCall)]
        return ToolResults(
            tuple([ran[next(places)] if isinstance(one, Call) else one.refuse() for one in calls])
        )

    async def _read(self, stream: AsyncIterable[StreamItem]) -> AsyncIterator[Call]:
        reply = None
        try:
            async for item in stream:
                if self._show is not None:
                    self._show(item)
                match item:
                    case Call():
                        self._sent.append(item)
                        yield item
                    case Reply():
                        reply = item
                    case Restart():
                        self._drop(self._sent[self._valid_from :])
                        self._valid_from = len(self._sent)
                    case _:
                        pass
        finally:
            await close_generator(stream)
        if reply is None:
            raise ModelError("The model's stream ended without a Reply.")
        for call in self._match(reply):
            yield call

    def _match(self, reply: Reply) -> list[Call]:
        """Find a reply's calls among the sent ones, and return the others to run.

        Sent calls missing from the reply are stopped. Those with effects have not run:
        they start when all have arrived. A refused reply has no calls.
        """
        if reply.stop == "refused":
            others = [one for one in reply.parts if not isinstance(one, Call | TruncatedCall)]
            reply = replace(reply, parts=tuple(others))
        self._turn.reply = reply
        left = list(range(self._valid_from, len(self._sent)))
        found = [_take(left, self._sent, call) for call in reply.calls]
        self._drop([self._sent[place] for place in left])
        more = [call for call, place in zip(reply.calls, found, strict=True) if place is None]
        last = iter(range(len(self._sent), len(self._sent) + len(more)))
        self._sent += more
        self._places = [next(last) if place is None else place for place in found]
        return more

    def _drop(self, calls: list[Call]) -> None:
        if calls:
            self._turn.cancel(*[call.id for call in calls])


def _take(left: list[int], sent: list[Call], call: Call) -> int | None:
    """Return an equal call's first place left, and remove it from them."""
    for place in left:
        if sent[place] == call:
            left.remove(place)
            return place
    return None


class WaitingCalls:
    """One reply's pending calls, and answers to some.

    Those only waiting for other calls need no answer. Raises LookupError for an answer to a
    closed request.
    """

    def __init__(self, saved: ToolResults, answers: Mapping[str, Answer]) -> None:
        open_ = [one.pending for one in saved.results if one.pending is not None]
        check_answers(answers, [request for one in open_ for request in one.requests])
        self._saved = saved
        self._answers = answers
        self._open = sorted(open_, key=attrgetter("position"))
        self._ready = [one for one in self._open if one.id in answers or one.kind == "waiting"]

    @property
    def first(self) -> Pending | None:
        """The first pending call, if there is one."""
        return self._open[0] if self._open else None

    def answer(self, turn: Turn[Any]) -> None:
        """Run the ready calls. The others stay pending.

        Raises DefinitionError if one needs deps, and there are none: its approval is not used.
        """
        found = [turn.tools.find(one.call.name) for one in self._ready]
        for tool in filter(None, found if turn.deps is None else ()):
            check_deps(tool, "`executor.resume`")
        keys = {pending.key for pending in self._open}
        turn.adopt(*[one for one in self._open if one not in self._ready])
        for one in self._ready:
            after = tuple([key for key in one.after if key in keys])  # the others have ended
            turn.answer(replace(one, after=after), self._answers.get(one.id))

    def merge(self, ran: list[Result]) -> ToolResults:
        """Return all results, in call order."""
        new = {pending.id: result for pending, result in zip(self._ready, ran, strict=True)}
        results = self._saved.results
        return ToolResults(
            tuple([new.get(one.pending.id, one) if one.pending else one for one in results])
        )


def check_answers(given: Iterable[str], requests: Iterable[Pending]) -> None:
    """Refuse answers to closed questions. Raises LookupError."""
    open_ = {pending.id: pending for pending in requests}
    for pending_id in given:
        if pending_id in open_:
            continue
        for one in open_.values():
            if any(replace(one, round=number).id == pending_id for number in range(one.round)):
                raise LookupError(_ASKED_AGAIN.format(pending_id, one.id))
        asked = [repr(one.id) for one in open_.values() if one.kind != "waiting"]
        listed = ", ".join(asked) or "none"
        raise LookupError(f"There is no open question {pending_id!r}. Open questions: {listed}.")


_ASKED_AGAIN = (
    "The question {!r} is outdated: it was asked again as {!r}, since the call changed. Show the "
    "new question, and answer that."
)
