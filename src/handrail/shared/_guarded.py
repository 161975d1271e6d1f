"""A model whose requests a budget limits."""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

import anyio

from handrail import Call
from handrail._support import stream_items
from handrail.agent import Spender
from handrail.messages import (
    NO_USAGE,
    Model,
    ModelError,
    Reply,
    Request,
    StreamItem,
    ToolResults,
    Usage,
    model_names,
)
from handrail.runs import JournalError
from handrail.runs.records import BudgetUnit, as_amount
from handrail.shared._accounts import Account, Accounts, Reserved
from handrail.shared._estimates import Estimate, Prices, Received, as_units

log = logging.getLogger("handrail")

ASKED = "handrail.budget"
"""The model in a reply asking to raise a budget. No model was asked."""
_FIRST_PAUSE, _MAX_PAUSE = 0.05, 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a budget counts, and what happens at its limit."""

    unit: BudgetUnit
    prices: Prices
    estimate: Estimate
    wait: float
    instead: Model | None
    """Answers at the limit."""
    raise_name: str
    """The tool for asking for more at the limit, or ""."""


class Ruler(Protocol):
    """Finds accounts, and describes them."""

    def find_account(self, spender: Spender) -> Account:
        """Return a spender's account in the current window."""
        ...

    def describe(self, account: Account, most: int) -> str:
        """Return the message for a reached limit."""
        ...


class Guarded:
    """A model reserving before each request, and settling after it."""

    def __init__(
        self, model: Model, accounts: Accounts, terms: Terms, *, ruler: Ruler, spender: Spender
    ) -> None:
        self._model = model
        self._accounts = accounts
        self._terms = terms
        self._ruler = ruler
        self._spender = spender
        instead = () if terms.instead is None else model_names(terms.instead)
        self.names = tuple(dict.fromkeys((*model_names(model), *instead)))

    def __call__(self, request: Request) -> AsyncIterator[StreamItem]:
        """Reply to a request."""
        return self._reply(request)

    async def _reply(self, request: Request) -> AsyncGenerator[StreamItem]:
        account, model = self._ruler.find_account(self._spender), self._model
        estimate = self._terms.estimate(request)
        held = await self._reserve(account, model, estimate)
        if held is None and self._terms.instead is not None:
            model = self._terms.instead
            held = self._make_reservation(account, model, estimate)
            await self._accounts.reserve(held, by_force=True)
        if held is None:
            asked = self._ask_for_more(account, request)
            if asked is None:
                standing = await self._accounts.read(account)
                raise ModelError(self._ruler.describe(account, standing.most), "budget")
            yield asked.calls[0]
            yield asked
            return
        async with aclosing(self._ask(model, request, held, estimate)) as items:
            async for item in items:
                yield item

    async def _ask(
        self, model: Model, request: Request, held: Reserved, estimate: Usage
    ) -> AsyncGenerator[StreamItem]:
        received, known, is_settled = Received(), NO_USAGE, False
        try:
            async with aclosing(stream_items(model(request))) as items:
                async for item in items:
                    received.see(item)
                    if isinstance(item, Reply):  # its calls can ask models, too, before this ends
                        await self._settle(model, held, received, received.usage(known, estimate))
                        is_settled = True
                    yield item
        except ModelError as error:
            known = error.usage
            raise
        finally:
            if not is_settled:
                with anyio.CancelScope(shield=True):
                    await self._settle(model, held, received, received.usage(known, estimate))

    async def _settle(self, model: Model, held: Reserved, received: Received, used: Usage) -> None:
        names = (received.model,) if received.model else model_names(model)
        if received.model == ASKED:
            used = NO_USAGE
        spent = as_units(self._terms.unit, used, names, self._terms.prices)
        if not spent and used != NO_USAGE:  # the reply names its model otherwise
            spent = as_units(self._terms.unit, used, model_names(model), self._terms.prices)
        try:
            await self._accounts.settle(held, spent, received.model or held.part)
        except JournalError as error:
            log.warning("the budget counts an estimate, since it could not be settled: %s", error)

    async def _reserve(self, account: Account, model: Model, estimate: Usage) -> Reserved | None:
        """Reserve an estimate, after requests under way if the limit is near. None: no room."""
        held = self._make_reservation(account, model, estimate)
        until, pause = anyio.current_time() + self._terms.wait, _FIRST_PAUSE
        while not await self._accounts.reserve(held):
            standing = await self._accounts.read(account)
            if standing.spent >= standing.most or anyio.current_time() >= until:
                return None
            await anyio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE)
        return held

    def _make_reservation(self, account: Account, model: Model, estimate: Usage) -> Reserved:
        names, terms = model_names(model), self._terms
        amount = as_units(terms.unit, estimate, names, terms.prices)
        return Reserved(account, uuid.uuid4().hex, amount, names[0])

    def _ask_for_more(self, account: Account, request: Request) -> Reply | None:
        """Return a reply asking a person for more, unless it must not or was denied."""
        name = self._terms.raise_name
        may = request.tool_choice == "auto" and request.tools.find(name) is not None
        if not name or not may or _was_denied(request, name):
            return None
        amount = as_amount(self._terms.unit, account.most) or Decimal(1)
        call = Call(name, {"amount": float(amount)}, f"{name}_{uuid.uuid4().hex[:12]}")
        return Reply((call,), "calls", model=ASKED)


def _was_denied(request: Request, name: str) -> bool:
    """Return whether the last call for more has failed."""
    reply, results = request.messages[-2:] if len(request.messages) > 1 else (None, None)
    if not isinstance(reply, Reply) or not isinstance(results, ToolResults):
        return False
    ids = {call.id for call in reply.calls if call.name == name}
    return any(one.call_id in ids and one.failure is not None for one in results.results)
