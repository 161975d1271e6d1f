"""Permissions: decisions with their origin, approval requests, answers, explanations."""

from handrail._execution.settings import Approvals, FindCredential
from handrail._permissions.checked_call import CheckedCall, Policy
from handrail._permissions.decide import Explains, Matched, Verdict
from handrail._permissions.explanation import Explanation
from handrail._permissions.verify import verify_call
from handrail._turn.record import CallRecords
from handrail._turn.replies import check_answers
from handrail._values.approval import (
    Answer,
    Approver,
    Edit,
    Ledger,
    MemoryLedger,
    report_review,
)
from handrail._values.decision import (
    Allow,
    Approvers,
    Ask,
    CommandPart,
    Decision,
    Deny,
    Grade,
    Origin,
    Review,
)
from handrail._values.errors import Suspended
from handrail._values.pending import FileChange, Pending, PendingKind, Undoable
from handrail._values.saved_answers import read_answer, write_answer

__all__ = [
    "Allow",
    "Answer",
    "Approvals",
    "Approver",
    "Approvers",
    "Ask",
    "CallRecords",
    "CheckedCall",
    "CommandPart",
    "Decision",
    "Deny",
    "Edit",
    "Explains",
    "Explanation",
    "FileChange",
    "FindCredential",
    "Grade",
    "Ledger",
    "Matched",
    "MemoryLedger",
    "Origin",
    "Pending",
    "PendingKind",
    "Policy",
    "Review",
    "Suspended",
    "Undoable",
    "Verdict",
    "check_answers",
    "read_answer",
    "report_review",
    "verify_call",
    "write_answer",
]
