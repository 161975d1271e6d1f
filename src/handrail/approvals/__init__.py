"""Approvals: answer approval requests at a terminal, with your own function, or days later.

``terminal`` prompts a person, and needs the extra ``handrail[terminal]``; ``callback`` calls your
function; ``defer`` leaves every request pending. ``sign_pending`` and ``verify_pending`` move a
pending call between processes. ``FileLedger`` records which approvals were used, so that each works
once. ``render_request`` and ``make_printable`` make untrusted text safe to show in your own UI.
"""

from typing import TYPE_CHECKING

from handrail._support.lazy import make_lazy

if TYPE_CHECKING:
    from handrail.approvals._display import Printable, RenderedLine, make_printable
    from handrail.approvals._functions import TerminalAnswer, callback, defer
    from handrail.approvals._ledger import FileLedger
    from handrail.approvals._prompt import RenderedRequest, render_request
    from handrail.approvals._remember import Proposal, Remembers, Scope
    from handrail.approvals._signing import Tampered, sign_pending, verify_pending
    from handrail.approvals._terminal import terminal
else:
    _HOMES = {
        "FileLedger": "_ledger",
        "Printable": "_display",
        "Proposal": "_remember",
        "Remembers": "_remember",
        "RenderedLine": "_display",
        "RenderedRequest": "_prompt",
        "Scope": "_remember",
        "Tampered": "_signing",
        "TerminalAnswer": "_functions",
        "callback": "_functions",
        "defer": "_functions",
        "make_printable": "_display",
        "render_request": "_prompt",
        "sign_pending": "_signing",
        "terminal": "_terminal",
        "verify_pending": "_signing",
    }

    __getattr__, __dir__ = make_lazy(__name__, _HOMES, globals())


__all__ = [
    "FileLedger",
    "Printable",
    "Proposal",
    "Remembers",
    "RenderedLine",
    "RenderedRequest",
    "Scope",
    "Tampered",
    "TerminalAnswer",
    "callback",
    "defer",
    "make_printable",
    "render_request",
    "sign_pending",
    "terminal",
    "verify_pending",
]
