"""Take the state of a run at one of its turns, to start another run from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from handrail import HandrailError, Text
from handrail.agent import RunState
from handrail.messages import Reply


class CannotFork(HandrailError):
    """The run has no complete turn of this number."""


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
    state = of_turn[-1]._replace(run_id="", inner=())
    return state if text is None else edit_reply(state, text)


def edit_reply(state: RunState, text: str) -> RunState:
    """Return a state with another text in its last reply. Its calls and their results stay."""
    at, reply = [
        (at, message) for at, message in enumerate(state.messages) if isinstance(message, Reply)
    ][-1]
    others = [part for part in reply.parts if not isinstance(part, Text)]
    edited = replace(reply, parts=(Text(text), *others))
    return state._replace(messages=(*state.messages[:at], edited, *state.messages[at + 1 :]))
