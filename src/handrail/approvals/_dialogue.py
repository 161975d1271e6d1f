"""The dialogue with a person: one question, asked until there is an answer that counts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, TypeAlias

from handrail import DESTROY, Allow, Call, Deny, HandrailError, Result
from handrail.approvals._answers import NO
from handrail.approvals._display import inline, wrapped
from handrail.approvals._files import Read
from handrail.approvals._prompt import GOES_ON, MARGIN, Line, Look, Prompt
from handrail.approvals._remember import Proposal, Remembers, Scope, offered
from handrail.approvals._tty import Ended, Tty
from handrail.judgement import Answer, Edit, Explanation, Pending

_Turn: TypeAlias = Callable[[str], Answer | Pending | None]
"""What one word of the person's leads to; None where the question is still open."""

_SCOPES: Mapping[str, Scope] = MappingProxyType({"a": "run", "p": "project", "w": "always"})
_LASTS: Mapping[Scope, str] = MappingProxyType(
    {"run": "this run", "project": "this project", "always": "all projects"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What the program around the question hands in; each part opens a way to answer."""

    read: Read | None = None
    workspace: str | os.PathLike[str] | None = None
    remember: Remembers | None = None
    explain: Callable[[Call], Explanation] | None = None
    stop: Callable[[], None] | None = None


class Screen(Protocol):
    """Where a question is shown."""

    @property
    def width(self) -> int:
        """In columns."""
        ...

    @property
    def height(self) -> int:
        """In rows."""
        ...

    def show(self, lines: Iterable[Line]) -> None:
        """Print these, each on a row of its own."""
        ...

    def ask(self, words: str) -> None:
        """Print these words, and leave the cursor behind them."""
        ...


class Dialogue:
    """One question to one person."""

    def __init__(
        self,
        pending: Pending,
        prompt: Prompt,
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
        self._offered = offered(host.remember, pending, prompt)
        self._seen = not prompt.cut and len(prompt.lines) + _OWN_ROWS <= screen.height
        """Whether all of it was on the screen: nobody says yes to what was not."""
        turns: dict[str, _Turn] = {
            "y": self._yes,
            "yes": self._yes,
            "n": self._no,
            "no": self._no,
            "e": self._edit,
            "r": self._respond,
            "d": self._details,
            "?": self._explain,
            "l": self._later,
        }
        if host.stop is not None:
            turns["q"] = self._stop
        self._turns = turns | {
            key: self._store for key, scope in _SCOPES.items() if scope in self._offered
        }

    def answer(self) -> Answer | Pending:
        """Ask until there is an answer; a closed input is a no."""
        self._say("")  # something may have been typed already, and stand on this row
        self._screen.show(self._prompt.lines)
        try:
            while True:
                word = self._answered(*self._choices(), words="your answer: ")
                answer = self._turns.get(word, self._unknown)(word)
                if answer is not None:
                    return answer
        except Ended:
            self._say("")
            return Deny(NO)

    def _answered(self, *choices: str, words: str) -> str:
        """What the person types after they were asked, and nothing from before."""
        for choice in choices:
            self._say(choice, "title")
        self._tty.drain()
        self._screen.ask(words)
        return self._tty.line().strip().lower()

    def _typed(self, words: str) -> str:
        self._screen.ask(words)
        return self._tty.line().strip()

    def _say(self, words: str, look: Look = "plain") -> None:
        rows = wrapped(words, self._screen.width, GOES_ON)
        self._screen.show(Line(row, look) for row in rows)

    def _choices(self) -> Iterator[str]:
        once = '"yes" in full' if self._pending.effect >= DESTROY else "y once"
        offers = [f"{key} {_LASTS[one]}" for key, one in _SCOPES.items() if one in self._offered]
        yield f"yes: {' · '.join([once, *offers])}"
        stop = " · q stop" if "q" in self._turns else ""
        yield f"or: n no · e edit · r respond · d details · ? why · l later{stop}"

    def _unknown(self, _word: str) -> None:
        self._say(_UNKNOWN)

    def _yes(self, word: str) -> Allow | None:
        return Allow() if self._is_meant(word) else None

    def _is_meant(self, word: str) -> bool:
        """Whether a yes counts: all was shown, and it is as long as what it does is grave."""
        if not self._seen:
            self._say(_UNSEEN, "warning")
        elif self._pending.effect >= DESTROY and word != "yes":
            self._say(_IN_FULL, "warning")
        else:
            return True
        return False

    def _no(self, _word: str) -> Deny:
        words = self._typed("words for the model (or Enter): ")
        return Deny(f"{_SAID_NO}{words}" if words else NO)

    def _edit(self, _word: str) -> Edit | None:
        args = self._pending.call.args
        self._say("the arguments now:")
        self._say(MARGIN + inline(args if isinstance(args, str) else json.dumps(dict(args))))
        while text := self._typed("new arguments as JSON, on one line (or Enter): "):
            try:
                is_object = isinstance(json.loads(text), dict)
            except (ValueError, RecursionError):
                is_object = False
            if is_object:
                return Edit(text)
            self._say('This is no JSON object, such as {"path": "a.py"}.', "warning")
        return None

    def _respond(self, _word: str) -> Result | None:
        text = self._typed("the result that the model reads (or Enter): ")
        return Result(self._pending.call.id, text) if text else None

    def _later(self, _word: str) -> Pending:
        return self._pending

    def _stop(self, _word: str) -> Deny:
        assert self._host.stop is not None  # noqa: S101  the key is offered with it alone
        self._host.stop()
        return Deny(_STOPPED)

    def _explain(self, _word: str) -> None:
        """Why it is asked: the rule, where that stands, and all others that speak of the call."""
        origin = self._pending.origin
        self._say(f"asked by: {inline(str(origin))}" if origin else "No rule is named that asks.")
        if self._host.explain is None:
            return
        matched = self._host.explain(self._pending.call).matched
        self._say("every rule that speaks of it, the deciding one first:" if matched else _SILENT)
        for one in matched:
            self._say(MARGIN + inline(str(one)))

    def _details(self, _word: str) -> None:
        rows, page = self._prompt.details, max(self._screen.height - _OWN_ROWS, 1)
        for start in range(0, len(rows), page):
            self._screen.show(rows[start : start + page])
            left = len(rows) - start - page
            if left > 0 and self._typed(f"({left} more rows; Enter, or q) ").lower() == "q":
                return
        self._seen = True

    def _store(self, word: str) -> Allow | None:
        proposal = self._offered[_SCOPES[word]]
        if not self._seen:
            self._say(_UNSEEN, "warning")
            return None
        first, *others = proposal.rule.rstrip("\n").split("\n")
        self._say("rule:" if others else f"rule: {inline(first)}")
        for line in (first, *others) if others else ():
            self._say(MARGIN + inline(line))
        self._say(f"scope: {_LASTS[proposal.scope]}")
        self._say(f"file: {inline(proposal.file)}" if proposal.file else "file: none")
        said = self._answered(_STORES, words="store it? y/n: ")
        if said in {"y", "yes"} and self._is_meant(said) and self._stored(proposal):
            return Allow()
        self._say("Nothing was stored.")
        return None

    def _stored(self, proposal: Proposal) -> bool:
        assert self._host.remember is not None  # noqa: S101  it made the proposal
        try:
            self._host.remember.store(proposal)
        except (OSError, HandrailError) as error:
            self._say(f"It could not be stored ({type(error).__name__}).", "warning")
            return False
        return True


_OWN_ROWS = 4
"""Rows that we need for ourselves, above and below what is shown."""
_STORES = "This allows the call, and stores the rule."
_UNKNOWN = "Please answer with one of these."
_UNSEEN = "Not all of it was on the screen: look at it with d first."
_IN_FULL = "This may destroy something: type yes in full, or n."
_SILENT = "No rule speaks of it."
_STOPPED = "The user stopped the run, and nothing was run."
_SAID_NO = "The user said no, and nothing was run. They said: "
