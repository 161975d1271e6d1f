"""Recorded replies and turns as JSON text, and what a run has when they are read again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NamedTuple, cast

from handrail import Call, Result
from handrail.agent._history.codec import (
    decode_message,
    decode_usage,
    dump_values,
    encode_message,
    encode_usage,
    parse_values,
)
from handrail.agent._history.state import (
    BackgroundCall,
    RunState,
    find_background,
    report_ended,
    requests,
    result_without_run,
)
from handrail.messages import (
    ModelError,
    Reply,
    ToolResults,
    Usage,
    read_result,
    write_result,
)


class TurnRecord(NamedTuple):
    """A turn's results, and the tokens of its sub-agents."""

    results: tuple[Result, ...]
    stop_reason: str | None
    usage: Usage
    cost: Decimal
    approved: tuple[str, ...] = ()
    """The ids of approved requests whose calls wait behind other ones."""
    background: tuple[str, ...] = ()
    """The background calls' ids."""


_ERROR_FIELDS = ("reason", "kind", "hint", "status", "code", "retry_after", "request_id")


def dump_reply(reply: Reply) -> str:
    """Return a reply as JSON text."""
    return json.dumps(encode_message(reply))


def dump_error(error: ModelError) -> str:
    """Return a model's failure as JSON text."""
    failed = {name: getattr(error, name) for name in _ERROR_FIELDS}
    return json.dumps({"error": failed, "usage": encode_usage(error.usage)})


def load_reply(text: str) -> Reply:
    """Return a recorded reply. Raises the ModelError recorded in its place."""
    plain: dict[str, Any] = json.loads(text)
    if "error" not in plain:
        return cast("Reply", decode_message(plain))
    failed = dict(plain["error"])
    error = ModelError(failed.pop("reason"), failed.pop("kind"), **failed)
    error.usage = decode_usage(plain["usage"])
    raise error


def dump_turn(record: TurnRecord) -> str:
    """Return a turn as JSON text."""
    return dump_values(
        {
            "results": [write_result(result) for result in record.results],
            "stop_reason": record.stop_reason,
            "usage": encode_usage(record.usage),
            "cost": str(record.cost),
            "approved": record.approved,
            "background": record.background,
        }
    )


def load_turn(text: str) -> TurnRecord:
    """Return what ``dump_turn`` saved."""
    plain: dict[str, Any] = parse_values(text)
    return TurnRecord(
        tuple(read_result(item) for item in plain["results"]),
        plain["stop_reason"],
        decode_usage(plain["usage"]),
        Decimal(plain["cost"]),
        tuple(plain.get("approved", ())),
        tuple(plain.get("background", ())),
    )


def add_steps(state: RunState, steps: Iterable[str]) -> RunState:
    """Return a run's state after its recorded steps: replies, turns and ended background calls.

    It has their messages. The tokens and what the run counts against limits are not in it.
    """
    for text in steps:
        plain: Any = json.loads(text)
        if text.startswith("["):
            state = _end_background(state, plain)
        elif "reply" in plain:
            state = _add_reply(state, load_reply(text))
        elif "results" in plain:
            state = _add_turn(state, load_turn(text))
    return state


def _add_reply(state: RunState, reply: Reply) -> RunState:
    if state.open:  # the executor got none of these calls
        state = _add_results(state, {})
    return state._replace(
        messages=(*state.messages, *state.inbox, reply),
        inbox=(),
        turns=state.turns + 1,
        calls=state.calls + len(reply.calls),
    )


def _add_turn(state: RunState, turn: TurnRecord) -> RunState:
    calls = requests(cast("Reply", state.messages[-1]))
    left = [one for one in calls if isinstance(one, Call) and one.id in turn.background]
    began = [BackgroundCall(one, str(state.turns)) for one in left]
    results = {result.call_id: result for result in turn.results}
    return _add_results(state, results)._replace(background=(*state.background, *began))


def _add_results(state: RunState, ran: dict[str, Result]) -> RunState:
    """Return the state with a result for each open call. It waits if some are pending."""
    before = {result.call_id: result for result in state.waiting} | ran
    calls = requests(cast("Reply", state.messages[-1]))
    results = tuple(
        before.get(call.id) or result_without_run(call, is_over_limit=False, again=False)
        for call in calls
    )
    if any(result.pending is not None for result in results):
        return state._replace(waiting=results)
    return state._replace(messages=(*state.messages, ToolResults(results)), waiting=())


def _end_background(state: RunState, ended: list[Any]) -> RunState:
    for turn_id, plain in ended:
        result = read_result(plain)
        begun = find_background(state.background, turn_id, result.call_id)
        others = tuple(one for one in state.background if one is not begun)
        report = report_ended(begun.call, result)
        state = state._replace(background=others, inbox=(*state.inbox, report))
    return state
