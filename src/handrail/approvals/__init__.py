"""Approvals: ways to answer a question that a policy asks, now or days later.

``terminal`` asks a person, and needs the extra ``handrail[terminal]``; ``callback`` asks a function
of yours; ``defer`` hands every question back. ``seal`` and ``unseal`` take a question out of the
process and back, and ``FileLedger`` makes each answer count once, across processes. ``prompt`` and
``displayed`` make texts from outside safe to show, for a screen of your own.
"""

from typing import TYPE_CHECKING

from handrail._door import door

if TYPE_CHECKING:
    from handrail.approvals._answers import Reply, callback, defer
    from handrail.approvals._display import Displayed, displayed
    from handrail.approvals._ledger import FileLedger
    from handrail.approvals._prompt import Line, Prompt, prompt
    from handrail.approvals._remember import Proposal, Remembers, Scope
    from handrail.approvals._seal import Tampered, pending_from_json, pending_to_json, seal, unseal
    from handrail.approvals._terminal import terminal
else:
    _HOMES = {
        "Displayed": "_display",
        "FileLedger": "_ledger",
        "Line": "_prompt",
        "Prompt": "_prompt",
        "Proposal": "_remember",
        "Remembers": "_remember",
        "Reply": "_answers",
        "Scope": "_remember",
        "Tampered": "_seal",
        "callback": "_answers",
        "defer": "_answers",
        "displayed": "_display",
        "pending_from_json": "_seal",
        "pending_to_json": "_seal",
        "prompt": "_prompt",
        "seal": "_seal",
        "terminal": "_terminal",
        "unseal": "_seal",
    }

    __getattr__, __dir__ = door(__name__, _HOMES, globals())


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
    "pending_from_json",
    "pending_to_json",
    "prompt",
    "seal",
    "terminal",
    "unseal",
]
