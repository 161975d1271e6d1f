"""Remembers for each run what people wrote in it, and what its tools returned."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

from handrail._turn.record import Record
from handrail._turn.turn import Turn
from handrail._values.call import Call
from handrail._values.result import Result

if TYPE_CHECKING:
    from handrail._sources.heard import Heard, HeardCall  # which few runs need

MAX_RUNS = 1_000
"""Runs of which an executor remembers what they have heard. The oldest are dropped first."""


class HeardRuns:
    """Remembers what each run has heard. A run that was forgotten asks more often."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, Heard] = OrderedDict()

    def hear(
        self, run: str | None, said: Iterable[str] | None, heard: Heard | None
    ) -> Heard | None:
        """Return what a turn's run has heard, with what people said; None if they say nothing."""
        if heard is None:
            if said is None and run not in self._runs:
                return None
            heard = self._find(run)
        elif run is not None and heard.follows_turns:
            self._runs[run] = heard
        if said:
            heard.say(*said)
        return heard

    def _find(self, run: str | None) -> Heard:
        """Return what a run has heard. Every turn of a run without a name is a run of its own."""
        from handrail._sources.heard import Heard

        if run is None:
            return Heard()
        heard = self._runs.pop(run, None) or Heard()
        self._runs[run] = heard
        while len(self._runs) > MAX_RUNS:
            self._runs.popitem(last=False)
        return heard


def follow(turn: Turn[Any]) -> Turn[Any]:
    """Return a turn that its run's memory follows."""
    heard = turn.options.heard
    if heard is not None and heard.follows_turns:
        heard.follow(TurnFeed(turn, heard))
    return turn


class TurnFeed:
    """Returns the calls of a turn that have ended.

    It keeps the turn until another one follows and all its calls have ended.
    """

    __slots__ = ("_heard", "_taken", "_turn", "_weak")

    def __init__(self, turn: Turn[Any], heard: Heard) -> None:
        self._turn: Turn[Any] | None = turn
        self._heard = heard
        turn.on_call = self._wake
        self._weak = ref(turn)
        self._taken = set[tuple[str, int]]()

    @property
    def is_idle(self) -> bool:
        """Whether it has returned all calls of an earlier turn."""
        return self._turn is None

    def _wake(self) -> None:
        if self._turn is None:
            self._heard.wake(self)

    def take(self, *, is_last: bool) -> Iterator[HeardCall]:
        """Yield the calls that have ended since this was last called."""
        from handrail._sources.heard import HeardCall

        turn = self._weak()
        if turn is None:
            return
        records: tuple[Record, ...] = turn.records
        if is_last and len(records) == len(self._taken):
            return
        for record in records:
            name, result = (record.call.id, record.nth), record.result
            if result is not None and result.pending is None and name not in self._taken:
                self._taken.add(name)
                yield HeardCall(record.call.name, record.call.args, result)
        has_ended = len(self._taken) == len(records)
        self._turn = None if has_ended and not is_last else turn


class InnerFeed:
    """Returns the ended calls of a call's inner turns, also from another process.

    Answers to its forms are a person's words, unless the form proposed them.
    """

    is_idle = False

    def __init__(self, turns: Mapping[str, Sequence[tuple[Call, Result]]]) -> None:
        self._turns = turns
        self._taken = set[tuple[str, str]]()

    def take(self, *, is_last: bool) -> Iterator[HeardCall | str]:  # noqa: ARG002  a feed's
        """Yield what was heard since this was last called."""
        from handrail._definition.form import FILL_IN, list_answers
        from handrail._sources.heard import HeardCall

        for turn, calls in self._turns.items():
            for call, result in calls:
                if result.pending is not None or (turn, call.id) in self._taken:
                    continue
                self._taken.add((turn, call.id))
                if call.name == FILL_IN:
                    yield from list_answers(call.args, result)
                else:
                    yield HeardCall(call.name, call.args, result)
