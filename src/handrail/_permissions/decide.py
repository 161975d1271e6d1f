"""Decide: apply the policy to each checked call. Has no side effects."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from handrail._permissions.checked_call import CheckedCall, Policy
from handrail._permissions.foresee import asks_always, denies_all
from handrail._support import get_log
from handrail._values.access import Access
from handrail._values.decision import ANYONE, Allow, Ask, Decision, Deny, FillIn, Origin
from handrail._values.errors import describe_error
from handrail._values.spec import Spec

ALLOW = Allow()
_DECISIONS = (Allow, Ask, Deny)

Verdict: TypeAlias = Literal["allow", "ask", "deny"]
"""A decision in one word."""
_NO_USE = "Calling again will not help; tell the user."


@dataclass(frozen=True, slots=True)
class Matched:
    """One rule matching a call."""

    verdict: Verdict
    origin: Origin
    why: str = ""

    def __str__(self) -> str:
        return f"{self.verdict} by {self.origin}" + (f": {self.why}" if self.why else "")


@runtime_checkable
class Explains(Protocol):
    """A policy listing the rules that match a call, the deciding one first."""

    def explain(self, call: CheckedCall, /) -> tuple[Matched, ...]:
        """Return every rule matching this call."""
        ...


def decide(policy: Policy | None, checked: CheckedCall) -> Decision:
    """Return a policy's decision. Without a policy, every call is allowed.

    A tool with ``needs_approval`` needs approval for every call the policy allows. A person fills
    in a form, unless the policy denies it.
    """
    decision = ALLOW if policy is None else _decide(policy, checked)
    if checked.asks_person and type(decision) is not Deny:
        limits = decision.approvers if isinstance(decision, Ask) else ANYONE
        said: str = checked.parsed.values["question"]
        return FillIn(said, decision.origin, once=True, approvers=limits)
    if checked.spec.needs_approval and type(decision) is Allow:
        question = f"Allow `{checked.name}`? It always needs approval."
        return Ask(question, decision.origin, once=True)
    if checked.spec.needs_approval and isinstance(decision, Ask) and decision.review:
        return replace(decision, review=False)
    return decision


def _decide(policy: Policy, checked: CheckedCall) -> Decision:
    try:
        decision = policy(checked)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        log = get_log()
        log.exception("the policy failed on a call of %r", checked.name)
        reason = f"Not run: the permission check failed ({type(error).__name__}). {_NO_USE}"
        return Deny(reason, detail=describe_error(error))
    if type(decision) in _DECISIONS:
        return decision
    get_log().error(
        "the policy returned %r for a call of %r, not a decision", decision, checked.name
    )
    reason = f"Not run: the permission check gave no decision. {_NO_USE}"
    return Deny(reason, detail=f"it returned {decision!r}")


def is_quick(policy: Policy, checked: CheckedCall) -> bool:
    """Return whether a policy decides a call immediately, without waiting."""
    says = getattr(policy, "is_quick", None)
    try:
        return says is not None and says(checked) is True
    except KeyboardInterrupt:
        raise
    except BaseException:
        log = get_log()
        log.exception("is_quick of the policy failed on a call of %r", checked.name)
        return False


def denial_text(denial: Deny) -> str:
    """Return what the model reads about a denial by a policy."""
    if denial.origin is None:
        return denial.reason
    return (
        f"Not run: {denial.reason}. Do not work around this. Continue without it, or tell the user."
    )


def version(policy: Policy | None) -> str:
    """Return a policy's version; empty if it has none."""
    return str(getattr(policy, "version", ""))


class Stricter:
    """Combines two policies: the stricter decision wins."""

    def __init__(self, first: Policy, second: Policy) -> None:
        self._policies = (first, second)

    @property
    def version(self) -> str:
        """Both policies' versions."""
        return "/".join(map(version, self._policies))

    def denies_all(self, spec: Spec, accesses: tuple[Access, ...] | None) -> bool:
        """Return whether one policy denies every call to a tool."""
        return any(denies_all(policy, spec, accesses) for policy in self._policies)

    def asks_always(self, spec: Spec, accesses: tuple[Access, ...] | None) -> bool:
        """Return whether one policy asks about every call to a tool."""
        return any(asks_always(policy, spec, accesses) for policy in self._policies)

    def is_quick(self, checked: CheckedCall) -> bool:
        """Return whether both policies decide a call at once."""
        return all(is_quick(policy, checked) for policy in self._policies)

    def __call__(self, checked: CheckedCall) -> Decision:
        """Return the stricter decision about a call."""
        decisions = [_decide(policy, checked) for policy in self._policies]
        strictest = max(decisions, key=lambda decision: _DECISIONS.index(type(decision)))
        if isinstance(strictest, Ask) and strictest.review:
            asks = [one for one in decisions if isinstance(one, Ask)]
            return replace(strictest, review=all(one.review for one in asks))
        return strictest
