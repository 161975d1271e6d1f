"""The dialogue with a person: show one question, and prompt until there is an answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

from handrail import Allow, Deny, HandrailError, Result
from handrail.approvals._display import Look, RenderedLine, Screen, inline, inline_json
from handrail.approvals._editing import edit_text, find_editor, is_json_object
from handrail.approvals._form import ask_values, read_form
from handrail.approvals._keys import (
    WAIT,
    Choice,
    KeyReader,
    choice_rows,
    list_rows,
    pick_key,
    single_keys,
)
from handrail.approvals._prompt import MARGIN, RenderedRequest, wrap_rows
from handrail.approvals._question import LOOKS, Question
from handrail.approvals._remember import (
    Host,
    Proposal,
    Remembers,
    Scope,
    explain_no_offer,
    find_offers,
)
from handrail.approvals._tty import Ended, Tty
from handrail.permissions import Answer, Edit, Grade, Pending

_Action: TypeAlias = Callable[[], Answer | Pending | None]
"""Handles one answer. None if the request is still open."""

_SCOPES: Mapping[str, Scope] = MappingProxyType({"r": "run", "p": "project", "w": "always"})
_SCOPE_NAMES: Mapping[Scope, str] = MappingProxyType(
    {"run": "this run", "project": "this project", "always": "all projects"}
)
RAIL, GRAVE_RAIL = "┃ ", "║ "


class Dialogue:
    """One request to one person."""

    def __init__(
        self,
        request: RenderedRequest,
        question: Question,
        tty: Tty,
        *,
        screen: Screen,
        host: Host,
    ) -> None:
        self._pending = pending = request.view.pending
        self._request = request
        self._question = question
        self._tty = tty
        self._screen = screen
        self._host = host
        self._is_plain = request.is_plain and not question.cut
        self._offers = find_offers(host.remember, pending, is_plain=self._is_plain)
        self._was_shown = not question.cut and len(question.lines) + _OWN_ROWS <= screen.height
        """Whether the whole request was on the screen. Only then can it be approved."""
        self._is_grave = request.view.grade is Grade.LOSES
        self._actions: dict[str, _Action] = {
            "y": self._approve,
            "yes": self._approve_fully,
            "n": self._deny,
            "no": self._deny,
            "e": self._edit,
            "r": self._respond,
            "d": self._details,
            "w": self._explain,
            "l": self._later,
            "?": self._list_keys,
        }
        if host.remember is not None and self._offers:
            self._actions["p"] = self._actions["a"] = partial(self._choose_rule, host.remember)
        if host.allow_edits is not None and self._can_switch:
            self._actions["a"] = partial(self._switch, host.allow_edits)
        self._rest = [Choice("t", _REST)] if host.rest.offers(pending) else []
        if self._rest:
            self._actions["t"] = self._allow_rest
        if host.stop is not None:
            self._actions["q"] = partial(self._stop, host.stop)

    def answer(self) -> Answer | Pending:
        """Prompt until there is an answer. A closed input denies the call."""
        self._screen.show([RenderedLine("")])  # the row may have text typed before
        self._screen.show(map(self._rail, self._question.lines))
        try:
            while True:
                word = self._choose()
                answer = self._actions.get(word, self._unknown)()
                if answer is not None:
                    return self._sign(answer)
        except Ended:
            self._screen.show([RenderedLine("")])
            return Deny.by_user()

    def _sign(self, answer: Answer | Pending) -> Answer | Pending:
        """Add who answered, where, and what they saw."""
        if isinstance(answer, Allow | Deny | Edit):
            seen = self._question.seen
            return replace(answer, by=self._host.by, via="terminal", seen=seen)
        return answer

    # -- keys -------------------------------------------------------------------------------------

    @property
    def _always(self) -> str:
        """The label for the key for all later calls, or ""."""
        if self._can_switch:
            return "yes to all edits in this run"
        return "always, as a rule" if self._offers else ""

    @property
    def _can_switch(self) -> bool:
        is_change = self._request.view.grade is Grade.CHANGE and not self._pending.parts
        return self._host.allow_edits is not None and is_change and not self._pending.once

    def _choices(self) -> tuple[list[Choice], int]:
        """Return the most important keys, and Enter's choice."""
        rest = [Choice("n", "no"), Choice("?", "more")]
        if not self._was_shown:
            return [Choice("d", "show all of it"), *rest], 0
        always = self._rest or ([Choice("a", self._always)] if self._always else [])
        light = self._request.view.grade <= Grade.CHANGE
        yes = Choice("y", "yes" if light else "yes, this once")
        if self._pending.kind == "form":
            yes = Choice("y", "answer it")
        return [yes, *always, *rest], 0 if light else 1 + len(always)

    def _list_keys(self) -> None:
        """Show all keys available here."""
        choices = [
            *([Choice("yes" if self._is_grave else "y", "yes, this once")] * self._was_shown),
            *self._rest,
            *([Choice("a", self._always)] if self._always else ()),
            *([Choice("p", "always, as a rule")] if self._can_switch and self._offers else ()),
            Choice("n", "no, and say why"),
            Choice("e", "edit it in $EDITOR" if find_editor() else "edit its arguments"),
            Choice("d", "show all of it"),
            Choice("w", "why am I asked?"),
            Choice("r", "answer in the tool's place"),
            Choice("l", "decide later"),
        ]
        if self._host.stop is not None:
            choices.append(Choice("q", "no, and stop the run"))
        self._screen.show(map(self._rail, list_rows(choices)))
        self._say_no_offer()

    def _say_no_offer(self) -> None:
        remember = self._host.remember
        why = explain_no_offer(remember, self._pending, is_plain=self._is_plain)
        if not self._offers and why:
            self._show(f"cannot be remembered: {inline(why)}", "muted")

    def _choose(self) -> str:
        """Return what the person chooses."""
        choices, marked = self._choices()
        if self._is_grave and self._was_shown:
            if self._screen.has_keys:
                return self._ask_line(f"{_TYPE_YES}  {_POINTER} ")
            return self._ask_word(_TYPE_YES)
        if self._screen.has_keys:
            return self._pick(choices, marked)
        return self._ask_word(*(row.text for row in choice_rows(choices, self._width)))

    def _ask_word(self, *rows: str) -> str:
        for row in rows:
            self._show(row)
        return self._ask_line("your answer: ")

    def _ask_line(self, prompt: str) -> str:
        """Return what the person types after the prompt, ignoring earlier input."""
        self._tty.drain()
        return self._ask_text(prompt).lower()

    def _ask_text(self, prompt: str) -> str:
        self._screen.ask(self._rail(RenderedLine(prompt)))
        return self._tty.line().strip()

    def _pick(self, choices: Sequence[Choice], first: int) -> str:
        """Return the person's key, or the marked one for Enter."""
        fd = self._tty.fd
        known = {*self._actions, *(one.key for one in choices)}
        esc = "q" if "q" in self._actions else "n"
        with single_keys(fd):
            keys = KeyReader(fd, self._tty.is_typed, self._host.quiet)
            key = pick_key(choices, first, keys, self._draw, known=known, esc=esc)
            said = {one.key: one.text for one in choices}.get(key, key)
            self._screen.draw([self._rail(RenderedLine(f"  {said}", "title"))], ends=True)
        return key

    def _draw(self, choices: Sequence[Choice], marked: int | None, hint: str) -> None:
        rows = choice_rows(choices, self._width, marked, hint=hint, muted=hint == WAIT)
        self._screen.draw([*map(self._rail, rows)])

    # -- rows -------------------------------------------------------------------------------------

    @property
    def _width(self) -> int:
        return self._screen.width - len(RAIL)

    def _rail(self, line: RenderedLine) -> RenderedLine:
        """Return a line behind the rail."""
        rail = GRAVE_RAIL if self._is_grave else RAIL
        spans = [(first + len(rail), last + len(rail), look) for first, last, look in line.spans]
        mark = (0, len(rail), LOOKS[self._request.view.grade])
        text = rail + line.text if line.text else rail.rstrip()
        return replace(line, text=text, spans=(mark, *spans))

    def _show(self, text: str, look: Look = "plain") -> None:
        line = RenderedLine(text, look)
        self._screen.show(map(self._rail, wrap_rows([line], self._width)))

    # -- answers ----------------------------------------------------------------------------------

    def _unknown(self) -> None:
        self._show(_UNKNOWN)

    def _approve(self) -> Allow | Edit | None:
        if self._is_grave and self._was_shown:
            self._show(_IN_FULL, "warning")
            return None
        return self._approve_fully()

    def _approve_fully(self) -> Allow | Edit | None:
        if not self._was_shown:
            self._show(_NOT_SHOWN, "warning")
            return None
        if self._pending.kind != "form":
            return Allow()
        return ask_values(read_form(self._pending), self._ask_text, self._show)

    def _deny(self) -> Deny:
        return Deny.by_user(self._ask_text(_INSTEAD))

    def _edit(self) -> Edit | None:
        args = str(self._pending.call.args)  # a pending call has them as text
        if editor := find_editor():
            return self._read_edited(args, edit_text(editor, args))
        self._show("current arguments:")
        self._show(MARGIN + (inline_json(args) if is_json_object(args) else inline(args)))
        while text := self._ask_text("new arguments as JSON, on one line (Enter to go back): "):
            if is_json_object(text):
                return Edit(text)
            self._show(_NO_OBJECT, "warning")
        return None

    def _read_edited(self, args: str, text: str | None) -> Edit | None:
        """Return the person's text from the editor, or None if nothing changed."""
        if text is None:
            self._show("The editor failed. Nothing was changed.", "warning")
        elif not is_json_object(text):
            self._show(_NO_OBJECT, "warning")
        elif is_json_object(args) and json.loads(text) == json.loads(args):
            self._show("Nothing was changed.")
        else:
            return Edit(text)
        return None

    def _respond(self) -> Result | None:
        text = self._ask_text("result for the model (Enter to go back): ")
        return Result(self._pending.call.id, text) if text else None

    def _later(self) -> Pending:
        return self._pending

    @staticmethod
    def _stop(stop: Callable[[], None]) -> Deny:
        stop()
        return Deny(_STOPPED)

    def _explain(self) -> None:
        """Show which rule asks, and every rule matching the call."""
        origin = self._pending.origin
        self._show(f"asked by: {inline(str(origin))}" if origin else "No rule asked for this.")
        if self._host.explain is None:
            return
        matched = self._host.explain(self._pending.call).matched
        self._show("matching rules, the deciding one first:" if matched else _NO_MATCH)
        for rule in matched:
            self._show(MARGIN + inline(str(rule)))

    def _details(self) -> None:
        """Show the details in pages."""
        rows = self._request.details
        page = max(self._screen.height - _OWN_ROWS, 1)
        for start in range(0, len(rows), page):
            self._screen.show(map(self._rail, rows[start : start + page]))
            left = len(rows) - start - page
            if (
                left > 0
                and self._ask_text(f"({left} more rows; Enter to continue, q to go back) ").lower()
                == "q"
            ):
                return
        self._was_shown = True

    # -- not to be asked again --------------------------------------------------------------------

    def _allow_rest(self) -> Answer | None:
        """Approve the call, and the program's later calls like it."""
        if self._was_shown:
            self._host.rest.allow(self._pending)
        return self._approve_fully()

    def _switch(self, allow_edits: Callable[[], None]) -> Edit | None:
        """Switch to a mode without approval for edits, which then decides about the same call."""
        if not self._was_shown:
            self._show(_NOT_SHOWN, "warning")
            return None
        allow_edits()
        return Edit(str(self._pending.call.args))

    def _choose_rule(self, remember: Remembers) -> Allow | None:
        """Let the person choose a rule, the narrowest first, and store it."""
        if not self._was_shown:
            self._show(_NOT_SHOWN, "warning")
            return None
        scopes = [
            Choice(key, _SCOPE_NAMES[scope])
            for key, scope in _SCOPES.items()
            if scope in self._offers
        ]
        word = self._ask_one(scopes)
        proposals = self._offers.get(_SCOPES[word], ()) if word in _SCOPES else ()
        if not proposals:
            return None
        if len(proposals) == 1:
            return self._store(remember, proposals[0])
        numbered = {str(number): one for number, one in enumerate(proposals, 1)}
        wide = [Choice(number, inline(one.width)) for number, one in numbered.items()]
        chosen = numbered.get(self._ask_one(wide))
        return None if chosen is None else self._store(remember, chosen)

    def _ask_one(self, choices: Sequence[Choice]) -> str:
        self._screen.show(map(self._rail, list_rows(choices)))
        return self._ask_line("remember for (Enter to go back): ")

    def _store(self, remember: Remembers, proposal: Proposal) -> Allow | None:
        """Show a rule, and store it if the person confirms it."""
        first, *others = proposal.rule.rstrip("\n").split("\n")
        self._show("rule:" if others else f"rule: {inline(first)}")
        for line in (first, *others) if others else ():
            self._show(MARGIN + inline(line))
        self._show(f"scope: {_SCOPE_NAMES[proposal.scope]}")
        self._show(f"file: {inline(proposal.file)}" if proposal.file else "file: none")
        self._show(_STORES)
        word = self._ask_line("store it? y/n: ")
        if self._is_grave and word == "y":
            self._show(_IN_FULL, "warning")
        elif word in {"y", "yes"} and self._try_store(remember, proposal):
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


_POINTER = ">"
_OWN_ROWS = 4
"""The dialogue's rows above and below the request."""
_TYPE_YES = "Type yes to run it.  n no  ? more"
_REST = "yes, and the rest like it in this program"
_STORES = "This approves the call and stores the rule."
_INSTEAD = "What should the model do instead? (Enter: say nothing) "
_NO_OBJECT = 'Not a JSON object. Write it as {"path": "a.py"}.'
_UNKNOWN = "Unknown answer. Type one of the keys above, then Enter."
_NOT_SHOWN = "Part of the request was not on the screen. Type d to see all of it first."
_IN_FULL = "Type yes in full: this can lose something for good."
_NO_MATCH = "No rule matches this call."
_STOPPED = "Not run: the user stopped the run."
