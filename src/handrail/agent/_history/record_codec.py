"""Recorded replies and turns as JSON text."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, NamedTuple, cast

from handrail import Result
from handrail.agent._history.codec import (
    decode_message,
    decode_usage,
    dump_values,
    encode_message,
    encode_usage,
    parse_values,
)
from handrail.messages import ModelError, Reply, Usage, read_result, write_result


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
