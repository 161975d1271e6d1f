"""Pending: a call that waits for approval, as a value that can be saved and read back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import Enum
from typing import Any, TypeAlias, get_args

from handrail._values.access import Access, find_effect
from handrail._values.call import Args, Call
from handrail._values.content import is_object
from handrail._values.decision import Origin, OriginKind
from handrail._values.effect import Effect
from handrail._values.saved import VERSION, Fields, load, save
from handrail._values.spec import Spec
from handrail._values.strict_json import canonical, format_value

_MAX_CLOCK_DRIFT_SECONDS = 120.0
"""How far the clocks of two machines may differ."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """The change that a call would make to one file, as text."""

    path: str
    before: str | None
    """None if the file does not exist yet."""
    after: str | None
    """None if the file would be removed."""
    line: int = 1
    """The number of the first line. Of a long file, only the part that changes is here."""


PlannedChange: TypeAlias = FileChange | str
"""One thing that a call would do: a change to a file, or a description."""


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
    """The worst that its tool can do."""
    accesses: tuple[Access, ...]
    question: str
    """The text to show. Empty if there is nothing to answer: the call waits only for ``after``."""
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
    """The changes that the call would make, from its tool; empty if the tool has no preview."""

    def __post_init__(self) -> None:
        args = self.call.args
        if not isinstance(args, str):
            object.__setattr__(self, "call", replace(self.call, args=save(dict(args))))

    @property
    def id(self) -> str:
        """The id of this request, for answers. The same after a restart, and not a secret."""
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


def write_pending(pending: Pending) -> dict[str, Any]:
    """Return a pending call as plain data. An ``expires_at`` of null means never."""
    call, origin = pending.call, pending.origin
    return {
        "v": VERSION,
        "run_id": pending.run_id,
        "turn_id": pending.turn_id,
        "key": pending.key,
        "position": pending.position,
        "round": pending.round,
        "call": {"name": call.name, "args": call.args, "id": call.id},
        "effect": pending.effect.name.lower(),
        "accesses": [
            {"verb": access.verb.name.lower(), "resource": access.resource}
            for access in pending.accesses
        ],
        "question": pending.question,
        "fingerprint": pending.fingerprint,
        "asked_at": pending.asked_at,
        "expires_at": None if pending.expires_at == math.inf else pending.expires_at,
        "origin": origin and asdict(origin),
        "once": pending.once,
        "after": list(pending.after),
        "headline": pending.headline,
        "changes": [_write_change(change) for change in pending.changes],
    }


def read_pending(value: object) -> Pending:
    """Return a pending call from plain data. Raises ValueError for any other shape."""
    if is_object(value):
        value = {"headline": "", "changes": [], **value}  # older versions have neither
    saved = Fields.with_version(value, Pending.__dataclass_fields__)
    call = Fields(saved.value["call"], ("name", "args", "id"))
    expires_at = saved.optional("expires_at", saved.number)
    return Pending(
        run_id=saved.text("run_id"),
        turn_id=saved.text("turn_id"),
        key=saved.text("key"),
        position=saved.get("position", int),
        round=saved.get("round", int),
        call=Call(call.text("name"), call.text("args"), call.text("id")),
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
    )


def _write_change(change: PlannedChange) -> dict[str, Any] | str:
    return change if isinstance(change, str) else asdict(change)


def _read_change(value: object) -> PlannedChange:
    if isinstance(value, str):
        return value
    saved = Fields(value, FileChange.__dataclass_fields__)
    return FileChange(
        saved.text("path"),
        saved.optional("before", saved.text),
        saved.optional("after", saved.text),
        saved.get("line", int),
    )


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
    return Origin(saved.text("rule"), saved.text("file"), saved.get("line", int), kind)


@dataclass(frozen=True, slots=True)
class Edit:
    """An answer: call the same tool with these arguments. The policy decides again."""

    args: Mapping[str, Any] | str


def fingerprint(
    call: Call, spec: Spec, args: Args, accesses: tuple[Access, ...], *, circumstances: str
) -> str:
    """Return what an approval is tied to: any other call, spec, access or policy differs in it."""
    import hashlib  # loads OpenSSL, which only programs with approvals need

    plain_spec = {field.name: _plain(getattr(spec, field.name)) for field in fields(spec)}
    plain_spec["metadata"] = canonical(dict(spec.metadata)).decode()
    parts = [
        call.id,
        call.name,
        plain_spec,
        args.canonical.decode(),
        [str(access) for access in accesses],
        circumstances,
    ]
    return hashlib.sha256(canonical(parts, "surrogatepass")).hexdigest()


def _plain(value: Any) -> Any:
    """Return a field of a spec as JSON, the same for equal values."""
    if isinstance(value, Enum):
        return value.name
    several: Any = value
    if isinstance(value, frozenset):
        return sorted(several)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in several.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in several]
    return value if isinstance(value, str | int | None) else repr(value)
