"""Run states: as journal lines, each with only its new messages, and as forks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from handrail import HandrailError, Text
from handrail.agent import InvalidState, RunState, dump_state, load_state
from handrail.messages import Reply
from handrail.runs.journal import JournalEntry, JournalLine

STATE = "state"
"""The kind for these lines."""
_SPLIT = ',"state":'


def state_line(state: RunState, kept: int, at: float) -> JournalLine:
    """Return a state as a line, without messages shared with the line before it.

    Raises ValueError for values JSON cannot represent.
    """
    text = dump_state(state._replace(messages=state.messages[kept:]))
    return JournalLine(STATE, f'{{"at":{at},"kept":{kept}{_SPLIT}{text}}}')


def read_states(entries: Iterable[JournalEntry]) -> Iterator[RunState]:
    """Yield the state after each entry. Raises InvalidState if one is not a state."""
    state = RunState()
    for entry in entries:
        state = _read(entry, state)
        yield state


def _read(entry: JournalEntry, before: RunState) -> RunState:
    start, _, rest = entry.body.partition(_SPLIT)
    try:
        kept = json.loads(f"{start}}}")["kept"]
    except (ValueError, LookupError, TypeError, RecursionError):
        kept = None
    if type(kept) is not int or not 0 <= kept <= len(before.messages):
        raise InvalidState(f"Not a saved run state: entry {entry.number} of run {entry.run}.")
    new = load_state(rest[:-1])
    return new._replace(messages=(*before.messages[:kept], *new.messages))


def count_shared(before: RunState, state: RunState) -> int:
    """Return how many messages two states have in common at their beginning."""
    count = len(before.messages)
    if state.messages[:count] == before.messages:
        return count
    pairs = zip(before.messages, state.messages, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


class CannotFork(HandrailError):
    """The run has no complete turn with this number."""


def fork_state(states: Sequence[RunState], turn: int | None, text: str | None = None) -> RunState:
    """Return the state after a turn, without its run's id.

    Args:
        states: The states of the run, in order.
        turn: The number of the turn. Default: the last one that is complete.
        text: Text to put in place of the model's text in that turn.
    """
    complete = [state for state in states if state.turns and not (state.waiting or state.open)]
    of_turn = [state for state in complete if turn is None or state.turns == turn]
    if not of_turn:
        known = ", ".join(str(number) for number in sorted({state.turns for state in complete}))
        wanted = "turn" if turn is None else f"turn {turn}"
        raise CannotFork(f"the run has no complete {wanted}; complete turns: {known or 'none'}")
    state = of_turn[-1]._replace(run_id="")
    return state if text is None else edit_reply(state, text)


def edit_reply(state: RunState, text: str) -> RunState:
    """Return a state with another text in its last reply. Its calls and their results stay."""
    at, reply = [
        (at, message) for at, message in enumerate(state.messages) if isinstance(message, Reply)
    ][-1]
    others = [part for part in reply.parts if not isinstance(part, Text)]
    edited = replace(reply, parts=(Text(text), *others))
    return state._replace(messages=(*state.messages[:at], edited, *state.messages[at + 1 :]))
