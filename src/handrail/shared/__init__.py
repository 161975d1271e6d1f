"""Limits for all processes together: budgets, stored in SQLite or PostgreSQL with the runs.

Needs no extra for a SQLite file, and ``handrail[postgres]`` for PostgreSQL.
"""

from typing import TYPE_CHECKING

from handrail._support.lazy import make_lazy

if TYPE_CHECKING:
    from handrail.shared._budget import Budget
else:
    _MODULES = {"_budget": "Budget"}

    __getattr__, __dir__ = make_lazy(__name__, _MODULES, globals())


__all__ = ["Budget"]
