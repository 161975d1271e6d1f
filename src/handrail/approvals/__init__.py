"""Approvals: ways to answer a question that a policy asks, now or days later.

``terminal`` asks a person, and needs the extra ``handrail[terminal]``; ``callback`` asks a function
of yours; ``defer`` hands every question back. ``seal`` and ``unseal`` take a question out of the
process and back, and ``FileLedger`` makes each answer count once, across processes. ``prompt`` and
``displayed`` make texts from outside safe to show, for a screen of your own.
"""

from handrail.approvals._answers import Reply, callback, defer
from handrail.approvals._display import Displayed, displayed
from handrail.approvals._ledger import FileLedger
from handrail.approvals._prompt import Line, Prompt, prompt
from handrail.approvals._remember import Proposal, Remembers, Scope
from handrail.approvals._seal import Tampered, seal, unseal
from handrail.approvals._terminal import terminal

__all__ = [
    "Displayed",
    "FileLedger",
    "Line",
    "Prompt",
    "Proposal",
    "Remembers",
    "Reply",
    "Scope",
    "Tampered",
    "callback",
    "defer",
    "displayed",
    "prompt",
    "seal",
    "terminal",
    "unseal",
]
