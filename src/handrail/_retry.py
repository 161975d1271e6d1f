"""How long to wait before a call is tried again."""

from __future__ import annotations

import random

from handrail._effect import READ
from handrail._spec import Retry, Spec


def may_repeat(spec: Spec) -> bool:
    """Whether doing it twice is the same as doing it once."""
    return spec.effect == READ or spec.idempotent


def too_long(retry: Retry, retry_after: float | None) -> bool:
    """Whether whoever was asked wants to be left alone for longer than we would ever wait."""
    return retry_after is not None and not retry_after <= retry.cap


def pause(retry: Retry, attempt: int, retry_after: float | None) -> float:
    """Seconds before the next attempt: what was asked for, or a random part of a doubling wait."""
    if retry_after is not None:
        return max(0.0, retry_after)
    ceiling = min(retry.cap, retry.base * 2 ** (attempt - 1))
    return random.uniform(0, ceiling)  # noqa: S311  so that many callers do not come back at once
