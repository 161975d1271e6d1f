"""Estimate a request's cost before it is sent, and the cost of an incomplete reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias

from handrail import Text
from handrail.messages import (
    NO_USAGE,
    ArgsDelta,
    Delta,
    Message,
    Price,
    Prompt,
    Reply,
    Request,
    Restart,
    ToolResults,
    Usage,
)
from handrail.models import cost
from handrail.runs.records import BudgetUnit, as_stored

Estimate: TypeAlias = Callable[[Request], Usage]
"""Returns the tokens a request may use at most."""
Prices: TypeAlias = Mapping[str, Price] | Price | None
_CHARS_PER_TOKEN = 3
"""Fewer than text has: an estimate must not be too low."""
_MEDIA_TOKENS = 2_000
_OUTPUT_TOKENS = 4_096
"""The reply's maximum, if the request has none."""


def estimate_tokens(request: Request) -> Usage:
    """Return how many tokens a request may use: its text, and the longest reply."""
    text = len(request.system) + sum(map(_count_chars, request.messages))
    for spec in request.tools.specs:
        text += len(spec.description) + len(str(spec.input_schema))
    output = request.max_tokens or _OUTPUT_TOKENS
    return Usage(input_tokens=text // _CHARS_PER_TOKEN + 1, output_tokens=output)


def _count_chars(message: Message) -> int:
    if isinstance(message, ToolResults):
        media = sum(len(result.parts) for result in message.results)
        return sum(len(one.text) for one in message.results) + media * _MEDIA_CHARS
    if isinstance(message, Prompt):
        return sum(
            len(part.text) if isinstance(part, Text) else _MEDIA_CHARS for part in message.parts
        )
    return len(message.text) + sum(len(str(call.args)) for call in message.calls)


_MEDIA_CHARS = _MEDIA_TOKENS * _CHARS_PER_TOKEN


class Received:
    """Counts the received part of a reply."""

    def __init__(self) -> None:
        self._chars = 0
        self._replies: list[Reply] = []

    def see(self, item: object) -> None:
        """Count an item of a stream."""
        if isinstance(item, Reply):
            self._replies.append(item)
        elif isinstance(item, Delta | ArgsDelta):
            self._chars += len(item.text)
        elif isinstance(item, Restart):
            self._chars += 1  # its tokens were used as well

    @property
    def model(self) -> str:
        """The reply's model, if it names one."""
        return self._replies[-1].model if self._replies else ""

    def usage(self, known: Usage, estimate: Usage) -> Usage:
        """Return the tokens used: reported, or estimated if the model reports none."""
        reported = self._replies[-1].usage if self._replies else known
        if reported != NO_USAGE:
            return reported
        if self._replies:
            self._chars = max(self._chars, _count_chars(self._replies[-1]))
        elif not self._chars:
            return NO_USAGE  # nothing has arrived
        output = self._chars // _CHARS_PER_TOKEN + 1
        return Usage(input_tokens=estimate.input_tokens, output_tokens=output)


def find_price(usage: Usage, names: Sequence[str], prices: Prices) -> Decimal | None:
    """Return what tokens cost with the first known model, or with the most expensive one."""
    if isinstance(prices, Price):
        return prices.cost(usage)
    found = [cost(usage, name, prices) for name in names]
    known = [one for one in found if one is not None]
    return max(known) if known and len(known) == len(names) else None


def as_units(unit: BudgetUnit, usage: Usage, names: Sequence[str], prices: Prices) -> int:
    """Return tokens as a stored amount, rounded up."""
    if unit == "tokens":
        return usage.total
    price = find_price(usage, names, prices)
    return as_stored(unit, price or Decimal(0))
