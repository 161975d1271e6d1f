"""One status and one reason for each way in which an agent stops."""

from __future__ import annotations

from typing import get_args

from handrail.agent import StopReason
from handrail.runs.statuses import REASONS, STATUSES, translate_stop


def test_every_stop_reason_of_an_agent_is_a_status_and_a_reason() -> None:
    stops = [word for part in get_args(StopReason) for word in get_args(part)]

    assert {stop: tuple(translate_stop(stop)) for stop in stops} == {
        "answer": ("done", "answer"),
        "pending": ("waiting", ""),
        "limit": ("done", "limit"),
        "interrupted": ("done", "interrupted"),
        "stopped": ("done", "stopped"),
        "truncated": ("done", "truncated"),
        "refused": ("done", "refused"),
        "empty": ("done", "empty"),
        "invalid": ("done", "invalid"),
    }
    assert STATUSES == ("queued", "running", "waiting", "done", "failed", "cancelled")
    assert {*REASONS} == {*stops} - {"pending"} | {"error"}
