"""Foresee: a policy's decision about every call to a tool, whatever its arguments are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from handrail._definition.tool import AnyTool
from handrail._support import get_log
from handrail._values.access import EVERYTHING, Access
from handrail._values.spec import Spec


@runtime_checkable
class Foresees(Protocol):
    """A policy knowing its decision about all calls to a tool.

    ``accesses`` belong to every call, or None if they depend on the arguments.
    """

    def denies_all(self, spec: Spec, accesses: tuple[Access, ...] | None, /) -> bool:
        """Return whether the policy denies every call."""
        ...

    def asks_always(self, spec: Spec, accesses: tuple[Access, ...] | None, /) -> bool:
        """Return whether every call needs approval, or is denied."""
        ...


def denies_all(policy: object, spec: Spec, accesses: tuple[Access, ...] | None) -> bool:
    """Return whether a policy says it denies every call to a tool.

    A policy can say so with ``never(spec)``. Without this method, it hides nothing.
    """
    if isinstance(policy, Foresees):
        return _ask(policy.denies_all, spec, accesses)
    says: Any = getattr(policy, "never", None)
    return callable(says) and _ask(says, spec)


def asks_always(policy: object, spec: Spec, accesses: tuple[Access, ...] | None) -> bool:
    """Return whether every call to a tool is known to need approval."""
    if spec.needs_approval:
        return True
    return isinstance(policy, Foresees) and _ask(policy.asks_always, spec, accesses)


def is_silent(policy: object) -> bool:
    """Return whether a policy never says it denies every call to a tool."""
    return not (isinstance(policy, Foresees) or callable(getattr(policy, "never", None)))


def find_accesses(tool: AnyTool) -> tuple[Access, ...] | None:
    """Return the accesses in every call to a tool, or None if they depend on the arguments."""
    return (Access(tool.spec.effect, EVERYTHING),) if tool.touches is None else None


def _ask(says: Callable[..., Any], spec: Spec, *more: Any) -> bool:
    """Return a policy's answer. If it fails, it has said nothing: its calls are decided anyway."""
    try:
        return bool(says(spec, *more))
    except Exception:
        log = get_log()
        log.exception("the policy failed to say whether it denies every call of %r", spec.name)
        return False
