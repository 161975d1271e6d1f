"""States of a run as lines of a journal. Each line has only the messages that are new."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import takewhile

from handrail.agent import InvalidState, RunState, dump_state, load_state
from handrail.runs.journal import JournalEntry, JournalLine

STATE = "state"
"""The kind of these lines."""
_SPLIT = ',"state":'


def state_line(state: RunState, kept: int, at: float) -> JournalLine:
    """Return a state as a line, without the messages that it shares with the line before it.

    Raises ValueError for values that JSON cannot represent.
    """
    text = dump_state(state._replace(messages=state.messages[kept:]))
    return JournalLine(STATE, f'{{"at":{at},"kept":{kept}{_SPLIT}{text}}}')


def read_states(entries: Iterable[JournalEntry]) -> Iterator[RunState]:
    """Yield the state after each of these entries. Raises InvalidState if one is not a state."""
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
