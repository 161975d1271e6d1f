"""The dialogue with a person: show one request, and prompt until there is an answer."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from types import MappingProxyType
from typing import Protocol, TypeAlias

from handrail import DESTROY, Allow, Call, Deny, HandrailError, Result
from handrail.approvals._display import Look, RenderedLine, inline, inline_json, wrap
from handrail.approvals._prompt import CONTINUATION, MARGIN, RenderedRequest
from handrail.approvals._remember import Proposal, Remembers, Scope, explain_no_offer, find_offers
from handrail.approvals._tty import Ended, Tty
from handrail.permissions import Answer, Edit, Explanation, Pending

_Action: TypeAlias = Callable[[str], Answer | Pending | None]
"""Handles one answer of the person. None if the request is still open."""

_SCOPES: Mapping[str, Scope] = MappingProxyType({"a": "run", "p": "project", "w": "always"})
_SCOPE_NAMES: Mapping[Scope, str] = MappingProxyType(
    {"run": "this run", "project": "this project", "always": "all projects"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The options that the application passes. Each adds a way to answer."""

    workspace: str | os.PathLike[str] | None = None
    remember: Remembers | None = None
    explain: Callable[[Call], Explanation] | None = None
    stop: Callable[[], None] | None = None


class Screen(Protocol):
    """A screen that can show a request."""

    @property
    def width(self) -> int:
        """The width in columns."""
        ...

    @property
    def height(self) -> int:
        """The height in rows."""
        ...

    def show(self, lines: Iterable[RenderedLine]) -> None:
        """Print each line on its own row."""
        ...

    def ask(self, text: str) -> None:
        """Print a text, and leave the cursor after it."""
        ...


class Dialogue:
    """One request to one person."""

    def __init__(
        self,
        pending: Pending,
        prompt: RenderedRequest,
        tty: Tty,
        *,
        screen: Screen,
        host: Host,
    ) -> None:
        self._pending = pending
        self._prompt = prompt
        self._tty = tty
        self._screen = screen
        self._host = host
        remember = host.remember
        self._offers = find_offers(remember, pending, prompt)
        self._was_shown = not prompt.cut and len(prompt.lines) + _OWN_ROWS <= screen.height
        """Whether all of the request was on the screen. Only then can it be approved."""
        self._seen = prompt.lines if self._was_shown else ()
        actions: dict[str, _Action] = {
            "y": self._approve,
            "yes": self._approve,
            "n": self._deny,
            "no": self._deny,
            "e": self._edit,
            "r": self._respond,
            "d": self._details,
            "?": self._explain,
            "l": self._later,
        }
        if host.stop is not None:
            actions["q"] = partial(self._stop, host.stop)
        self._actions = actions | {
            key: partial(self._remember, remember, proposals)
            for key, scope in _SCOPES.items()
            if remember is not None and (proposals := self._offers.get(scope))
        }

    def answer(self) -> Answer | Pending:
        """Prompt until there is an answer. A closed input denies the call."""
        self._show("")  # the row may have text that was typed already
        self._screen.show(self._prompt.lines)
        try:
            while True:
                word = self._ask_choice(*self._choices(), prompt="your answer: ")
                answer = self._actions.get(word, self._unknown)(word)
                if answer is not None:
                    return answer
        except Ended:
            self._show("")
            return Deny.by_user()

    def _ask_choice(self, *choices: str, prompt: str) -> str:
        """Return what the person types after the prompt, ignoring earlier input."""
        for choice in choices:
            self._show(choice, "title")
        self._tty.drain()
        self._screen.ask(prompt)
        return self._tty.line().strip().lower()

    def _ask_text(self, prompt: str) -> str:
        self._screen.ask(prompt)
        return self._tty.line().strip()

    def _show(self, text: str, look: Look = "plain") -> None:
        rows = wrap(text, self._screen.width, CONTINUATION)
        self._screen.show(RenderedLine(row, look) for row in rows)

    def _choices(self) -> Iterator[str]:
        once = '"yes" in full' if self._pending.effect >= DESTROY else "y once"
        offers = [
            f"{key} {_SCOPE_NAMES[scope]}"
            for key, scope in _SCOPES.items()
            if scope in self._offers
        ]
        yield f"approve: {' · '.join([once, *offers])}"
        if not offers and (
            why := explain_no_offer(self._host.remember, self._pending, self._prompt)
        ):
            yield f"cannot be remembered: {inline(why)}"
        stop = " · q stop" if "q" in self._actions else ""
        yield f"or: n deny · e edit · r respond · d details · ? why · l later{stop}"

    def _unknown(self, _word: str) -> None:
        self._show(_UNKNOWN)

    def _approve(self, word: str) -> Allow | None:
        return Allow() if self._can_approve(word) else None

    def _can_approve(self, word: str) -> bool:
        """Return whether all was shown, and a destructive call is approved with a full "yes"."""
        if not self._was_shown:
            self._show(_NOT_SHOWN, "warning")
        elif self._pending.effect >= DESTROY and word != "yes":
            self._show(_IN_FULL, "warning")
        else:
            return True
        return False

    def _deny(self, _word: str) -> Deny:
        return Deny.by_user(self._ask_text("message for the model (optional): "))

    def _edit(self, _word: str) -> Edit | None:
        args = str(self._pending.call.args)  # a pending call has them as text
        self._show("current arguments:")
        self._show(MARGIN + (inline_json(args) if _is_object(args) else inline(args)))
        while text := self._ask_text("new arguments as JSON, on one line (Enter to go back): "):
            if _is_object(text):
                return Edit(text)
            self._show('Not a JSON object. Write it as {"path": "a.py"}.', "warning")
        return None

    def _respond(self, _word: str) -> Result | None:
        text = self._ask_text("result for the model (Enter to go back): ")
        return Result(self._pending.call.id, text) if text else None

    def _later(self, _word: str) -> Pending:
        return self._pending

    def _stop(self, stop: Callable[[], None], _word: str) -> Deny:
        stop()
        return Deny(_STOPPED)

    def _explain(self, _word: str) -> None:
        """Show which rule asks, and every rule that matches the call."""
        origin = self._pending.origin
        self._show(f"asked by: {inline(str(origin))}" if origin else "No rule asked for this.")
        if self._host.explain is None:
            return
        matched = self._host.explain(self._pending.call).matched
        self._show("matching rules, the deciding one first:" if matched else _NO_MATCH)
        for rule in matched:
            self._show(MARGIN + inline(str(rule)))

    def _details(self, _word: str) -> None:
        """Show the details in pages, without the first rows if they were on the screen already."""
        rows = self._prompt.details
        pairs = zip(rows, self._seen, strict=False)
        rows = rows[sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)) :]
        page = max(self._screen.height - _OWN_ROWS, 1)
        for start in range(0, len(rows), page):
            self._screen.show(rows[start : start + page])
            left = len(rows) - start - page
            if (
                left > 0
                and self._ask_text(f"({left} more rows; Enter to continue, q to go back) ").lower()
                == "q"
            ):
                return
        self._was_shown = True

    def _remember(
        self, remember: Remembers, proposals: Sequence[Proposal], _word: str
    ) -> Allow | None:
        """Let the person choose one of several proposals, the narrowest first, and store it."""
        if not self._was_shown:
            self._show(_NOT_SHOWN, "warning")
            return None
        if len(proposals) == 1:
            return self._store(remember, proposals[0])
        choices = {str(number): one for number, one in enumerate(proposals, 1)}
        rows = [f"{number} {inline(one.width)}" for number, one in choices.items()]
        chosen = choices.get(self._ask_choice(*rows, prompt="remember (Enter to go back): "))
        return None if chosen is None else self._store(remember, chosen)

    def _store(self, remember: Remembers, proposal: Proposal) -> Allow | None:
        """Show a rule, and store it if the person confirms it."""
        first, *others = proposal.rule.rstrip("\n").split("\n")
        self._show("rule:" if others else f"rule: {inline(first)}")
        for line in (first, *others) if others else ():
            self._show(MARGIN + inline(line))
        self._show(f"scope: {_SCOPE_NAMES[proposal.scope]}")
        self._show(f"file: {inline(proposal.file)}" if proposal.file else "file: none")
        word = self._ask_choice(_STORES, prompt="store it? y/n: ")
        confirmed = word in {"y", "yes"} and self._can_approve(word)
        if confirmed and self._try_store(remember, proposal):
            return Allow()
        self._show("Nothing was stored.")
        return None

    def _try_store(self, remember: Remembers, proposal: Proposal) -> bool:
        try:
            remember.store(proposal)
        except (OSError, HandrailError) as error:
            reason = inline(f"{type(error).__name__}: {error}")
            self._show(f"The rule could not be stored: {reason}", "warning")
            return False
        return True


def _is_object(text: str) -> bool:
    """Return whether a text is a JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


_OWN_ROWS = 4
"""Rows that the dialogue needs above and below the request."""
_STORES = "This approves the call and stores the rule."
_UNKNOWN = "Unknown answer. Type one of the keys above, then Enter."
_NOT_SHOWN = "Part of the request was not on the screen. Type d to see all of it first."
_IN_FULL = "This call can destroy data. Type yes in full to approve it, or n to deny it."
_NO_MATCH = "No rule matches this call."
_STOPPED = "Not run: the user stopped the run."
