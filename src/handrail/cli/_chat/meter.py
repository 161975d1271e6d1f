"""Counts a chat's context, tokens and money, by the prices for limits."""

from __future__ import annotations

from decimal import Decimal

from handrail.agent import RunState
from handrail.cli._base.columns import cells
from handrail.cli._screen.rows import MAX_PROSE_COLUMNS, Row, Span, plain, safe_line, width_of
from handrail.messages import Model, Reply, model_names
from handrail.models import cost

_CENT = Decimal("0.01")
_GAP = 2
_NEARLY_FULL = 80
"""The context percentage from which on it is a warning."""


class Meter:
    """Counts the cost for a chat's replies."""

    def __init__(self) -> None:
        self.mode = ""
        self.place = ""
        """The folder and its branch."""
        self.jobs = 0
        """Commands that run in the background."""
        self.window: int | None = None
        """The model's context size in tokens, if known."""
        self._money: Decimal | None = Decimal(0)
        """None once a reply had no known price."""
        self._tokens = 0
        self._context = 0
        """Tokens in the last request and its reply."""

    def read(self, state: RunState, model: Model) -> None:
        """Count replies in a resumed run."""
        for message in state.messages:
            if isinstance(message, Reply):
                self.add(message, model)

    def add(self, reply: Reply, model: Model) -> None:
        """Count a reply."""
        self._context = reply.usage.total or self._context
        self.add_inner(reply, model)

    def forget_context(self) -> None:
        """Forget the context's use: a part is gone."""
        self._context = 0

    def add_inner(self, reply: Reply, model: Model) -> None:
        """Count a sub-agent's reply, which is not part of the context."""
        used = reply.usage
        if not used.total:
            return
        self._tokens += used.total
        names = (reply.model, *model_names(model))
        found = next((price for name in names if (price := cost(used, name)) is not None), None)
        if found is None or self._money is None:
            self._money = None
        else:
            self._money += found

    @property
    def is_known(self) -> bool:
        """Whether a model has said what it used."""
        return self._tokens > 0

    @property
    def money(self) -> str:
        """The cost in US dollars, if prices are known."""
        if self._money is None:
            return "not known: the model has no known price"
        return f"${self._money:.2f}" if self._money >= _CENT or not self._money else "under $0.01"

    @property
    def _spent(self) -> str:
        """The cost, or tokens if a price is not known."""
        if not self._tokens:
            return ""
        return f"{self._tokens:,} tokens" if self._money is None else self.money

    @property
    def sentence(self) -> str:
        """The tokens, the money and the context, as a sentence."""
        used = [f"Used: {self._tokens:,} tokens"]
        used += [] if self._money is None else [f"{self._money:.2f} dollars"]
        if self.window:
            used.append(f"{100 * self._context // self.window} percent of the context")
        return f"{', '.join(used)}."

    def _context_used(self) -> Row:
        """The used share of the context, if known."""
        if not self._context or not self.window:
            return ()
        share = 100 * self._context // self.window
        full = share >= _NEARLY_FULL
        text = f"{'! ' * full}{share}% of {self.window // 1000}k context{', /compact' * full}"
        return (Span(" · ", "muted"), Span(text, "warn" if full else "muted"))

    def _surroundings(self) -> Row:
        jobs = f"{self.jobs} job{'s' * (self.jobs > 1)}" if self.jobs else ""
        return tuple([Span(f" · {one}", "muted") for one in (safe_line(self.place), jobs) if one])

    def row(self, activity: str, width: int, *, is_busy: bool = False) -> Row:
        """Return a row with the mode, the activity, and what was used.

        Without room for all, what happens is more important than what was used, and this more
        than a model's name.
        """
        mode = Span(("! open" if self.mode == "open" else self.mode), "key")
        what = (Span(f" · {safe_line(activity)}", "muted"),) if activity else ()
        used = self._context_used()
        spent = (Span(self._spent, "muted"),) if self._spent else ()
        first, edge = (Span("  "), mode), min(width, MAX_PROSE_COLUMNS)
        around = () if is_busy else self._surroundings()
        for left in (
            (*first, *what, *around, *used),
            (*first, *what, *used),
            (*first, *(what if is_busy else used)),
        ):
            if spent and edge - width_of(left) - width_of(spent) >= _GAP:
                gap = edge - cells(plain(left)) - cells(plain(spent))
                return (*left, Span(" " * gap), *spent)
            if width_of(left) <= edge:
                return left
        return first
