"""Facts about well-known models: prices, as data with a date, and how much they read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from handrail.messages import Price, Usage

Prices: TypeAlias = Mapping[str, Price]
"""Prices by model name. Names with a date or a version after it have the same price."""
_PREFIX = re.compile(r"^(?:.*/|(?:\w+\.)?anthropic\.)")
"""Prefix from gateways and clouds before a model name."""
_SUFFIX = re.compile(r"(?:[-@](?:\d{8}|\d{4}-\d{2}-\d{2}|latest))?(?:-v\d+)?(?::(?!free$)\w+)?")
"""A model's date or version. One offered for free by a gateway is another model."""

_WINDOWS = {
    "claude-": 200_000,
    "gemini-2.5-": 1_048_576,
    "gpt-4.1": 1_047_576,
    "gpt-4o": 128_000,
    "gpt-5-chat": 128_000,
    "gpt-5": 400_000,
}
"""Minimum context windows for well-known models in tokens, by how their names begin."""


class PriceList(NamedTuple):
    """A provider's prices in US dollars."""

    provider: str
    source: str
    """The provider's page."""
    as_of: date
    """When the prices were last checked."""
    prices: Prices


@cache
def known_prices() -> tuple[PriceList, ...]:
    """Return well-known models' prices, by provider. Many models are missing."""
    import tomllib  # rarely needed

    text = Path(__file__).with_name("prices.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text, parse_float=Decimal)
    return tuple([_price_list(**row) for row in data["lists"]])


def cost(usage: Usage, model: str, prices: Prices | None = None) -> Decimal | None:
    """Return the tokens' cost, or None if the model's price is unknown.

    Args:
        usage: The tokens.
        model: The model name, such as ``Reply.model``.
        prices: Your own prices, instead of the known ones.
    """
    table = _all_known() if prices is None else prices
    name = model if model in table else _PREFIX.sub("", model, count=1)
    for known, price in table.items():
        if name.startswith(known) and _SUFFIX.fullmatch(name, len(known)):
            return price.cost(usage)
    return None


def find_window(*names: str) -> int | None:
    """Return a model's context window in tokens, if one of its names is known."""
    plain = [_PREFIX.sub("", name, count=1) for name in names]
    return next(
        (size for name in plain for known, size in _WINDOWS.items() if name.startswith(known)), None
    )


@cache
def _all_known() -> Prices:
    return {name: price for known in known_prices() for name, price in known.prices.items()}


def _price_list(
    *, provider: str, source: str, as_of: date, models: Mapping[str, Mapping[str, Decimal | int]]
) -> PriceList:
    prices = {
        name: Price(**{field: Decimal(value) for field, value in row.items()})
        for name, row in models.items()
    }
    return PriceList(provider, source, as_of, MappingProxyType(prices))
