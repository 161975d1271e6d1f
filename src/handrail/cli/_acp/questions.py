"""Approval requests, put to the editor's user as permission requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote

import anyio
from acp.schema import AllowedOutcome, PermissionOption, ToolCallUpdate
from anyio import to_thread

from handrail import Allow, Deny, HandrailError
from handrail.approvals import (
    Form,
    Proposal,
    RenderedRequest,
    make_printable,
    read_form,
    render_request,
)
from handrail.cli._acp.tool_calls import find_kind, list_locations, show_change, show_text
from handrail.cli._acp.updates import Updates, find_turn
from handrail.cli._project.kit import Kit
from handrail.cli._screen.rows import safe_line
from handrail.permissions import Answer, Edit, Grade, Pending
from handrail.policy import Mode

AskPermission: TypeAlias = Callable[[ToolCallUpdate, list[PermissionOption]], Awaitable[Any]]
"""Puts a question to the editor's user, and returns the outcome."""
_SCOPES = {"run": "in this conversation", "project": "in this project"}


class _Choice(NamedTuple):
    option: PermissionOption
    answer: Allow | Deny | Edit
    proposal: Proposal | None = None
    """The rule to store."""
    mode: str = ""
    """The mode to change to."""


class EditorApprover:
    """Asks the editor's user. A question without an answer stays open, and is saved."""

    def __init__(self, ask: AskPermission, kit: Kit, updates: Updates) -> None:
        self._ask = ask
        self._kit = kit
        self._updates = updates
        self._root = Path(kit.workspace.root)
        self._questions = 0
        self._open: set[anyio.CancelScope] = set()

    async def __call__(self, pending: Pending) -> Answer | Pending:
        """Ask about one call."""
        request = await to_thread.run_sync(render_request, pending)
        choices = await to_thread.run_sync(self._list_choices, pending, request)
        turn = find_turn(f"{quote(pending.run_id, safe='')}/{pending.turn_id}")
        name = self._updates.begin_call(turn, pending.call)
        await self._updates.flush()
        shown = "\n".join(line.text for line in request.details)
        diffs = [show_change(one, self._root) for one in request.view.files]
        title, tag = safe_line(request.view.title), request.view.tag
        about = ToolCallUpdate(
            tool_call_id=name,
            title=f"{title} ({tag})" if tag else title,
            kind=find_kind(pending.call),
            status="pending",
            content=[*diffs, show_text(shown)],
            locations=list_locations(pending.accesses, self._root),
        )
        outcome = await self._wait(about, [choice.option for choice in choices])
        if outcome is None:
            return pending
        chosen = next((one for one in choices if one.option.option_id == outcome.option_id), None)
        if chosen is None:
            return Deny.by_user()
        await self._keep(chosen)
        seen = sha256(shown.encode("utf-8", "surrogatepass")).hexdigest()
        return replace(chosen.answer, via="editor", seen=seen)

    async def ask_question(self, question: str, choices: Sequence[str]) -> str | None:
        """Ask the model's question. Returns the user's choice, if any.

        A permission request takes no text. So a question without choices is shown, and answered
        with the next prompt.
        """
        if not choices:
            self._updates.say(safe_line(question))
            return None
        self._questions += 1
        await self._updates.flush()
        title = safe_line(question)
        about = ToolCallUpdate(
            tool_call_id=f"question-{self._questions}", title=title, kind="other", status="pending"
        )
        options = [
            _make_option(str(number), safe_line(choice), "allow_once")
            for number, choice in enumerate(choices)
        ]
        no = _make_option("none", "None of these", "reject_once")
        outcome = await self._wait(about, [*options, no])
        number = "none" if outcome is None else outcome.option_id
        return choices[int(number)] if number in {one.option_id for one in options} else None

    async def _wait(
        self, about: ToolCallUpdate, options: list[PermissionOption]
    ) -> AllowedOutcome | None:
        """Return what the person chose; None if the editor leaves, or cancels the request."""
        with anyio.CancelScope() as scope:
            self._open.add(scope)
            try:
                asked = await self._ask(about, options)
            except ConnectionError:
                return None
            finally:
                self._open.remove(scope)
            return asked.outcome if isinstance(asked.outcome, AllowedOutcome) else None
        return None

    def leave(self) -> None:
        """Leave all requests without an answer: the conversation is closed."""
        for scope in self._open:
            scope.cancel()

    def _list_choices(self, pending: Pending, request: RenderedRequest) -> list[_Choice]:
        """Return the possible answers. No one can approve an overlong request."""
        no = _Choice(_make_option("deny", "No", "reject_once"), Deny.by_user())
        if request.view.too_long:
            return [no]
        if pending.kind == "form":
            return [*_list_values(read_form(pending)), no]
        words = "I have signed in" if pending.kind == "login" else "Yes"
        if request.view.grade is Grade.LOSES:
            words = "Yes, although it cannot be undone"
        yes = _Choice(_make_option("allow", words, "allow_once"), Allow())
        if pending.once or pending.kind == "login":
            return [yes, no]
        if self._may_switch(pending, request.view.grade):
            words = "Yes, and all edits in this conversation"
            option = _make_option("edits", words, "allow_always")
            return [yes, _Choice(option, Edit(str(pending.call.args)), mode="edits"), no]
        return [yes, *self._list_rules(pending, request), no]

    def _list_rules(self, pending: Pending, request: RenderedRequest) -> list[_Choice]:
        """Return rules allowing such calls, if the request shows everything."""
        if not request.is_plain:
            return []
        found: dict[str, Proposal] = {}
        for proposal in self._kit.memory.propose(pending):
            if proposal.scope in _SCOPES and make_printable(proposal.rule).is_plain:
                found.setdefault(proposal.scope, proposal)
        return [
            _Choice(
                _make_option(scope, f"Always {_SCOPES[scope]}: {one.rule}", "allow_always"),
                Allow(),
                one,
            )
            for scope, one in found.items()
        ]

    def _may_switch(self, pending: Pending, grade: Grade) -> bool:
        rules = self._kit.rules
        is_change = grade is Grade.CHANGE and not pending.parts
        return is_change and rules.mode is Mode.ASK and rules.ceiling >= Mode.EDITS

    async def _keep(self, choice: _Choice) -> None:
        """Store a choice's rule, or change the mode."""
        if choice.proposal is not None:
            try:
                await to_thread.run_sync(self._kit.memory.store, choice.proposal)
            except (HandrailError, OSError) as error:
                self._updates.say(f"The rule was not stored: {error}")
        if choice.mode:
            self._kit.rules.set_mode(choice.mode)


def _list_values(form: Form) -> list[_Choice]:
    """Return the form answers an option can hold. Other forms are answered elsewhere."""
    needed = [one for one in form.fields if one.required and one.default is None]
    if not needed:
        return [_Choice(_make_option("allow", "Agree", "allow_once"), form.fill({}))]
    [first, *others] = needed
    values = {"boolean": (("yes", "Yes"), ("no", "No"))}.get(first.kind, first.choices)
    if others or first.kind == "choices":
        return []
    return [
        _Choice(
            _make_option(f"value-{number}", safe_line(f"{first.label}: {label}"), "allow_once"),
            form.fill({first.name: value}),
        )
        for number, (value, label) in enumerate(values)
    ]


def _make_option(name: str, words: str, kind: Any) -> PermissionOption:
    return PermissionOption(option_id=name, name=words, kind=kind)
