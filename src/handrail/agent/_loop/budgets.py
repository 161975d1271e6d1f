"""Budgets several runs share: what an agent needs from one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from handrail import Hook, Json, Tool
from handrail.messages import Model


class Spender(NamedTuple):
    """On whose behalf a request or a call is made."""

    principal: str | None = None
    metadata: Mapping[str, Json] = {}
    run: str = ""
    """The run's id, if it has one."""


class RunBudget(Protocol):
    """Limits what runs spend together. ``handrail.shared.Budget`` is one."""

    @property
    def hooks(self) -> Sequence[Hook]:
        """Hooks that count calls."""
        ...

    @property
    def tools(self) -> Sequence[Tool[..., Any]]:
        """Tools that ask for more."""
        ...

    def check_models(self, names: Iterable[str], /) -> None:
        """Raise ValueError if a model's price is needed and unknown."""
        ...

    def limit(self, model: Model, spender: Spender, /) -> Model:
        """Return a model whose requests are counted, and refused at the limit."""
        ...


Budgets: TypeAlias = RunBudget | Sequence[RunBudget]
"""One budget, or several that all apply."""


def list_budgets(budgets: Budgets) -> tuple[RunBudget, ...]:
    """Return budgets in a tuple."""
    return tuple(budgets) if isinstance(budgets, Sequence) else (budgets,)


def apply_budgets(model: Model, budgets: Iterable[RunBudget], spender: Spender) -> Model:
    """Return a model limited by all budgets, each applied once."""
    for budget in dict.fromkeys(budgets):
        model = budget.limit(model, spender)
    return model
