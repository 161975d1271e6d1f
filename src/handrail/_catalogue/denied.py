"""Find a set's tools denied by a policy whatever the arguments are, once for each."""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

from handrail._collection.toolset import Toolset
from handrail._definition.tool import AnyTool
from handrail._permissions.checked_call import Policy
from handrail._permissions.decide import version
from handrail._permissions.foresee import denies_all, find_accesses, is_silent

_NONE: frozenset[str] = frozenset()


class _Denied:
    """One set's tools denied by each policy, with the policy's version."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.denied: WeakKeyDictionary[Policy, tuple[str, frozenset[str]]] = WeakKeyDictionary()


_known_sets: WeakKeyDictionary[Toolset, _Denied] = WeakKeyDictionary()
_lock = threading.Lock()


def find_denied(tools: Toolset, policy: Policy | None) -> frozenset[str]:
    """Return the names of the tools a policy denies whatever the arguments are.

    Threads needing the same answer wait for one of them. A changing policy has a version.
    """
    if policy is None or is_silent(policy):
        return _NONE
    with _lock:
        known_set = _known_sets.setdefault(tools, _Denied())
    with known_set.lock:
        now = version(policy)
        known = _recall(known_set, policy)
        if known is None or known[0] != now:
            names = [tool.spec.name for tool in tools if is_denied(policy, tool)]
            known = now, frozenset(names)
            _remember(known_set, policy, known)
        return known[1]


def is_denied(policy: Policy | None, tool: AnyTool) -> bool:
    """Return whether a policy denies every call to a tool, whatever the arguments are."""
    return denies_all(policy, tool.spec, find_accesses(tool))


def _recall(known_set: _Denied, policy: Policy) -> tuple[str, frozenset[str]] | None:
    try:
        return known_set.denied.get(policy)
    except TypeError:  # it cannot be a key
        return None


def _remember(known_set: _Denied, policy: Policy, known: tuple[str, frozenset[str]]) -> None:
    try:
        known_set.denied[policy] = known
    except TypeError:  # it cannot be a key
        return
