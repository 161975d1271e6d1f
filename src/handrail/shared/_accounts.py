"""The accounts of a budget: amounts reserved and spent, in one row for each holder and window.

Each change is one transaction safe to repeat. An amount reserved by a process before its death is
spent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from anyio import to_thread

from handrail.runs import RunStore

LEASE_SECONDS = 120.0
"""How long a reservation is for a request under way. Then it is spent, until the request ends."""
_KEPT_SECONDS = 86_400.0
"""How long ended windows stay: no one reads them, but requests and repeated calls can be late."""
_CLEANING_SECONDS = 86_400.0


class Account(NamedTuple):
    """One holder's budget in one window."""

    budget: str
    holder: str
    began: float
    ends: float
    unit: str
    most: int
    """The limit, without what a person has added."""


class Reserved(NamedTuple):
    """An amount reserved for a request."""

    account: Account
    id: str
    amount: int
    part: str
    """The model it is for."""


class Standing(NamedTuple):
    """An account's amounts."""

    most: int
    """The limit, with what a person has added."""
    spent: int
    reserved: int


_MAX_OPENED = 10_000
"""Accounts a process remembers to exist."""
_KEY = "budget = :budget AND holder = :holder AND began = :began"
_OPEN = (
    "INSERT INTO handrail_budget VALUES (:budget, :holder, :began, :ends, :unit, :most, 0, 0, 0) "
    "ON CONFLICT DO NOTHING"
)
_STANDING = f"SELECT :most + raised, spent, reserved FROM handrail_budget WHERE {_KEY}"
_NOTE = (
    "INSERT INTO handrail_reservation VALUES "
    "(:id, :budget, :holder, :began, :part, :amount, :expires) ON CONFLICT DO NOTHING"
)
_FIND = "SELECT 1 FROM handrail_reservation WHERE id = :id"
_RESERVE = (  # counted later, a thousand requests at once would all pass: decision 165
    f"UPDATE handrail_budget SET reserved = reserved + :amount, most = :most WHERE {_KEY} AND "
    "(spent + reserved + :amount <= :most + raised OR (reserved = 0 AND spent < :most + raised))"
)
_FORCE = f"UPDATE handrail_budget SET reserved = reserved + :amount WHERE {_KEY}"
_END = "DELETE FROM handrail_reservation WHERE id = :id AND expires > 0"
_END_LAPSED = "DELETE FROM handrail_reservation WHERE id = :id AND expires = 0"
_LAPSE = "UPDATE handrail_reservation SET expires = 0 WHERE id = :id AND expires > 0"
_SPEND = (
    f"UPDATE handrail_budget SET reserved = reserved - :freed, spent = spent + :spent WHERE {_KEY}"
)
_ADD_PART = (
    "INSERT INTO handrail_budget_part VALUES (:budget, :holder, :began, :part, :spent) "
    "ON CONFLICT (budget, holder, began, part) "
    "DO UPDATE SET spent = handrail_budget_part.spent + excluded.spent"
)
_COUNT = (
    f"UPDATE handrail_budget SET spent = spent + 1, most = :most WHERE {_KEY} "
    "AND spent + reserved < :most + raised"
)
_RAISE = f"UPDATE handrail_budget SET raised = raised + :amount WHERE {_KEY}"
_LAPSED = (
    f"SELECT id, part, amount FROM handrail_reservation WHERE {_KEY} AND expires > 0 "
    "AND expires < :now"
)
_REMOVE = tuple(
    f"DELETE FROM {table} WHERE (budget, holder, began) IN "
    "(SELECT budget, holder, began FROM handrail_budget WHERE ends < :before)"
    for table in ("handrail_reservation", "handrail_budget_part")
)
_REMOVE_WINDOWS = "DELETE FROM handrail_budget WHERE ends < :before"


class Accounts:
    """Reserves, settles and counts, for all processes using the database."""

    def __init__(self, store: RunStore, clock: Callable[[], float]) -> None:
        self._store = store
        self._database = store.database
        self._clock = clock
        self._opened: set[Account] = set()
        self._cleaned = float("-inf")

    async def reserve(self, wanted: Reserved, *, by_force: bool = False) -> bool:
        """Reserve an amount. Returns False if the account has too little left.

        With nothing else under way, any amount fits until the limit is reached. ``by_force``
        reserves in any case.
        """
        row = _key(wanted.account) | {"amount": wanted.amount}
        expires = self._clock() + LEASE_SECONDS
        about = {**row, "id": wanted.id, "part": wanted.part, "expires": expires}
        take = (_FORCE, [row]) if by_force else (_RESERVE, [{**row, "most": wanted.account.most}])
        return await self._change(wanted.account, [(_NOTE, [about]), take], wanted.id)

    async def settle(self, held: Reserved, spent: int, part: str) -> None:
        """Put what was spent in the place of what was reserved."""
        key, id_ = _key(held.account), [{"id": held.id}]
        spend = (_SPEND, [{**key, "freed": held.amount, "spent": spent}])
        add = (_ADD_PART, [{**key, "part": part, "spent": spent}])
        if not await self._database.transact([(_END, id_), spend, add], 1):
            more = spent - held.amount  # the reservation already counts as spent
            spend = (_SPEND, [{**key, "freed": 0, "spent": more}])
            add = (_ADD_PART, [{**key, "part": held.part, "spent": more}])
            await self._database.transact([(_END_LAPSED, id_), spend, add], 1)

    async def count(self, account: Account, id_: str, part: str) -> bool:
        """Count one call, once for each id. Returns False at the limit."""
        row = _key(account)
        about = {**row, "id": id_, "part": part, "amount": 1, "expires": 0.0}
        steps: Any = [
            (_NOTE, [about]),
            (_COUNT, [{**row, "most": account.most}]),
            (_ADD_PART, [{**row, "part": part, "spent": 1}]),
        ]
        return await self._change(account, steps, id_)

    async def increase(self, account: Account, amount: int, id_: str) -> None:
        """Add to the limit of this window, once for each id."""
        row = _key(account) | {"amount": amount}
        about = {**row, "id": id_, "part": "", "expires": 0.0}
        await self._change(account, [(_NOTE, [about]), (_RAISE, [row])], id_)

    async def read(self, account: Account) -> Standing:
        """Return an account's standing. Amounts of dead processes are spent."""
        await self._open(account)
        await self._end_lapsed(account)
        rows = await self._database.read(_STANDING, **_key(account), most=account.most)
        return Standing(*map(int, rows[0]))

    async def _change(self, account: Account, steps: Any, id_: str) -> bool:
        """Change an account. A change made before succeeds, and is not made again."""
        await self._open(account)
        if await self._database.transact(steps, 2):
            return True
        return bool(await self._database.read(_FIND, id=id_))

    async def _open(self, account: Account) -> None:
        """Create an account and the tables, unless they exist."""
        if account in self._opened:
            return
        await to_thread.run_sync(self._store.create)
        row = _key(account) | {"ends": account.ends, "unit": account.unit, "most": account.most}
        await self._database.write(_OPEN, **row)
        await self._clean(self._clock())
        if len(self._opened) >= _MAX_OPENED:
            self._opened.clear()
        self._opened.add(account)

    async def _clean(self, now: float) -> None:
        """Remove the rows of windows that ended long ago, once a day."""
        if now - self._cleaned < _CLEANING_SECONDS:
            return
        self._cleaned = now
        removed = [(sql, [{"before": now - _KEPT_SECONDS}]) for sql in (*_REMOVE, _REMOVE_WINDOWS)]
        await self._database.transact(removed, 0)

    async def _end_lapsed(self, account: Account) -> None:
        key = _key(account)
        for id_, part, amount in await self._database.read(_LAPSED, **key, now=self._clock()):
            row = {**key, "part": part, "spent": amount}
            spend = (_SPEND, [{**key, "freed": amount, "spent": amount}])
            await self._database.transact([(_LAPSE, [{"id": id_}]), spend, (_ADD_PART, [row])], 1)


def _key(account: Account) -> dict[str, Any]:
    return {"budget": account.budget, "holder": account.holder, "began": account.began}
