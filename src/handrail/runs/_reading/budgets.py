"""Read what is spent from budgets, by holder, model and tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from typing import Any, Literal, NamedTuple, TypeAlias

from handrail.runs._store.database import Database
from handrail.runs._store.port import Select

BudgetUnit: TypeAlias = Literal["cost", "tokens", "calls"]
"""What a budget counts."""
_BILLION = 1_000_000_000
"""How many stored units of a cost are one of a currency."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetUse:
    """One holder's spending from a budget, in its current window."""

    budget: str
    holder: str
    """The principal, tenant or other name the budget is counted for."""
    unit: BudgetUnit
    began: float
    """When the window began, in seconds since 1970."""
    ends: float
    limit: Decimal
    """The limit, with what a person has added."""
    spent: Decimal
    reserved: Decimal
    """For requests under way."""
    parts: Mapping[str, Decimal] = field(default_factory=dict[str, Decimal])
    """What was spent by model, or by tool if the budget counts calls."""

    @property
    def is_used_up(self) -> bool:
        """Whether the limit is reached."""
        return self.spent >= self.limit


_USES = (
    "SELECT budget, holder, began, ends, unit, most + raised, spent, reserved FROM handrail_budget "
    "WHERE ends > :now AND (:name = '' OR budget = :name) ORDER BY budget, holder LIMIT :limit"
)
_PARTS = (
    "SELECT p.budget, p.holder, p.part, p.spent FROM handrail_budget_part p "
    "JOIN handrail_budget b ON b.budget = p.budget AND b.holder = p.holder AND b.began = p.began "
    "WHERE b.ends > :now AND (:name = '' OR b.budget = :name) ORDER BY p.part"
)
_PART_SUMS = (
    "SELECT b.budget, b.unit, p.part, SUM(p.spent) FROM handrail_budget_part p "
    "JOIN handrail_budget b ON b.budget = p.budget AND b.holder = p.holder AND b.began = p.began "
    "WHERE b.ends > :now GROUP BY b.budget, b.unit, p.part ORDER BY b.budget, p.part"
)
_HOLDERS = (
    "SELECT budget, SUM(CASE WHEN spent >= most + raised THEN 1 ELSE 0 END), COUNT(*) "
    "FROM handrail_budget WHERE ends > :now GROUP BY budget ORDER BY budget"
)
MAX_USES = 10_000


class BudgetCounts(NamedTuple):
    """All budgets, each value with its labels."""

    spent: tuple[tuple[Mapping[str, str], float], ...] = ()
    """By model, or by tool if the budget counts calls."""
    holders: tuple[tuple[Mapping[str, str], float], ...] = ()
    """How many have used theirs up."""


def read_uses(
    select: Select, now: float, *, name: str = "", limit: int = MAX_USES
) -> tuple[BudgetUse, ...]:
    """Return what is spent in the current windows of all budgets, or of one."""
    parts: dict[tuple[str, str], dict[str, int]] = {}
    for budget, holder, part, spent in select(_PARTS, {"now": now, "name": name}):
        parts.setdefault((budget, holder), {})[part] = spent
    rows = select(_USES, {"now": now, "name": name, "limit": limit})
    return tuple(_read_use(row, parts.get((row[0], row[1]), {})) for row in rows)


async def count_budgets(database: Database, now: float) -> BudgetCounts:
    """Return what is spent of each budget, of all holders together."""
    parts = await database.read(_PART_SUMS, now=now)
    holders = await database.read(_HOLDERS, now=now)
    return BudgetCounts(
        tuple(
            ({"budget": budget, "unit": unit, "part": part}, float(as_amount(unit, int(spent))))
            for budget, unit, part, spent in parts
        ),
        tuple(
            ({"budget": budget, "state": state}, float(number))
            for budget, used_up, all_ in holders
            for state, number in (("used_up", used_up), ("open", all_ - used_up))
        ),
    )


def _read_use(row: Sequence[Any], parts: Mapping[str, int]) -> BudgetUse:
    budget, holder, began, ends, unit, *amounts = row
    limit, spent, reserved = (as_amount(unit, one) for one in amounts)
    return BudgetUse(
        budget=budget,
        holder=holder,
        unit=unit,
        began=began,
        ends=ends,
        limit=limit,
        spent=spent,
        reserved=reserved,
        parts={part: as_amount(unit, one) for part, one in parts.items()},
    )


def as_stored(unit: BudgetUnit, amount: Decimal | float) -> int:
    """Return an amount as an integer to store, rounded up."""
    exact = Decimal(str(amount)) * (_BILLION if unit == "cost" else 1)
    return int(exact.to_integral_value(ROUND_CEILING))


def as_amount(unit: BudgetUnit, stored: int) -> Decimal:
    """Return a stored amount in its unit."""
    amount = Decimal(stored)
    return amount / _BILLION if unit == "cost" else amount
