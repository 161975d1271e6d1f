"""What the doors of frameworks share."""

from __future__ import annotations

import json
from typing import Any

from handrail import Approvals, Call, Executor, Hook, LongResults, Toolset
from handrail.permissions import MemoryLedger
from joints.case import Case


def make_executor(case: Case, ledger: MemoryLedger, *watching: Hook) -> Executor:
    """Return an executor without an approver, so that the framework asks."""
    options: dict[str, Any] = {"long_results": LongResults(reader="always"), **case.options}
    options.setdefault("approvals", Approvals(ledger=ledger))
    options["hooks"] = [*options.get("hooks", ()), *watching]
    return Executor(Toolset(*case.tools), **options)


def to_text(call: Call) -> str:
    """Return the arguments of a call as a model sends them."""
    return call.args if isinstance(call.args, str) else json.dumps(dict(call.args))


def next_calls(case: Case, replies: int) -> tuple[Call, ...]:
    """Return the calls of the next reply."""
    return case.replies[replies] if replies < len(case.replies) else ()
