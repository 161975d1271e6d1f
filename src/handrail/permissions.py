"""Permissions: decisions with their origin, approval requests, answers, explanations."""

from handrail._execution.settings import Approvals
from handrail._permissions.checked_call import CheckedCall, Policy
from handrail._permissions.decide import Explains, Matched, Verdict
from handrail._permissions.explanation import Explanation
from handrail._values.approval import Answer, Approver, Ledger, MemoryLedger
from handrail._values.decision import Allow, Ask, Decision, Deny, Origin
from handrail._values.errors import Suspended
from handrail._values.pending import Edit, FileChange, Pending

__all__ = [
    "Allow",
    "Answer",
    "Approvals",
    "Approver",
    "Ask",
    "CheckedCall",
    "Decision",
    "Deny",
    "Edit",
    "Explains",
    "Explanation",
    "FileChange",
    "Ledger",
    "Matched",
    "MemoryLedger",
    "Origin",
    "Pending",
    "Policy",
    "Suspended",
    "Verdict",
]
