"""Approvals: answer approval requests at a terminal, with your own function, or days later.

``terminal`` prompts a person, and needs the extra ``handrail[terminal]``. So does
``ask_at_terminal``, for a model's questions. ``callback`` calls your function. ``defer`` leaves
every request pending. ``sign_pending`` and ``verify_pending`` move a pending call between
processes. ``FileLedger`` records used approvals, to make each work only once. ``render_request``
and ``make_printable`` make untrusted text safe to show in your own UI.
"""

from typing import TYPE_CHECKING

from handrail._support.lazy import make_lazy

if TYPE_CHECKING:
    from handrail.approvals._display import Printable, RenderedLine, make_printable
    from handrail.approvals._form import FieldKind, Form, FormField, read_form
    from handrail.approvals._functions import TerminalAnswer, callback, defer
    from handrail.approvals._ledger import FileLedger
    from handrail.approvals._prompt import RenderedRequest, render_request
    from handrail.approvals._question import (
        RequestSummary,
        describe_changes,
        measure_changes,
        summarize_request,
    )
    from handrail.approvals._remember import Proposal, Remembers, Scope
    from handrail.approvals._rows import diff_rows, name_grade
    from handrail.approvals._signing import Tampered, sign_pending, verify_pending
    from handrail.approvals._terminal import ask_at_terminal, terminal
else:
    _HOMES = {
        "FieldKind": "_form",
        "FileLedger": "_ledger",
        "Form": "_form",
        "FormField": "_form",
        "Printable": "_display",
        "Proposal": "_remember",
        "Remembers": "_remember",
        "RenderedLine": "_display",
        "RenderedRequest": "_prompt",
        "RequestSummary": "_question",
        "Scope": "_remember",
        "Tampered": "_signing",
        "TerminalAnswer": "_functions",
        "ask_at_terminal": "_terminal",
        "callback": "_functions",
        "defer": "_functions",
        "describe_changes": "_question",
        "diff_rows": "_rows",
        "make_printable": "_display",
        "measure_changes": "_question",
        "name_grade": "_rows",
        "read_form": "_form",
        "render_request": "_prompt",
        "sign_pending": "_signing",
        "summarize_request": "_question",
        "terminal": "_terminal",
        "verify_pending": "_signing",
    }

    __getattr__, __dir__ = make_lazy(__name__, _HOMES, globals())


__all__ = [
    "FieldKind",
    "FileLedger",
    "Form",
    "FormField",
    "Printable",
    "Proposal",
    "Remembers",
    "RenderedLine",
    "RenderedRequest",
    "RequestSummary",
    "Scope",
    "Tampered",
    "TerminalAnswer",
    "ask_at_terminal",
    "callback",
    "defer",
    "describe_changes",
    "diff_rows",
    "make_printable",
    "measure_changes",
    "name_grade",
    "read_form",
    "render_request",
    "sign_pending",
    "summarize_request",
    "terminal",
    "verify_pending",
]
