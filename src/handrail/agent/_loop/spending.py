"""Count a run's tokens and cost. A sub-agent's count for its parent, too."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple, Protocol

from handrail.agent._history.conversation import Conversation
from handrail.agent._loop.limits import LimitName, Limits
from handrail.messages import NO_USAGE, Model, Price, Usage, model_names


class UnknownPrice(ValueError):
    """A run has a cost limit, and a model with an unknown price."""


class Reached(NamedTuple):
    """A reached limit."""

    name: LimitName
    detail: str
    last_word: bool = False
    """Whether the model gets one more turn. At a limit of its parent, a sub-agent gets none."""


class _Settings(Protocol):
    @property
    def model(self) -> Model: ...
    @property
    def limits(self) -> Limits: ...


class _Parent(Protocol):
    spending: Spending


class _Account(NamedTuple):
    talk: Conversation
    limits: Limits

    def add(self, usage: Usage, model: str, names: Iterable[str]) -> None:
        self.talk.usage += usage
        if self.limits.cost is not None:
            self.talk.cost += _cost(self.limits, usage, model, names)


class Spending:
    """Counts one run's tokens and cost. Raises UnknownPrice if it cannot."""

    def __init__(self, talk: Conversation, settings: _Settings, parent: _Parent | None) -> None:
        self.own = _Account(talk, settings.limits)
        above = None if parent is None else parent.spending
        self.parents: tuple[_Account, ...] = () if above is None else (above.own, *above.parents)
        """The runs this one works for."""
        self._names = model_names(settings.model)
        for account in (self.own, *self.parents):
            check_price(account.limits, self._names)

    def add(self, usage: Usage, model: str = "") -> None:
        """Count a model's tokens. By default, the most expensive model's."""
        if usage is NO_USAGE:
            return
        for account in (self.own, *self.parents):
            account.add(usage, model, self._names)

    def reached(self) -> Reached | None:
        """Return the reached limit, its own or one it works under."""
        talk, limits = self.own
        name = limits.over(talk.spent, talk.before)
        if name is not None:
            return Reached(name, limits.describe(name), limits.last_word)
        for talk, limits in self.parents:
            name = limits.over_budget(talk.spent, talk.before)
            if name is not None:
                return Reached(name, limits.describe(name))
        return None


def check_price(limits: Limits, names: Iterable[str]) -> None:
    """Raise UnknownPrice if there is a cost limit, and a model's price is unknown."""
    if limits.cost is None:
        return
    for name in names:
        if _find_cost(limits, NO_USAGE, name) is None:
            which = f"model {name!r}" if name else "a model without a name"
            prices = f"{{{name!r}: Price(...)}}" if name else "Price(...)"
            raise UnknownPrice(
                f"Limits(cost={limits.cost}): the price of {which} is not known. "
                f"Pass it: `Limits(cost={limits.cost}, prices={prices})`, with "
                "`handrail.messages.Price`."
            )


def _cost(limits: Limits, usage: Usage, model: str, names: Iterable[str]) -> Decimal:
    """Return what tokens cost. A reply may name its model otherwise than the request did."""
    found = [_find_cost(limits, usage, name) for name in (model, *names)]
    if found[0] is not None:
        return found[0]
    return max(cost for cost in found if cost is not None)


def _find_cost(limits: Limits, usage: Usage, name: str) -> Decimal | None:
    if isinstance(limits.prices, Price):
        return limits.prices.cost(usage)
    from handrail.models import cost  # rarely needed

    return cost(usage, name, limits.prices)
