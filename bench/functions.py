"""Distinct typed functions by the thousand, as a catalogue of tools would have them."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field


class Priority(StrEnum):
    LOW = "low"
    HIGH = "high"


class Address(BaseModel):
    street: str
    city: str
    postcode: str
    country: str = "NL"


class Line(BaseModel):
    sku: str
    quantity: int = Field(ge=1)
    unit_price: float


class Receipt(BaseModel):
    order: str
    total: float
    ship_to: Address


SHAPES = {
    "simple": '''
async def find_{i}(query: str, limit: int = 10, tags: list[str] | None = None) -> str:
    """Search the shelf number {i}.

    Args:
        query: What to look for.
        limit: How many to give at most.
        tags: Only those with these labels.
    """
    return query
''',
    "nested": '''
async def order_{i}(
    customer: str, ship_to: Address, lines: list[Line], priority: Priority = Priority.LOW
) -> Receipt:
    """Place an order in the shop number {i}.

    Args:
        customer: Who orders.
        ship_to: Where the goods go.
        lines: What is ordered.
        priority: How urgent it is.
    """
    raise NotImplementedError
''',
}


def functions(shape: str, first: int, count: int) -> list[Callable[..., Any]]:
    """Make ``count`` functions of one shape, numbered from ``first``."""
    source = "".join(SHAPES[shape].format(i=i) for i in range(first, first + count))
    names: dict[str, Any] = {
        "__name__": "bench.made",
        "Address": Address,
        "Line": Line,
        "Priority": Priority,
        "Receipt": Receipt,
    }
    before = set(names)
    exec(compile(source, f"<{shape}>", "exec", dont_inherit=True), names)
    return [value for name, value in names.items() if name not in before | {"__builtins__"}]
