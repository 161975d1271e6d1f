"""The seat of judgement: a policy says of each call whether it may run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from handrail._access import Access
from handrail._call import Call
from handrail._decision import Allow, Ask, Decision, Deny, Origin
from handrail._spec import Spec

Policy: TypeAlias = Callable[[Call, Spec, tuple[Access, ...]], Decision]
"""Judges a call by what it asks for, what its tool promises and what it will touch. Pure.

One that can change while it is in use has a ``version``, a string that changes with it: a yes that
was given under another version counts no more.
"""

ALLOW = Allow()
_DECISIONS = (Allow, Ask, Deny)

Verdict: TypeAlias = Literal["allow", "ask", "deny"]


@dataclass(frozen=True, slots=True)
class Matched:
    """One rule that has something to say of a call."""

    verdict: Verdict
    origin: Origin
    why: str = ""

    def __str__(self) -> str:
        return f"{self.verdict} by {self.origin}" + (f": {self.why}" if self.why else "")


@runtime_checkable
class Explains(Protocol):
    """A policy that can say which of its rules matched, the deciding one first."""

    def explain(
        self, call: Call, spec: Spec, accesses: tuple[Access, ...], /
    ) -> tuple[Matched, ...]:
        """Every rule that matched this call."""
        ...


def judge(policy: Policy | None, call: Call, spec: Spec, accesses: tuple[Access, ...]) -> Decision:
    """A policy's decision; without a policy, whoever chose the tools has allowed them."""
    if policy is None:
        return ALLOW
    try:
        decision = policy(call, spec, accesses)
    except (Exception, SystemExit) as error:  # noqa: BLE001  broken, it must not open the gate
        return Deny(f"The policy failed ({type(error).__name__}), and so nothing was run.")
    if type(decision) in _DECISIONS:
        return decision
    return Deny("The policy gave no decision, and so nothing was run.")


def version(policy: Policy | None) -> str:
    """What changes when the policy does, as far as it says so."""
    return str(getattr(policy, "version", ""))


class Both:
    """Two policies as one: the stricter decision counts."""

    def __init__(self, first: Policy | None, second: Policy | None) -> None:
        self._first = first
        self._second = second

    @property
    def version(self) -> str:
        """Changes when either of them does."""
        return "/".join(str(getattr(one, "version", "")) for one in (self._first, self._second))

    def __call__(self, call: Call, spec: Spec, accesses: tuple[Access, ...]) -> Decision:
        """Judge a call twice."""
        one = judge(self._first, call, spec, accesses)
        other = judge(self._second, call, spec, accesses)
        return max(one, other, key=_strictness)


def _strictness(decision: Decision) -> int:
    return _DECISIONS.index(type(decision))
