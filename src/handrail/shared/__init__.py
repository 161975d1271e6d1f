"""State for all processes: budgets, rate limits and remembered approvals, stored with the runs.

Needs no extra for a SQLite file, and ``handrail[postgres]`` for PostgreSQL.
"""

from typing import TYPE_CHECKING

from handrail._support.lazy import make_lazy

if TYPE_CHECKING:
    from handrail.shared._approvals import SharedApprovals
    from handrail.shared._budget import Budget
    from handrail.shared._rates import SharedRates
else:
    _MODULES = {
        "_approvals": "SharedApprovals",
        "_budget": "Budget",
        "_rates": "SharedRates",
    }

    __getattr__, __dir__ = make_lazy(__name__, _MODULES, globals())


__all__ = ["Budget", "SharedApprovals", "SharedRates"]
