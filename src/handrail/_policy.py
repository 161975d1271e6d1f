"""The seat of judgement: a policy says of each call whether it may run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from handrail._access import Access
from handrail._call import Call
from handrail._decision import Allow, Ask, Decision, Deny
from handrail._spec import Spec

Policy: TypeAlias = Callable[[Call, Spec, tuple[Access, ...]], Decision]
"""Judges a call by what it asks for, what its tool promises and what it will touch. Pure."""

ALLOW = Allow()


def judge(policy: Policy | None, call: Call, spec: Spec, accesses: tuple[Access, ...]) -> Decision:
    """A policy's decision; without a policy, whoever chose the tools has allowed them."""
    if policy is None:
        return ALLOW
    try:
        decision = policy(call, spec, accesses)
    except (Exception, SystemExit) as error:  # noqa: BLE001  broken, it must not open the gate
        return Deny(f"The policy failed ({type(error).__name__}), and so nothing was run.")
    if type(decision) is Allow:
        return ALLOW
    if isinstance(decision, Ask | Deny):
        return decision
    return Deny("The policy gave no decision, and so nothing was run.")
