"""Budget: what many runs may spend together, over all processes."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

from anyio import to_thread

from handrail import WRITE, Access, CheckedCall, Context, FailureKind, Hook, Result, Tool, tool
from handrail.agent import Spender
from handrail.messages import NO_USAGE, Model
from handrail.models import named
from handrail.runs import RunStore, open_runs
from handrail.runs.records import BudgetUnit, BudgetUse, as_amount, as_stored
from handrail.shared._accounts import Account, Accounts
from handrail.shared._estimates import (
    Estimate,
    Prices,
    estimate_tokens,
    find_price,
)
from handrail.shared._guarded import Guarded, Terms
from handrail.shared._holders import Per, check_per, digest, find_holder, name_function

Amount: TypeAlias = Decimal | float
_WAIT_SECONDS = 30.0
_NAME = re.compile("[a-z0-9_]{1,50}")
_Window: TypeAlias = Literal["day", "month"] | float
"""A day or a month in UTC, or seconds."""


class Budget:
    """Limits what runs spend together in a day, a month or some seconds, over all processes.

    Pass it to ``Agent(budget=...)``. Before each request, its estimated cost is reserved. After it,
    the real one takes its place. Near the limit, a request waits for those under way. If a process
    dies during a request, its estimate is spent.

    Args:
        limit: How much may be spent in a window. Or a function of the spender, such as by plan.
        per: For whom it is counted: ``principal``, ``tenant`` (from the metadata), or the name
            from a function.
        window: ``day`` or ``month``, in UTC, or seconds.
        unit: ``cost`` in US dollars or the currency of ``prices``, ``tokens``, or tool ``calls``.
        database: A path, ``postgresql://...``, or a ``RunStore``.
        at_limit: ``refuse`` ends the run. ``ask`` asks a person to raise the limit. Or a model to
            answer instead; its requests are counted, without a limit.
        name: The budget's name in the database and on pages. Budgets with one name are one budget.
            Needed if ``per`` is a lambda.
        prices: Your own prices in place of the known ones.
        estimate: Returns what a request may use at most. Default: its text, and ``max_tokens``.
        wait: Seconds a request waits near the limit.
        clock: Returns the time in seconds.
    """

    def __init__(  # noqa: PLR0913  each is an option with a default
        self,
        limit: Amount | Callable[[Spender], Amount],
        *,
        database: str | os.PathLike[str] | RunStore,
        per: Per = "principal",
        window: _Window = "day",
        unit: BudgetUnit = "cost",
        at_limit: str | Model = "refuse",
        name: str = "",
        prices: Prices = None,
        estimate: Estimate = estimate_tokens,
        wait: float = _WAIT_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        _check_window(window)
        _check_options(limit, unit, per)
        if unit == "calls" and at_limit not in ("refuse", "ask"):
            raise ValueError("Budget(unit='calls', at_limit=...): pass 'refuse' or 'ask'.")
        self.name = name or _make_name(unit, per, window)
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"Budget(name={self.name!r}): use a-z, 0-9 and _.")
        self._limit = limit
        self._per: Per = per
        self._window: _Window = window
        self._unit: BudgetUnit = unit
        self._prices = prices
        self._store = database if isinstance(database, RunStore) else open_runs(database)
        self._clock = clock
        self._accounts = Accounts(self._store, clock)
        instead = None if at_limit in ("refuse", "ask") else at_limit
        self._terms = Terms(
            unit=unit,
            prices=prices,
            estimate=estimate,
            wait=wait,
            instead=named(instead) if isinstance(instead, str) else instead,
            raise_name=f"raise_{self.name}" if at_limit == "ask" else "",
        )

    @property
    def hooks(self) -> Sequence[Hook]:
        """The hooks for an executor, if the budget counts calls. An agent adds them itself."""
        return (Hook(before=self._count_call),) if self._unit == "calls" else ()

    @property
    def tools(self) -> Sequence[Tool[..., Any]]:
        """With ``at_limit="ask"``, the tool for raising the limit with a person's approval."""
        return (self._make_tool(),) if self._terms.raise_name else ()

    def check_models(self, names: Iterable[str]) -> None:
        """Raise ValueError if the budget is a cost, and a model's price is unknown."""
        for name in names if self._unit == "cost" else ():
            if find_price(NO_USAGE, [name], self._prices) is None:
                which = f"model {name!r}" if name else "a model without a name"
                raise ValueError(
                    f"Budget {self.name!r}: the price of {which} is not known. "
                    "Pass it: `Budget(..., prices={NAME: Price(...)})`, with "
                    "`handrail.messages.Price`."
                )

    def limit(self, model: Model, spender: Spender) -> Model:
        """Return a model whose requests count for a spender. ``Agent`` does so for each run."""
        if self._unit == "calls" or self._find_account(spender) is None:
            return model
        return Guarded(model, self._accounts, self._terms, ruler=self, spender=spender)

    async def read_uses(self) -> tuple[BudgetUse, ...]:
        """Return what each holder has spent in the current window."""
        read = partial(self._store.budgets, self.name, now=self._clock())
        return await to_thread.run_sync(read)

    def find_account(self, spender: Spender) -> Account:
        """Return a spender's account in the current window."""
        account = self._find_account(spender)
        if account is None:
            raise LookupError(f"The budget {self.name!r} has no limit for {spender!r}.")
        return account

    def describe(self, account: Account, most: int) -> str:
        """Return the message for a reached limit."""
        window = _describe_window(self._window)
        whose = self._per if isinstance(self._per, str) else getattr(self._per, "__name__", "name")
        amount = self._describe_amount(most)
        until = _describe_time(account.ends)
        return f"The budget of {amount} per {whose} and {window} is used up until {until}."

    def _describe_amount(self, stored: int) -> str:
        if self._unit != "cost":
            return f"{stored:,} {self._unit if stored != 1 else self._unit.removesuffix('s')}"
        amount = f"{as_amount(self._unit, stored):f}"
        return f"${amount}" if self._prices is None else amount

    def _find_account(self, spender: Spender) -> Account | None:
        holder = find_holder(self._per, spender)
        if holder is None:
            return None
        limit = self._limit(spender) if callable(self._limit) else self._limit
        period = _find_period(self._window, self._clock())
        most = as_stored(self._unit, limit)
        return Account(self.name, holder, *period, self._unit, most)

    async def _count_call(self, call: CheckedCall) -> CheckedCall | Result:
        spender = Spender(call.turn.principal, call.turn.metadata, call.turn.run_id)
        account = self._find_account(spender)
        if account is None or call.name == self._terms.raise_name:
            return call
        if await self._accounts.count(account, digest(self.name, call.key), call.name):
            return call
        advice = "Finish with what you have."
        if call.turn.tools.find(self._terms.raise_name) is not None:  # a sub-agent has others
            advice = f"To ask for more, call {self._terms.raise_name}."
        standing = await self._accounts.read(account)
        message = f"Not run. {self.describe(account, standing.most)} {advice}"
        return Result.fail(call.id, FailureKind.DENIED, message)

    def _make_tool(self) -> Tool[..., Any]:
        async def raise_budget(amount: float, context: Context) -> str:
            """Ask a person to raise a budget that is used up.

            Args:
                amount: How much to add.
                context: The context of the call.
            """
            spender = Spender(context.principal, context.metadata, context.run_id)
            account = self.find_account(spender)
            stored = as_stored(self._unit, amount)
            id_ = digest(self.name, context.idempotency_key)
            await self._accounts.increase(account, stored, id_)
            return f"The budget was raised by {self._describe_amount(stored)}. Continue."

        def touch(**_: Any) -> Access:
            return Access(WRITE, f"budget:{self.name}")

        def headline(amount: float) -> str:
            return f"Raise the budget {self.name} by {amount:g}?"

        make = tool(
            name=self._terms.raise_name,
            effect=WRITE,
            needs_approval=True,
            touches=touch,
            headline=headline,
        )
        return make(raise_budget)


def _check_options(limit: object, unit: object, per: object) -> None:
    if unit not in ("cost", "tokens", "calls"):
        raise ValueError(f"Budget(unit={unit!r}): pass 'cost', 'tokens' or 'calls'.")
    check_per("Budget", per)
    is_valid = callable(limit)
    if isinstance(limit, int | float | Decimal) and not isinstance(limit, bool):
        is_valid = Decimal(str(limit)).is_finite() and limit >= 0
    if not is_valid:
        raise ValueError(f"Budget({limit!r}): pass a number of at least 0, or a function.")


def _make_name(unit: BudgetUnit, per: Per, window: _Window) -> str:
    whose = per if isinstance(per, str) else name_function("Budget", per)
    text = f"{unit}_{whose}_{_describe_window(window)}".lower()
    return re.sub("[^a-z0-9]+", "_", text).strip("_")[:50]


class _Period(NamedTuple):
    """From when to when a window lasts, in seconds since 1970."""

    began: float
    ends: float


def _find_period(window: _Window, now: float) -> _Period:
    """Return the window a time is in."""
    if isinstance(window, str):
        today = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        if window == "day":
            return _Period(today.timestamp(), (today + timedelta(days=1)).timestamp())
        first = today.replace(day=1)
        after = (first + timedelta(days=31)).replace(day=1)
        return _Period(first.timestamp(), after.timestamp())
    began = math.floor(now / window) * window
    return _Period(began, began + window)


def _check_window(window: object) -> None:
    """Raise ValueError for anything but a window."""
    is_valid = window in ("day", "month")
    if isinstance(window, int | float) and not isinstance(window, bool):
        is_valid = 0 < window < math.inf
    if not is_valid:
        raise ValueError(f"Budget(window={window!r}): pass 'day', 'month' or seconds.")


def _describe_window(window: _Window) -> str:
    """Return a window as a word."""
    return window if isinstance(window, str) else f"{window:g} s"


def _describe_time(at: float) -> str:
    """Return a time for a message, in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
