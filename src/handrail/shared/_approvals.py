"""Remembered approvals for all processes: rules that people have approved, by principal."""

from __future__ import annotations

import copy
import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Literal, NamedTuple, TypeAlias

from handrail import Access, Ask, CheckedCall, Spec
from handrail.approvals import Proposal
from handrail.permissions import Decision, Matched, Origin, Pending
from handrail.policy import Level, RememberedApprovals, Rule, Rulebook, RulePaths, parse
from handrail.runs import RunStore, open_runs
from handrail.runs.records import as_holder
from handrail.shared._holders import name_function

LIFETIME_SECONDS = 90 * 86_400.0
"""How long an approval applies: people forget why they gave it."""
_MAX_HOLDERS = 1_000
"""Holders whose rules stay in memory."""
_FILE = "remembered"
_NAME = re.compile("[a-z0-9_]{1,50}")
_PUT = (
    "INSERT INTO handrail_remembered VALUES (:id, :name, :kind, :holder, :rule, :at, :expires) "
    "ON CONFLICT DO NOTHING"
)
_OF = "name = :name AND kind = :kind AND holder = :holder"
_SELECT = (
    f"SELECT id, rule, expires FROM handrail_remembered WHERE {_OF} AND expires > :now ORDER BY id"
)
_ALL = "SELECT id, rule FROM handrail_remembered WHERE name = :name"
_DELETE = "DELETE FROM handrail_remembered WHERE id = :id"
_REMOVE = "DELETE FROM handrail_remembered WHERE expires < :now"
_NOBODY = "its principal is not known"

RememberedFor: TypeAlias = Literal["principal", "all"] | Callable[[str | None], str]
"""Whose calls an approval allows. A function returns a principal's group, such as a tenant."""


class SharedRule(NamedTuple):
    """A remembered approval in the database."""

    id: str
    text: str
    """The rule as TOML."""
    expires: float


class _Holder(NamedTuple):
    """Whose calls an approval allows: a principal's, a group's, or all."""

    name: str
    kind: Literal["principal", "all", "group"]
    holder: str


@dataclass(frozen=True, slots=True)
class _SharedProposal(Proposal):
    """A rule, and whose calls it would allow."""

    holder: _Holder | None = None


class SharedApprovals:
    """A policy: a rulebook, and remembered approvals from the database.

    Pass it as ``policy`` in each process, and as ``remember`` where people answer. A stored
    approval applies to the next call in any process, and a forgotten one to none. When the
    rulebook asks, the database is read.

    Args:
        rulebook: The rules, the same in all processes.
        database: A path, ``postgresql://...``, or a ``RunStore``.
        per: Whose calls an approval allows: the same ``principal``'s, ``all``, or the same
            group's, from a function. Calls without a principal have no approvals of their own.
        name: The name in the database. Policies with one name, and the same ``per``, share
            approvals: give each application its own. Default: ``approvals``, or the function's.
        lifetime: Seconds until an approval expires.
        clock: Returns the time in seconds.
    """

    def __init__(
        self,
        rulebook: Rulebook,
        database: str | os.PathLike[str] | RunStore,
        *,
        per: RememberedFor = "principal",
        name: str = "",
        lifetime: float = LIFETIME_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = name or _make_name(per)
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"SharedApprovals(name={self.name!r}): use a-z, 0-9 and _.")
        self._rulebook = rulebook
        self._store = database if isinstance(database, RunStore) else open_runs(database)
        self._per: RememberedFor = per
        self._lifetime = lifetime
        self._clock = clock
        self._lock = Lock()
        self._known: OrderedDict[_Holder, tuple[object, Rulebook]] = OrderedDict()
        """Rulebooks with a holder's rules, and their ingredients."""

    # as a policy

    def __call__(self, call: CheckedCall) -> Decision:
        """Decide a call. It reads the database if the rulebook asks."""
        decision = self._rulebook(call)
        if not isinstance(decision, Ask) or decision.once:
            return decision
        remembered = self._find_rulebook(call.turn.principal)
        return decision if remembered is None else remembered(call)

    def explain(self, call: CheckedCall) -> Sequence[Matched]:
        """Return every rule matching a call, the deciding one first."""
        remembered = self._find_rulebook(call.turn.principal)
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
        holder = self._find_holder(pending.principal)
        found = () if holder is None else self._proposer.propose(pending)
        return tuple(
            _SharedProposal("always", one.rule, one.file, one.width, holder)
            for one in found
            if one.scope == "run"
        )

    def refusal(self, pending: Pending, /) -> str:
        """Return why a call's approval cannot be remembered, as a clause, or ""."""
        is_known = self._find_holder(pending.principal) is not None
        return self._proposer.refusal(pending) or ("" if is_known else _NOBODY)

    def store(self, proposal: Proposal, /) -> None:
        """Store what ``propose`` has returned, for the request's principal. Can be repeated."""
        holder = proposal.holder if isinstance(proposal, _SharedProposal) else None
        if holder is None or holder.name != self.name:
            raise ValueError("SharedApprovals.store: this rule was not proposed here.")
        now, row = self._clock(), {**holder._asdict(), "rule": proposal.rule}
        self._store.create()
        row |= {"id": _ids(proposal.rule)[0], "at": now, "expires": now + self._lifetime}
        self._store.database.transact_now([(_REMOVE, [{"now": now}]), (_PUT, [row])], 0)

    def remembered(self, principal: str | None) -> tuple[SharedRule, ...]:
        """Return the approvals that apply to a principal's calls."""
        holder = self._find_holder(principal)
        rows = () if holder is None else self._select(holder)
        return tuple(SharedRule(*row) for row in rows)

    def forget(self, rule_id: str) -> None:
        """Forget a remembered approval. It stops applying immediately. LookupError: none has it.

        An approval with several rules is forgotten by the id of each.
        """
        self._store.create()
        rows = self._store.select(_ALL, {"name": self.name})
        found = [id_ for id_, rule in rows if rule_id in _ids(rule)]
        steps = (_DELETE, [{"id": id_} for id_ in found])
        if not found or not self._store.database.transact_now([steps], 0)[0]:
            raise LookupError(f"No remembered approval has the id {rule_id!r}.")

    @property
    def _proposer(self) -> RememberedApprovals:
        return RememberedApprovals(self._rulebook, RulePaths())

    def _find_holder(self, principal: str | None) -> _Holder | None:
        """Return whose approvals apply to a principal's calls. None: no one's."""
        if callable(self._per):
            return _Holder(self.name, "group", as_holder(self._per(principal)))
        if self._per == "all":
            return _Holder(self.name, "all", "")
        return _Holder(self.name, "principal", as_holder(principal)) if principal else None

    def _select(self, holder: _Holder) -> Sequence[tuple[Any, ...]]:
        self._store.create()
        return self._store.select(_SELECT, {**holder._asdict(), "now": self._clock()})

    def _find_rulebook(self, principal: str | None) -> Rulebook | None:
        """Return the rulebook with the rules for a principal, or None without any."""
        holder = self._find_holder(principal)
        if holder is None:
            return None
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


def _make_name(per: RememberedFor) -> str:
    return name_function("SharedApprovals", per).lower() if callable(per) else "approvals"


def _read(text: str) -> tuple[Rule, ...]:
    return parse(text, file=_FILE, level=Level.RUN).rules


def _ids(text: str) -> tuple[str, ...]:
    return tuple(rule.origin.rule for rule in _read(text))
