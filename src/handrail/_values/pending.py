"""Pending: a call that waits for approval, as a value that can be saved and read back."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from handrail._support import is_object
from handrail._values.access import Access, find_effect
from handrail._values.call import Call
from handrail._values.decision import (
    ANYONE,
    Approvers,
    Ask,
    CommandPart,
    Decision,
    FillIn,
    Grade,
    Origin,
    OriginKind,
    SignIn,
)
from handrail._values.effect import Effect
from handrail._values.saved import VERSION, Fields, load, save
from handrail._values.strict_json import format_value

if TYPE_CHECKING:
    from handrail._labels.sources import ValueSource  # which few requests have

_MAX_CLOCK_DRIFT_SECONDS = 120.0
"""How far the clocks of two machines may differ."""
_MAX_KEY_CHARS = 100
_MAX_ROUND = 1_000
"""More than a call can need approval again: a larger number was not written here."""
_PLAIN_KEY = re.compile(r"[A-Za-z0-9][\w.-]*/~?[\w.-]+/[\w.-]+", re.ASCII)  # ~1 is a turn
_START = re.compile(r"[A-Za-z0-9][\w.-]{,39}", re.ASCII)

PendingKind: TypeAlias = Literal["approval", "login", "form", "waiting"]
"""What a pending call needs: a person's approval, a person who signs in, a person who fills in a
form, or only that other calls end first."""
_KINDS: tuple[PendingKind, ...] = get_args(PendingKind)


@dataclass(frozen=True, slots=True)
class FileChange:
    """The change a call would make to one file, as text."""

    path: str
    before: str | None
    """None if the file does not exist yet."""
    after: str | None
    """None if the file would be removed."""
    line: int = 1
    """The number of the first line. Of a long file, only the part that changes is here."""


@dataclass(frozen=True, slots=True)
class Undoable:
    """Undo can restore the workspace's files after a call, except for those left out."""

    left_out: tuple[str, ...] = ()
    """Paths in the workspace."""
    description: str = ""
    """What undo cannot restore, for a person; empty if it can restore everything."""


PlannedChange: TypeAlias = FileChange | Undoable | str
"""One thing a call would do: a change to a file, what undo can restore, or a description."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A call that needs approval, and has not run yet. An approval covers exactly this call."""

    run_id: str
    turn_id: str
    key: str
    """The call's key: run, turn and call. All requests about one call share it."""
    position: int
    """The index of the call in its turn, from 0."""
    round: int
    """How many times this call needed approval before."""
    call: Call
    """The call as it was checked, after hooks and repairs. Its arguments are JSON text."""
    effect: Effect
    """The worst its tool can do."""
    accesses: tuple[Access, ...]
    question: str
    """The text to show. Empty if there is nothing to answer, as ``kind`` says."""
    fingerprint: str
    """A hash of the tool, its spec, the arguments, the accesses and the policy."""
    asked_at: float
    expires_at: float
    """The time after which an approval is ignored; ``math.inf`` for never."""
    origin: Origin | None = None
    """The rule that asks."""
    once: bool = False
    """Whether an approval must never be remembered."""
    after: tuple[str, ...] = ()
    """The keys of conflicting calls that must have ended first."""
    headline: str = ""
    """The call in one line, from its tool; empty if the tool has none."""
    changes: tuple[PlannedChange, ...] = ()
    """The changes the call would make, from its tool; empty if the tool has no preview."""
    principal: str | None = None
    """The user or service on whose behalf the call runs."""
    grade: Grade = Grade.UNCONFINED
    """How grave the call is, by what it would do."""
    parts: tuple[CommandPart, ...] = ()
    """The commands of a shell command, with their places in the argument ``command``."""
    approvers: Approvers = ANYONE
    """Who may answer. A request that not all may answer is never put to an approver."""
    notes: tuple[str, ...] = ()
    """Notes on its arguments, which the model receives with the result: repairs and edits."""
    approves: bool = True
    """Whether ``Allow()`` approves the call. False if it only says that the user has signed in."""
    kind: PendingKind = "approval"
    """Whether the call needs approval, a login or a form's values, or only waits for others."""
    added: tuple[Access, ...] = ()
    """The last of ``accesses``, which the tool asked for while it ran: see ``Context.may``."""
    inner: tuple[Pending, ...] = ()
    """The waiting calls inside it: see ``Context.turn``."""
    record: str = ""  # every host keeps requests: decision 103
    """Its tool's calls and their results, as JSON text. They do not run again."""
    sources: tuple[ValueSource, ...] = ()
    """Who named the destinations of the call, and the links in its texts."""
    review: bool = False
    """Whether a second model may allow it: see ``approvals.reviewed_by``."""
    said: tuple[str, ...] = ()
    """What people wrote in the run, newest last, if a second model may allow it."""

    def __post_init__(self) -> None:
        if self.added != self.accesses[len(self.accesses) - len(self.added) :]:
            raise ValueError("'added' must be the last of the accesses")
        if (self.kind == "waiting") is bool(self.question):
            raise ValueError("'question' must be empty if the kind is 'waiting', and only then")
        args = self.call.args
        if not isinstance(args, str):
            object.__setattr__(self, "call", replace(self.call, args=save(dict(args))))

    @property
    def id(self) -> str:
        """This request's id, for answers. The same after a restart, and not a secret.

        It has letters, digits and ``-_.~``, begins with a letter or a digit, and is short: you can
        use it in a URL and as a file's name. It begins like the run's id.
        """
        key = self.key
        if len(key) <= _MAX_KEY_CHARS and _PLAIN_KEY.fullmatch(key):
            return f"{key.replace('/', '~')}~{self.round}"
        import hashlib  # loads OpenSSL, which only programs with approvals need

        start = _START.match(key)
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{start[0] if start else 'x'}~{digest}~{self.round}"

    @property
    def text(self) -> str:
        """The question for a person: what the call would do, and who named the values in it."""
        from handrail._labels.text import describe_request  # few requests need it

        return describe_request(self.headline, self.question, self.call.name, self.sources)

    @property
    def requests(self) -> tuple[Pending, ...]:
        """This request, and those inside it."""
        return (self, *[request for inner in self.inner for request in inner.requests])

    @property
    def questions(self) -> tuple[Pending, ...]:
        """The requests that need a person: this one, or those inside it."""
        return tuple([one for one in self.requests if one.kind != "waiting"])

    @property
    def claim_name(self) -> str:
        """The name under which a ledger records its use. It begins with the call's key."""
        return f"{self.key}?{self.round}"

    def is_valid_at(self, time: float) -> bool:
        """Return whether an approval at this time is used.

        A clock that was set back would extend the request, so a time long before it is too late.
        """
        return self.expires_at == math.inf or (
            self.asked_at - _MAX_CLOCK_DRIFT_SECONDS <= time < self.expires_at
        )

    def to_json(self) -> str:
        """Return JSON text for ``from_json``. It is not signed: see ``approvals.sign_pending``."""
        return save(write_pending(self))

    @classmethod
    def from_json(cls, text: str) -> Pending:
        """Read what ``to_json`` wrote. Raises ValueError for any other text."""
        return load("Pending", text, read_pending)


def find_kind(decision: Decision | None) -> PendingKind:
    """Return what a call with this decision needs."""
    if isinstance(decision, SignIn):
        return "login"
    if isinstance(decision, FillIn):
        return "form"
    return "approval" if isinstance(decision, Ask) else "waiting"


def write_pending(pending: Pending) -> dict[str, Any]:
    """Return a pending call as plain data. An ``expires_at`` of null means never."""
    call, origin = pending.call, pending.origin
    limits = pending.approvers
    return {
        "v": VERSION,
        "run_id": pending.run_id,
        "turn_id": pending.turn_id,
        "key": pending.key,
        "position": pending.position,
        "round": pending.round,
        "call": {"name": call.name, "args": call.args, "id": call.id} | _write_via(call),
        "effect": pending.effect.name.lower(),
        "accesses": _write_accesses(pending.accesses),
        "question": pending.question,
        "fingerprint": pending.fingerprint,
        "asked_at": pending.asked_at,
        "expires_at": None if pending.expires_at == math.inf else pending.expires_at,
        "origin": origin and asdict(origin),
        "once": pending.once,
        "after": list(pending.after),
        "headline": pending.headline,
        "changes": [_write_change(change) for change in pending.changes],
        "principal": pending.principal,
        "grade": pending.grade.name.lower(),
        "parts": [_write_part(part) for part in pending.parts],
        **({} if limits == ANYONE else {"approvers": _write_approvers(limits)}),
        **({"notes": list(pending.notes)} if pending.notes else {}),
        **({} if pending.approves else {"approves": False}),
        "kind": pending.kind,
        **({"added": _write_accesses(pending.added)} if pending.added else {}),
        **({"inner": [write_pending(one) for one in pending.inner]} if pending.inner else {}),
        **({"record": pending.record} if pending.record else {}),
        **({"sources": [one.to_dict() for one in pending.sources]} if pending.sources else {}),
        **({"review": True, "said": list(pending.said)} if pending.review else {}),
    }


def read_pending(value: object) -> Pending:
    """Return a pending call from plain data. Raises ValueError for any other shape."""
    if is_object(value):
        value = {**_OMITTED, **value}
    saved = Fields.with_version(value, Pending.__dataclass_fields__)
    call = Fields(_add_via(saved.value["call"]), ("name", "args", "id", "via"))
    expires_at = saved.optional("expires_at", saved.number)
    return Pending(
        run_id=saved.text("run_id"),
        turn_id=saved.text("turn_id"),
        key=saved.text("key"),
        position=saved.get("position", int),
        round=_read_round(saved),
        call=Call(*[call.text(name) for name in ("name", "args", "id", "via")]),
        effect=find_effect(saved.text("effect")),
        accesses=tuple(_read_access(access) for access in saved.items("accesses")),
        question=saved.text("question"),
        fingerprint=saved.text("fingerprint"),
        asked_at=saved.number("asked_at"),
        expires_at=math.inf if expires_at is None else expires_at,
        origin=_read_origin(saved.value["origin"]),
        once=saved.get("once", bool),
        after=saved.texts("after"),
        headline=saved.text("headline"),
        changes=tuple(_read_change(change) for change in saved.items("changes")),
        principal=saved.optional("principal", saved.text),
        grade=_read_grade(saved),
        parts=tuple(_read_part(part) for part in saved.items("parts")),
        approvers=_read_approvers(saved.value["approvers"]),
        notes=saved.texts("notes"),
        approves=saved.get("approves", bool),
        kind=_read_kind(saved),
        added=tuple(_read_access(access) for access in saved.items("added")),
        inner=tuple(read_pending(one) for one in saved.items("inner")),
        record=saved.text("record"),
        sources=tuple(_read_source(one) for one in saved.items("sources")),
        review=saved.get("review", bool),
        said=saved.texts("said"),
    )


def _write_via(call: Call) -> dict[str, str]:
    return {"via": call.via} if call.via else {}


def _add_via(call: object) -> object:
    return {"via": "", **call} if is_object(call) else call


def _read_round(saved: Fields) -> int:
    found = saved.get("round", int)
    if not 0 <= found <= _MAX_ROUND:
        raise ValueError(f"'round' must be from 0 to {_MAX_ROUND}, not {format_value(found)}")
    return found


def _read_kind(saved: Fields) -> PendingKind:
    for kind in _KINDS:
        if kind == saved.value["kind"]:
            return kind
    raise ValueError(f"{format_value(saved.value['kind'])} is not a kind of request")


_OMITTED: Mapping[str, Any] = {
    "approvers": {"groups": [], "not_requester": False, "count": 1},
    "notes": [],
    "approves": True,
    "added": [],
    "inner": [],
    "record": "",
    "sources": [],
    "review": False,
    "said": [],
}
"""Fields omitted if they have these values."""


def _read_grade(saved: Fields) -> Grade:
    name = saved.text("grade").upper()
    if name not in Grade.__members__:
        raise ValueError(f"{format_value(saved.value['grade'])} is not a grade")
    return Grade[name]


def _read_part(value: object) -> CommandPart:
    saved = Fields(value, CommandPart.__dataclass_fields__)
    start, end = saved.get("start", int), saved.get("end", int)
    return CommandPart(start, end, _read_grade(saved), saved.optional("removes", saved.texts))


def _write_approvers(limits: Approvers) -> dict[str, Any]:
    return {**asdict(limits), "groups": [list(names) for names in limits.groups]}


def _read_approvers(value: object) -> Approvers:
    saved = Fields(value, Approvers.__dataclass_fields__)
    lists = [Fields({"names": names}, ("names",)) for names in saved.items("groups")]
    groups = tuple(one.texts("names") for one in lists)
    return Approvers(groups, saved.get("not_requester", bool), saved.get("count", int))


def _write_part(part: CommandPart) -> dict[str, Any]:
    removes = None if part.removes is None else list(part.removes)
    grade = part.grade.name.lower()
    return {"start": part.start, "end": part.end, "grade": grade, "removes": removes}


def _write_change(change: PlannedChange) -> dict[str, Any] | str:
    if isinstance(change, Undoable):
        return {"left_out": list(change.left_out), "description": change.description}
    return change if isinstance(change, str) else asdict(change)


def _read_change(value: object) -> PlannedChange:
    if isinstance(value, str):
        return value
    if is_object(value) and "left_out" in value:
        kept = Fields(value, Undoable.__dataclass_fields__)
        return Undoable(kept.texts("left_out"), kept.text("description"))
    saved = Fields(value, FileChange.__dataclass_fields__)
    return FileChange(
        saved.text("path"),
        saved.optional("before", saved.text),
        saved.optional("after", saved.text),
        saved.get("line", int),
    )


def _write_accesses(accesses: tuple[Access, ...]) -> list[dict[str, str]]:
    return [{"verb": one.verb.name.lower(), "resource": one.resource} for one in accesses]


def _read_access(value: object) -> Access:
    saved = Fields(value, ("verb", "resource"))
    return Access(find_effect(saved.text("verb")), saved.text("resource"))


def _read_origin(value: object) -> Origin | None:
    if value is None:
        return None
    saved = Fields(value, Origin.__dataclass_fields__)
    kind: Any = saved.text("kind")
    if kind not in get_args(OriginKind):
        raise ValueError(f"{format_value(kind)} is not a kind of origin")
    file, line = saved.text("file"), saved.get("line", int)
    return Origin(saved.text("rule"), file, line, kind, saved.text("digest"))


def _read_source(value: object) -> ValueSource:
    from handrail._labels.sources import ValueSource

    return ValueSource.from_dict(value)
