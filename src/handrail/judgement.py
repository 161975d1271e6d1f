"""The words of judgement: decisions with their origin, questions, answers, explanations."""

from handrail._decision import Allow, Ask, Decision, Deny, Origin
from handrail._explanation import Explanation
from handrail._hook import Answer, Approver, Ledger, MemoryLedger
from handrail._pending import Edit, Pending
from handrail._policy import Explains, Matched, Policy, Verdict

__all__ = [
    "Allow",
    "Answer",
    "Approver",
    "Ask",
    "Decision",
    "Deny",
    "Edit",
    "Explains",
    "Explanation",
    "Ledger",
    "Matched",
    "MemoryLedger",
    "Origin",
    "Pending",
    "Policy",
    "Verdict",
]
