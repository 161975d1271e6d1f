"""Approvals: answer approval requests at a terminal, with your own function, or days later.

``terminal`` prompts a person, and needs the extra ``handrail[terminal]``. So does
``ask_at_terminal``, for a model's questions. ``callback`` calls your function. ``reviewed_by`` lets
a second model allow calls, where a rule permits it. ``defer`` leaves every request pending.
``sign_pending`` and ``verify_pending`` move a pending call between processes. ``FileLedger``
records used approvals, to make each work only once. ``render_request`` and ``make_printable`` make
untrusted text safe to show in your own UI.
"""

from typing import TYPE_CHECKING

from handrail._support.lazy import make_lazy

if TYPE_CHECKING:
    from handrail.approvals._display import Printable, RenderedLine, make_printable
    from handrail.approvals._form import Form, FormField, read_form
    from handrail.approvals._functions import TerminalAnswer, callback, defer
    from handrail.approvals._ledger import FileLedger
    from handrail.approvals._prompt import RenderedRequest, render_request
    from handrail.approvals._remember import Proposal, Remembers, Scope
    from handrail.approvals._review.reviewer import Reviewer, reviewed_by
    from handrail.approvals._signing import Tampered, sign_pending, verify_pending
    from handrail.approvals._terminal import ask_at_terminal, terminal
    from handrail.approvals._view import RequestView, diff_rows, name_grade, view_request
else:
    _MODULES = {
        "_display": "Printable RenderedLine make_printable",
        "_form": "Form FormField read_form",
        "_functions": "TerminalAnswer callback defer",
        "_ledger": "FileLedger",
        "_prompt": "RenderedRequest render_request",
        "_remember": "Proposal Remembers Scope",
        "_review.reviewer": "Reviewer reviewed_by",
        "_signing": "Tampered sign_pending verify_pending",
        "_terminal": "ask_at_terminal terminal",
        "_view": "RequestView diff_rows name_grade view_request",
    }

    __getattr__, __dir__ = make_lazy(__name__, _MODULES, globals())


__all__ = [
    "FileLedger",
    "Form",
    "FormField",
    "Printable",
    "Proposal",
    "Remembers",
    "RenderedLine",
    "RenderedRequest",
    "RequestView",
    "Reviewer",
    "Scope",
    "Tampered",
    "TerminalAnswer",
    "ask_at_terminal",
    "callback",
    "defer",
    "diff_rows",
    "make_printable",
    "name_grade",
    "read_form",
    "render_request",
    "reviewed_by",
    "sign_pending",
    "terminal",
    "verify_pending",
    "view_request",
]
