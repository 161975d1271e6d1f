"""Runs and their journal: all events in a run, in a chain that shows changes.

``open_runs`` opens the runs in a file or a database. ``verify`` finds a run's first entry that was
changed, added or removed. ``replay_run`` checks a run's calls again. Pages and exports use
``handrail.runs.records`` and ``handrail.runs.wording``, too.
"""

from typing import TYPE_CHECKING

from handrail._support.lazy import make_lazy

if TYPE_CHECKING:
    from handrail.runs._reading.records import Records
    from handrail.runs._reading.values import RunQuery
    from handrail.runs._sealing.codec import Codec
    from handrail.runs.answers import AnswerOutcome, Claimant, request_digest
    from handrail.runs.chain import ChainBreak, verify
    from handrail.runs.history import read_history
    from handrail.runs.journal import (
        AppendConflict,
        JournalEntry,
        JournalError,
        JournalLine,
        RunBusy,
        RunHead,
    )
    from handrail.runs.record import RunRecord, record_events
    from handrail.runs.replay import Replay, ReplayDifference, replay_run
    from handrail.runs.statuses import RunStatus, translate_stop
    from handrail.runs.store import RunStore, WaitingCall, open_runs
else:
    _MODULES = {
        "_reading.records": "Records",
        "_reading.values": "RunQuery",
        "_sealing.codec": "Codec",
        "answers": "AnswerOutcome Claimant request_digest",
        "chain": "ChainBreak verify",
        "history": "read_history",
        "journal": "AppendConflict JournalEntry JournalError JournalLine RunBusy RunHead",
        "record": "RunRecord record_events",
        "replay": "Replay ReplayDifference replay_run",
        "statuses": "RunStatus translate_stop",
        "store": "RunStore WaitingCall open_runs",
    }

    __getattr__, __dir__ = make_lazy(__name__, _MODULES, globals())


__all__ = [
    "AnswerOutcome",
    "AppendConflict",
    "ChainBreak",
    "Claimant",
    "Codec",
    "JournalEntry",
    "JournalError",
    "JournalLine",
    "Records",
    "Replay",
    "ReplayDifference",
    "RunBusy",
    "RunHead",
    "RunQuery",
    "RunRecord",
    "RunStatus",
    "RunStore",
    "WaitingCall",
    "open_runs",
    "read_history",
    "record_events",
    "replay_run",
    "request_digest",
    "translate_stop",
    "verify",
]
