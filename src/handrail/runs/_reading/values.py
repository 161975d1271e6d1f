"""Plain recorded values, for readers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from handrail.permissions import Approvers, Grade, Pending, PendingKind
from handrail.runs.answers import AnswerRecord, AnswerWord
from handrail.runs.history import CallHistory
from handrail.runs.journal import EventRow, JournalEntry
from handrail.runs.statuses import RunReason, RunStatus


@dataclass(frozen=True, slots=True)
class ModelTokens:
    """Tokens a run used with one model."""

    model: str
    input: int = 0
    output: int = 0
    cached: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run in a list, kept up to date by the journal's writer."""

    id: str
    status: RunStatus | Literal[""] = ""
    """Empty if the journal has no line about it."""
    reason: RunReason = ""
    """Why it ended, in a word."""
    agent: str = ""
    """A durable run's agent name, or a local run's command."""
    principal: str = ""
    """On whose behalf it runs, or "" if unknown."""
    prompt: str = ""
    """The first prompt's beginning."""
    labels: tuple[str, ...] = ()
    """Labels such as ``team=payments``, which say who sees the run."""
    began: float = 0.0
    """When the first entry was written, in seconds since 1970."""
    ended: float | None = None
    """When it ended; None while it runs or waits."""
    changed: float = 0.0
    """When the last entry was written."""
    last_event: str = ""
    """The last event's kind."""
    why: str = ""
    """Why it ended, in a sentence; often empty."""
    entries: int = 0
    turns: int = 0
    calls: int = 0
    waiting: int = 0
    """How many calls wait for a person."""
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    """Calls by how they ended: ``ok``, or the failure's kind."""
    tokens: tuple[ModelTokens, ...] = ()
    cost: str = ""
    """What it cost in dollars, as a decimal number; empty if no prices were set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsPage:
    """A page with runs, the newest first."""

    rows: tuple[RunSummary, ...]
    next: str = ""
    """The next page's key, or "" at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Which runs to list. Every set field must match."""

    text: str = ""
    """Words; each must occur in the prompt, the id, the agent or the principal."""
    status: str = ""
    """A ``RunStatus``."""
    reason: str = ""
    """A ``RunReason``."""
    agent: str = ""
    principal: str = ""
    since: float = 0.0
    """Only runs begun at this time or later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """How many runs there are, and how many began in each part of a period."""

    by_status: Mapping[tuple[str, str], int]
    """Their number by status and reason."""
    by_hour: tuple[tuple[float, int], ...]
    """Each hour in which a run began, and their number."""


@dataclass(frozen=True, slots=True)
class Vote:
    """One approval for a request needing several."""

    by: str
    at: float
    answer: AnswerWord
    via: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxRow:
    """A request in the inbox."""

    id: str
    run: str
    agent: str
    principal: str
    tool: str
    grade: Grade
    headline: str
    """From the tool; empty if it has none."""
    question: str
    asked: float
    expires: float
    """``math.inf`` for never."""
    kind: PendingKind = "approval"
    """Whether it needs approval or a login."""
    parts: int = 0
    """How many commands a shell command has."""
    votes: int = 0
    """Approvals it has, among those needed."""
    approvers: Approvers = field(default_factory=Approvers)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxPage:
    """A page with waiting requests, by the time left."""

    rows: tuple[InboxRow, ...]
    next: str = ""
    """The next page's key, or "" at the end."""
    total: int = 0
    """How many requests wait in all."""
    away: tuple[str, ...] = ()
    """Shards without an answer: their requests are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """A request with everything stored when it was asked."""

    pending: Pending
    """Grade, headline, preview, parts, rule with file, line and digest, and who may answer."""
    run: RunSummary
    answer: AnswerRecord | None = None
    votes: tuple[Vote, ...] = ()
    call: int = 0
    """Its call's number in the run, or 0 if unknown."""
    app: str = ""
    """The application whose workers continue the run; empty if a command does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """One turn, for an overview: a model's reply, or a prompt."""

    number: int
    """From 1; prompts and replies count."""
    speaker: Literal["model", "person", "unknown"]
    """``unknown`` if there are calls, and no reply."""
    at: float
    """When it was complete."""
    text: str = ""
    """Its text's beginning."""
    model: str = ""
    seconds: float = 0.0
    """How long the model took: from the request to the reply's end."""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    calls: int = 0
    failed: int = 0
    denied: int = 0
    waiting: int = 0
    """How many calls wait for a person."""
    ended: float = 0.0
    """When its calls' last event happened."""
    reply: int = 0
    """The number of the model's turn, or 0 for a prompt."""


@dataclass(frozen=True, slots=True)
class RunPart:
    """Where the time for one or more turns went."""

    start: float
    end: float
    models: float
    """Model seconds."""
    people: float
    """Seconds in which a call waited for a person."""
    calls: float
    """Other seconds in calls."""
    failed: int = 0
    """How many calls failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """One call in a run."""

    number: int
    """Its number in the run, from 1."""
    id: str
    turn: int
    tool: str
    status: str
    """``ok``, a failure's kind, or its stage:

    ``requested``, ``asked``, ``waiting``, ``running``.
    """
    began: float
    ended: float
    rule: str = ""
    """The last decision's rule, with its file and line."""
    pending: str = ""
    """Its last request's id."""
    history: CallHistory | None = None
    """What happened to it: phases, decisions, answers, attempts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsPage:
    """A page with a run's calls."""

    rows: tuple[CallRow, ...]
    next: int = 0
    """The number to continue after; 0 at the end."""
    turn: int = 0
    """The turn at which the page opens."""
    entries: tuple[JournalEntry, ...] = field(default=(), repr=False, compare=False)
    """What the journal says about these calls."""

    @property
    def first_turn(self) -> int:
        """The turn with which it begins; 0 on the first page, which begins with the prompt."""
        return self.rows[0].turn if self.rows and self.rows[0].number > 1 else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """One call with all its events."""

    row: CallRow
    events: tuple[Mapping[str, Any], ...]
    """The lines about it, with ``event`` and ``at``."""
    approvers: Approvers = field(default_factory=Approvers)
    """Who may answer its request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """An event with its content and its digest."""

    row: EventRow
    body: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventQuery:
    """Which events to list. Every set field must match."""

    run: str = ""
    kind: str = ""
    who: str = ""
    tool: str = ""
    rule: str = ""
    since: float = 0.0
    until: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsPage:
    """A page with events, the newest first."""

    rows: tuple[EventRecord, ...]
    next: int = 0
    """The place to continue before; 0 at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCount:
    """How often a rule decided or led to an answer on one day."""

    rule: str
    file: str
    line: int
    day: str
    """As ``2026-11-17``, in UTC."""
    outcome: str
    """``allow``, ``ask`` or ``deny`` for decisions; ``answer allow`` and so on for answers."""
    count: int


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A durable worker."""

    id: str
    version: str
    began: float
    running: int = 0
    """How many run parts and calls it works on."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A durable queue."""

    name: str
    running: int = 0
    waiting: int = 0
    oldest: float | None = None
    """When the oldest waiting entry was queued."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Workers, queues, and how long requests have waited."""

    workers: tuple[WorkerRow, ...]
    queues: tuple[QueueRow, ...]
    parked: tuple[tuple[float, int], ...]
    """Ages in seconds, and how many requests have waited at least as long, up to the next age."""
    unknown: int = 0
    """Non-repeatable calls that began, and have no result."""
