"""A judged call that waits for an answer: a value that can leave the process and come back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

from handrail._access import Access
from handrail._call import Args, Call
from handrail._decision import Origin
from handrail._effect import Effect
from handrail._json import canonical
from handrail._spec import Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A call that runs once somebody has said yes to exactly this; it has not run yet."""

    id: str
    """Its own, not the call's: a question is asked anew when anything has changed."""
    call: Call
    """As it was judged, hooks and repairs included."""
    effect: Effect
    """The most that its tool may do."""
    accesses: tuple[Access, ...]
    question: str
    """Empty where there is nothing to answer: it only waits for those in ``after``."""
    fingerprint: str
    """Of the tool, its spec, the arguments, the accesses and the policy."""
    asked_at: float
    expires_at: float
    origin: Origin | None = None
    """The rule that asks."""
    once: bool = False
    """Whether a yes must never be remembered."""
    after: tuple[str, ...] = ()
    """Those that must have ended first, since they touch the same: the ``chain`` of each."""
    first: str = ""
    """The id of the first question about this call, where this is another one."""

    @property
    def chain(self) -> str:
        """What all questions about one call have in common."""
        return self.first or self.id


@dataclass(frozen=True, slots=True)
class Edit:
    """An answer: not this, but the same tool with these arguments. It is judged again."""

    args: Mapping[str, Any] | str


def fingerprint(
    call: Call, spec: Spec, args: Args, accesses: tuple[Access, ...], *, circumstances: str
) -> str:
    """What an answer is bound to: another call, tool, argument, access or policy gives another."""
    import hashlib  # noqa: PLC0415  loads OpenSSL, for programs that ask somebody

    told = {field.name: _plain(getattr(spec, field.name)) for field in fields(spec)}
    parts = [
        call.id,
        call.name,
        told,
        args.canonical.decode(),
        [str(one) for one in accesses],
        circumstances,
    ]
    return hashlib.sha256(canonical(parts, "surrogatepass")).hexdigest()


def _plain(value: Any) -> Any:
    """A field of a spec as JSON, the same for equal values."""
    if isinstance(value, Enum):
        return value.name
    several: Any = value
    if isinstance(value, frozenset):
        return sorted(several)
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in several.items()}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in several]
    return value if isinstance(value, str | int | None) else repr(value)
