"""Read durable rows: a run's status, and its messages up to a turn."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from handrail import Json
from handrail.agent import Agent, RunState, add_steps, dump_state, load_state
from handrail.messages import Reply
from handrail.permissions import Deny, read_answer
from handrail.runs.journal import JournalEntry
from handrail.runs.states import STATE, edit_reply, read_states
from handrail.runs.statuses import RunReason, RunStatus

if TYPE_CHECKING:
    from handrail.runs._durable.orders import Served
    from handrail.runs._durable.rows import Rows, RunRow


@dataclass(frozen=True, slots=True, kw_only=True)
class DurableRun:
    """Where a run stands, and its outcome if it has ended."""

    id: str
    agent: str
    principal: str | None
    status: RunStatus
    began: float
    """When the run was started, in seconds since 1970."""
    changed: float
    """When its status last changed."""
    reason: RunReason = ""
    """Why it ended, in a word."""
    why: str = ""
    """Why it ended, in a sentence; often empty."""
    metadata: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """More facts for hooks, policies and tools, as given to ``start``."""
    _saved: str | None = field(default=None, repr=False)
    _agent: Agent[Any] | None = field(default=None, repr=False, compare=False)
    _read: list[RunState] = field(default_factory=list[RunState], repr=False, compare=False)

    @property
    def state(self) -> RunState | None:
        """The messages and results in an ended run, parsed on demand."""
        if self._saved is None:
            return None
        if not self._read:
            self._read.append(load_state(self._saved))
        return self._read[0]

    @property
    def text(self) -> str:
        """The text in the model's last reply."""
        state = self.state
        messages = () if state is None else state.messages
        replies = [message for message in messages if isinstance(message, Reply)]
        return replies[-1].text if replies else ""

    @property
    def output(self) -> Any:
        """The answer: as the agent's ``output`` type, or the text. None if there is none.

        Only a process with the agent knows the type. In others it is None.
        """
        if self._agent is None or self.state is None or self.reason != "answer":
            return None
        return self._agent.read_output(self.state)


def read_run(row: RunRow, *, whole: bool = True, served: Served | None = None) -> DurableRun:
    """Return where a run stands; its messages only if it is read as a whole."""
    reason, why, saved = "", "", None
    if row.outcome is not None and row.status in ("done", "failed"):
        reason, why, saved = json.loads(row.outcome)
    return DurableRun(
        id=row.id,
        agent=row.agent,
        principal=row.principal,
        status=cast("RunStatus", row.status),
        began=row.began,
        changed=row.changed,
        reason=cast("RunReason", reason),
        why=why,
        metadata=json.loads(row.metadata),
        _saved=saved if whole else None,
        _agent=None if served is None else served.agent,
    )


async def read_whole(rows: Rows, row: RunRow, served: Served | None) -> DurableRun:
    """Return where a run stands, and its outcome.

    A cancelled run's worker has written none: its messages are those of its recorded steps.
    """
    run = read_run(row, served=served)
    if row.status != "cancelled":
        return run
    return replace(run, _saved=dump_state(await _read_cancelled(rows, row)))


async def _read_cancelled(rows: Rows, row: RunRow) -> RunState:
    """Return a cancelled run's state. Calls without a recorded result have unknown ones."""
    ahead = await _read_opening(rows, row.id, row.segment + 1)  # its row may be a moment behind
    state = ahead or await _read_opening(rows, row.id, row.segment) or _read_saved(row)
    steps = await rows.steps_of(row.id, row.segment + (ahead is not None))
    allowed = set[str]()
    if state.waiting and steps:
        given = {id_: read_answer(json.loads(one)) for id_, one in json.loads(steps[0]).items()}
        allowed = {id_ for id_, answer in given.items() if not isinstance(answer, Deny)}
        steps = steps[1:]
    return add_steps(state, steps).abandon(allowed)


async def _read_opening(rows: Rows, run: str, segment: int) -> RunState | None:
    """Return the state in which a segment began, if it is there."""
    bodies = await rows.states_of(run, segment)
    is_there = len(bodies) > len(await rows.states_of(run, segment - 1))
    entries = [JournalEntry(run, at, STATE, one, "") for at, one in enumerate(bodies)]
    return list(read_states(entries))[-1] if is_there else None


def _read_saved(row: RunRow) -> RunState:
    """Return the state of a run that had failed, and was resumed."""
    saved = None if row.outcome is None else json.loads(row.outcome)[2]
    return RunState() if saved is None else load_state(saved)


def fork_run(
    state: RunState, turn: int | None, *, text: str | None = None, new_id: str | None = None
) -> RunState:
    """Return a new run's state: another run's after a turn, or after its last one."""
    count = state.turns if turn is None else turn
    forked = RunState(
        messages=_first_turns(state, count),
        turns=count,
        run_id=uuid.uuid4().hex if new_id is None else new_id,
    )
    return forked if text is None else edit_reply(forked, text)


def _first_turns(state: RunState, turn: int) -> tuple[Any, ...]:
    """Return the messages up to a turn's end: its reply, and its calls' results."""
    seen = 0
    for index, message in enumerate(state.messages):
        if isinstance(message, Reply):
            if seen == turn:
                return state.messages[:index]
            seen += 1
    if seen < turn:
        raise ValueError(f"The run has {seen} turns, so it cannot be forked after turn {turn}.")
    return state.messages
