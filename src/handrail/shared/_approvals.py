"""Remembered approvals for all processes: rules that people have approved, by principal."""

from __future__ import annotations

import copy
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, Literal, NamedTuple, TypeAlias

from handrail import Access, Ask, CheckedCall, Spec
from handrail.approvals import Proposal
from handrail.permissions import Decision, Matched, Origin, Pending
from handrail.policy import Level, RememberedApprovals, Rule, Rulebook, RulePaths, parse
from handrail.runs import RunStore, open_runs
from handrail.shared._holders import as_key

LIFETIME_SECONDS = 90 * 86_400.0
"""How long an approval applies: people forget why they gave it."""
_MAX_HOLDERS = 1_000
"""Holders whose rules stay in memory, and proposals that can be stored."""
_FILE = "remembered"
_PUT = "INSERT INTO handrail_remembered VALUES (:id, :holder, :rule, :at, :expires)"
_OF = "FROM handrail_remembered WHERE holder = :holder AND expires > :now ORDER BY id"
_DELETE = "DELETE FROM handrail_remembered WHERE id = :id"
_REMOVE = "DELETE FROM handrail_remembered WHERE expires < :now"

RememberedFor: TypeAlias = Literal["principal", "all"] | Callable[[str | None], str]
"""Whose calls an approval allows. A function returns a principal's group, such as a tenant."""


class SharedRule(NamedTuple):
    """A remembered approval in the database."""

    id: str
    text: str
    """The rule as TOML."""
    expires: float


class SharedApprovals:
    """A policy: a rulebook, and remembered approvals from the database.

    Pass it as ``policy`` in each process, and as ``remember`` where people answer. A stored
    approval applies to the next call in any process, and a forgotten one to none. When the
    rulebook asks, the database is read.

    Args:
        rulebook: The rules, the same in all processes.
        database: A path, ``postgresql://...``, or a ``RunStore``.
        per: Whose calls an approval allows: the same ``principal``'s, ``all``, or the same
            group's, from a function.
        lifetime: Seconds until an approval expires.
        clock: Returns the time in seconds.
    """

    def __init__(
        self,
        rulebook: Rulebook,
        database: str | os.PathLike[str] | RunStore,
        *,
        per: RememberedFor = "principal",
        lifetime: float = LIFETIME_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._rulebook = rulebook
        self._store = database if isinstance(database, RunStore) else open_runs(database)
        self._per: RememberedFor = per
        self._lifetime = lifetime
        self._clock = clock
        self._lock = Lock()
        self._proposed: OrderedDict[str, str] = OrderedDict()
        """The holder by the proposed rule."""
        self._known: OrderedDict[str, tuple[object, Rulebook]] = OrderedDict()
        """Rulebooks with a holder's rules, and their ingredients."""

    # as a policy

    def __call__(self, call: CheckedCall) -> Decision:
        """Decide a call. It reads the database if the rulebook asks."""
        decision = self._rulebook(call)
        if not isinstance(decision, Ask) or decision.once:
            return decision
        remembered = self._find_rulebook(self._find_holder(call.turn.principal))
        return decision if remembered is None else remembered(call)

    def explain(self, call: CheckedCall) -> Sequence[Matched]:
        """Return every rule matching a call, the deciding one first."""
        remembered = self._find_rulebook(self._find_holder(call.turn.principal))
        return (remembered or self._rulebook).explain(call)

    def never(self, spec: Spec) -> bool:
        """Return whether every call to a tool is denied, if it touches what its effect says."""
        return self._rulebook.never(spec)

    def denies_all(self, spec: Spec, accesses: tuple[Access, ...] | None) -> bool:
        """Return whether every call to a tool is denied."""
        return self._rulebook.denies_all(spec, accesses)

    def asks_always(self, spec: Spec, accesses: tuple[Access, ...] | None) -> bool:
        """Return whether every call is denied. Others may be remembered."""
        return self._rulebook.denies_all(spec, accesses)

    @property
    def named_tools(self) -> Mapping[str, Origin]:
        """Tools named in full by rules, each with its first rule."""
        return self._rulebook.named_tools

    @property
    def version(self) -> str:
        """Changes with the rulebook, and not with remembered approvals."""
        return self._rulebook.version

    # where people answer

    def propose(self, pending: Pending, /) -> tuple[Proposal, ...]:
        """Return rules that would have allowed this call, the narrowest first."""
        found = self._proposer.propose(pending)
        several = tuple(replace(one, scope="always") for one in found if one.scope == "run")
        holder = self._find_holder(pending.principal)
        with self._lock:
            for one in several:
                self._proposed[one.rule] = holder
            while len(self._proposed) > _MAX_HOLDERS:
                self._proposed.popitem(last=False)
        return several

    def refusal(self, pending: Pending, /) -> str:
        """Return why a call's approval cannot be remembered, as a clause, or ""."""
        return self._proposer.refusal(pending)

    def store(self, proposal: Proposal, /) -> None:
        """Store what this process has proposed, for the request's principal."""
        with self._lock:
            holder = self._proposed.get(proposal.rule)
        if holder is None:
            raise ValueError("SharedApprovals.store: this rule was not proposed here.")
        now, row = self._clock(), {"holder": holder, "rule": proposal.rule}
        ids = [rule.origin.rule for rule in _read(proposal.rule)]
        self._store.create()
        put = (_PUT, [{**row, "id": ids[0], "at": now, "expires": now + self._lifetime}])
        self._store.database.transact_now([(_REMOVE, [{"now": now}]), put], 0)

    def remembered(self, principal: str | None) -> tuple[SharedRule, ...]:
        """Return the approvals that apply to a principal's calls."""
        rows = self._select(self._find_holder(principal))
        return tuple(SharedRule(*row) for row in rows)

    def forget(self, rule_id: str) -> None:
        """Forget a remembered approval. It stops applying immediately. LookupError: none has it."""
        self._store.create()
        if not self._store.database.transact_now([(_DELETE, [{"id": rule_id}])], 0)[0]:
            raise LookupError(f"No remembered approval has the id {rule_id!r}.")

    @property
    def _proposer(self) -> RememberedApprovals:
        return RememberedApprovals(self._rulebook, RulePaths())

    def _find_holder(self, principal: str | None) -> str:
        if callable(self._per):
            return as_key(self._per(principal))
        return as_key(principal or "") if self._per == "principal" else ""

    def _select(self, holder: str) -> Sequence[tuple[Any, ...]]:
        self._store.create()
        sql = f"SELECT id, rule, expires {_OF}"
        return self._store.select(sql, {"holder": holder, "now": self._clock()})

    def _find_rulebook(self, holder: str) -> Rulebook | None:
        """Return the rulebook with a holder's rules, or None without any."""
        texts = tuple(str(row[1]) for row in self._select(holder))
        if not texts:
            return None
        made_of = (self._rulebook.rules, self._rulebook.mode, texts)
        with self._lock:
            known = self._known.get(holder)
        if known is not None and known[0] == made_of:
            return known[1]
        rulebook = copy.copy(self._rulebook)
        for rule in (one for text in texts for one in _read(text)):
            rulebook.add(rule)
        with self._lock:
            self._known[holder] = (made_of, rulebook)
            while len(self._known) > _MAX_HOLDERS:
                self._known.popitem(last=False)
        return rulebook


def _read(text: str) -> tuple[Rule, ...]:
    return parse(text, file=_FILE, level=Level.RUN).rules
