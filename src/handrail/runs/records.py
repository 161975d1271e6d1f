"""Values for pages, audits and exports, and functions gathering them."""

from handrail.runs._reading.budgets import BudgetUnit, BudgetUse, as_amount, as_stored
from handrail.runs._reading.exports import events_as_csv, events_as_jsonl, read_event_pages
from handrail.runs._reading.past_calls import (
    PastCall,
    list_runs,
    past_call,
    read_call_records,
    read_past_calls,
)
from handrail.runs._reading.paths import from_path, to_path
from handrail.runs._reading.values import (
    CallRecord,
    CallRow,
    CallsPage,
    EventQuery,
    EventRecord,
    EventsPage,
    Fleet,
    InboxPage,
    InboxRow,
    ModelTokens,
    QueueRow,
    RequestRecord,
    RuleCount,
    RunFigures,
    RunPart,
    RunsPage,
    RunSummary,
    TurnRow,
    Vote,
    WorkerRow,
)
from handrail.runs._store.removal import as_holder
from handrail.runs.answers import AnswerRecord
from handrail.runs.journal import EventRow

__all__ = [
    "AnswerRecord",
    "BudgetUnit",
    "BudgetUse",
    "CallRecord",
    "CallRow",
    "CallsPage",
    "EventQuery",
    "EventRecord",
    "EventRow",
    "EventsPage",
    "Fleet",
    "InboxPage",
    "InboxRow",
    "ModelTokens",
    "PastCall",
    "QueueRow",
    "RequestRecord",
    "RuleCount",
    "RunFigures",
    "RunPart",
    "RunSummary",
    "RunsPage",
    "TurnRow",
    "Vote",
    "WorkerRow",
    "as_amount",
    "as_holder",
    "as_stored",
    "events_as_csv",
    "events_as_jsonl",
    "from_path",
    "list_runs",
    "past_call",
    "read_call_records",
    "read_event_pages",
    "read_past_calls",
    "to_path",
]
