"""Runs and their journal: every event of a run, in a chain that shows changes.

``SqliteJournal`` keeps runs in one file. ``verify`` finds the first entry of a run that was
changed, added or removed. ``replay_run`` checks the calls of a run again, and ``render_page``
makes a page of it.
"""

from typing import TYPE_CHECKING

from handrail._support.lazy import make_lazy

if TYPE_CHECKING:
    from handrail.runs._reading.claims import (
        AnswerOutcome,
        Answers,
        Claimant,
        answer_request,
        request_digest,
    )
    from handrail.runs._reading.port import Records
    from handrail.runs._reading.values import (
        AnswerRecord,
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
        RunQuery,
        RunsPage,
        RunSummary,
        TurnRow,
        Vote,
        WorkerRow,
    )
    from handrail.runs._serving.opening import open_records
    from handrail.runs.chain import ChainBreak, find_break, verify, verify_all
    from handrail.runs.history import CallHistory, CallMoment, PhaseSpan, RunTurn, read_history
    from handrail.runs.journal import (
        AppendConflict,
        EventRow,
        Journal,
        JournalEntry,
        JournalError,
        JournalLine,
        JournalReader,
        RunBusy,
        RunHead,
        chain_digest,
        extend,
    )
    from handrail.runs.page import render_page
    from handrail.runs.record import RunRecord
    from handrail.runs.recorder import record_events
    from handrail.runs.replay import Replay, ReplayDifference, replay_run
    from handrail.runs.sqlite import SqliteJournal
    from handrail.runs.sqlite_ledger import SqliteLedger
else:
    _HOMES = {
        "AnswerOutcome": "_reading.claims",
        "AnswerRecord": "_reading.values",
        "Answers": "_reading.claims",
        "AppendConflict": "journal",
        "CallHistory": "history",
        "CallMoment": "history",
        "CallRecord": "_reading.values",
        "CallRow": "_reading.values",
        "CallsPage": "_reading.values",
        "ChainBreak": "chain",
        "Claimant": "_reading.claims",
        "EventQuery": "_reading.values",
        "EventRecord": "_reading.values",
        "EventRow": "journal",
        "EventsPage": "_reading.values",
        "Fleet": "_reading.values",
        "InboxPage": "_reading.values",
        "InboxRow": "_reading.values",
        "Journal": "journal",
        "JournalEntry": "journal",
        "JournalError": "journal",
        "JournalLine": "journal",
        "JournalReader": "journal",
        "ModelTokens": "_reading.values",
        "PhaseSpan": "history",
        "QueueRow": "_reading.values",
        "Records": "_reading.port",
        "Replay": "replay",
        "ReplayDifference": "replay",
        "RequestRecord": "_reading.values",
        "RuleCount": "_reading.values",
        "RunBusy": "journal",
        "RunFigures": "_reading.values",
        "RunHead": "journal",
        "RunQuery": "_reading.values",
        "RunRecord": "record",
        "RunSummary": "_reading.values",
        "RunTurn": "history",
        "RunsPage": "_reading.values",
        "SqliteJournal": "sqlite",
        "SqliteLedger": "sqlite_ledger",
        "TurnRow": "_reading.values",
        "Vote": "_reading.values",
        "WorkerRow": "_reading.values",
        "answer_request": "_reading.claims",
        "chain_digest": "journal",
        "extend": "journal",
        "find_break": "chain",
        "open_records": "_serving.opening",
        "read_history": "history",
        "record_events": "recorder",
        "render_page": "page",
        "replay_run": "replay",
        "request_digest": "_reading.claims",
        "verify": "chain",
        "verify_all": "chain",
    }

    __getattr__, __dir__ = make_lazy(__name__, _HOMES, globals())


__all__ = [
    "AnswerOutcome",
    "AnswerRecord",
    "Answers",
    "AppendConflict",
    "CallHistory",
    "CallMoment",
    "CallRecord",
    "CallRow",
    "CallsPage",
    "ChainBreak",
    "Claimant",
    "EventQuery",
    "EventRecord",
    "EventRow",
    "EventsPage",
    "Fleet",
    "InboxPage",
    "InboxRow",
    "Journal",
    "JournalEntry",
    "JournalError",
    "JournalLine",
    "JournalReader",
    "ModelTokens",
    "PhaseSpan",
    "QueueRow",
    "Records",
    "Replay",
    "ReplayDifference",
    "RequestRecord",
    "RuleCount",
    "RunBusy",
    "RunFigures",
    "RunHead",
    "RunQuery",
    "RunRecord",
    "RunSummary",
    "RunTurn",
    "RunsPage",
    "SqliteJournal",
    "SqliteLedger",
    "TurnRow",
    "Vote",
    "WorkerRow",
    "answer_request",
    "chain_digest",
    "extend",
    "find_break",
    "open_records",
    "read_history",
    "record_events",
    "render_page",
    "replay_run",
    "request_digest",
    "verify",
    "verify_all",
]
