"""Principals: rules and limits for each gateway user."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from handrail import Access, Call, CheckedCall, Decision, FailureKind, Hook, Result, Spec
from handrail.permissions import Matched, Origin
from handrail.policy import Rulebook

_TOO_MANY = (
    "Not run: you are limited to {} in {:g} s. Retry in {:.1f} s, and continue with other work "
    "until then."
)
_TOO_BUSY = "Not run: you are limited to {} at a time. Call again when one has ended."


class RulesByPrincipal:
    """A policy with other rules for some principals. All others have the common rules.

    Args:
        common: Everyone else's rules.
        own: All of a principal's rules, by name. They replace the common ones, so include those.
    """

    def __init__(self, common: Rulebook, own: Mapping[str, Rulebook]) -> None:
        self.replace(common, own)

    def replace(self, common: Rulebook, own: Mapping[str, Rulebook]) -> None:
        """Decide by these rules from now on."""
        self._common = common
        self._own = dict(own)
        self._all = (common, *(own[name] for name in sorted(own)))

    def find(self, principal: str | None) -> Rulebook:
        """Return a principal's rules, for ``make_server(rules_of=...)``."""
        return self._own.get(principal or "", self._common)

    def __call__(self, call: CheckedCall) -> Decision:
        """Decide a call by its principal's rules."""
        return self.find(call.turn.principal)(call)

    def is_quick(self, call: CheckedCall) -> bool:
        """Return whether a call can be decided in the event loop."""
        return self.find(call.turn.principal).is_quick(call)

    @property
    def version(self) -> str:
        """Changes whenever a policy changes."""
        return "/".join(book.version for book in self._all)

    @property
    def named_tools(self) -> Mapping[str, Origin]:
        """Tools named in full by any rule, each with its first rule."""
        return {name: rule for book in self._all for name, rule in book.named_tools.items()}

    def explain(self, call: CheckedCall) -> tuple[Matched, ...]:
        """Return every rule matching a call, the deciding one first."""
        return self.find(call.turn.principal).explain(call)

    def denies_all(self, spec: Spec, accesses: tuple[Access, ...] | None) -> bool:
        """Return whether a tool is denied to everyone. Searches then do not find it."""
        return all(book.denies_all(spec, accesses) for book in self._all)

    def asks_always(self, spec: Spec, accesses: tuple[Access, ...] | None) -> bool:
        """Return whether every call to a tool needs approval, for every principal."""
        return all(book.asks_always(spec, accesses) for book in self._all)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallQuota:
    """How much one principal can call."""

    calls: int | None = None
    """Calls in any period of ``seconds``. Default: unlimited."""
    seconds: float = 60.0
    running: int | None = None
    """Calls at a time. Default: unlimited."""

    def __post_init__(self) -> None:
        if any(
            limit is not None and limit <= 0 for limit in (self.calls, self.seconds, self.running)
        ):
            raise ValueError("CallQuota: calls, seconds and running must be greater than 0.")


@dataclass(slots=True)
class _Use:
    """A principal's counted calls."""

    times: deque[float] = field(default_factory=deque[float])
    running: set[str] = field(default_factory=set[str])


def limit_principals(
    quotas: Mapping[str, CallQuota], *, clock: Callable[[], float] = time.monotonic
) -> Hook:
    """Return a hook rejecting calls beyond their principal's quota. It never waits.

    A principal without a quota is not limited. A rejected call is not counted. The mapping is read
    for each call, so it can change.
    """
    used: dict[str, _Use] = {}

    def before(call: CheckedCall) -> CheckedCall | Result:
        name = call.turn.principal or ""
        quota = quotas.get(name)
        if quota is None:
            return call
        use, now = used.setdefault(name, _Use()), clock()
        while use.times and now - use.times[0] >= quota.seconds:
            use.times.popleft()
        if quota.calls is not None and len(use.times) >= quota.calls:
            wait = use.times[0] + quota.seconds - now
            return _refuse(call, _TOO_MANY.format(_count(quota.calls), quota.seconds, wait))
        if quota.running is not None and len(use.running - {call.id}) >= quota.running:
            return _refuse(call, _TOO_BUSY.format(_count(quota.running)))
        use.times.append(now)
        use.running.add(call.id)
        return call

    def after(call: CheckedCall | Call, result: Result) -> Result:
        if isinstance(call, CheckedCall) and (use := used.get(call.turn.principal or "")):
            use.running.discard(call.id)
        return result

    return Hook(before=before, after=after)


def _refuse(call: CheckedCall, message: str) -> Result:
    return Result.fail(call.id, FailureKind.TRANSIENT, message)


def _count(calls: int) -> str:
    return "1 call" if calls == 1 else f"{calls} calls"
