"""Answers to pending calls: selecting the calls, showing them, and saving the answers."""

from __future__ import annotations

import json
import os
import pwd
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from handrail.approvals import make_printable, read_form, render_request, view_request
from handrail.cli._base.app import App
from handrail.cli._base.exits import Halt
from handrail.cli._runs.stores import StoredRun
from handrail.permissions import Pending


def answer(
    app: App,
    saved: StoredRun,
    wanted: Sequence[str],
    given: dict[str, str],
    *,
    check: Callable[[Pending], None] = lambda _pending: None,
) -> None:
    """Answer the named calls, or all if none is named; ``check`` raises a Halt for invalid ones."""
    chosen = select_pending(saved, wanted)
    for question in chosen:
        check(question)
    outcomes = saved.answer(chosen, {**given, "by": find_user()})
    app.print(
        {"id": saved.id, "answers": [_answer_document(question, given) for question in chosen]},
        [line for question in chosen for line in _answer_lines(question, given["answer"])],
    )
    counted = [outcome for outcome in outcomes if outcome.status == "counted"]
    for outcome in counted:
        app.say(outcome.text)
    if len(counted) == len(outcomes):
        return
    app.say(saved.continued_by)


def find_user() -> str:
    """Return the answering user's name, or their number if the system has no name."""
    return next((user.pw_name for user in pwd.getpwall() if user.pw_uid == os.getuid()), "") or str(
        os.getuid()
    )


def check_answerable(question: Pending) -> None:
    """Raise a Halt if a call cannot be approved: it cannot be shown in full, or has expired."""
    deny = f"handrail runs deny {question.run_id} {question.call.id}"
    if view_request(question).too_long:
        raise Halt(
            f"call {question.call.id} is too long to show, so it cannot be approved",
            code="too_long",
            hint=f"deny it: `{deny} --reason 'Send less in one call.'`",
        )
    if not question.is_valid_at(time.time()):
        raise Halt(
            f"the approval request for call {question.call.id} has expired",
            code="expired",
            hint=f"deny it, so that the model can call again: `{deny}`",
        )


def read_values(chosen: Sequence[Pending], values: Sequence[str]) -> dict[str, str]:
    """Return an approval, or a form's values, or a Halt if they do not fit."""
    forms = [question for question in chosen if question.kind == "form"]
    if not forms and not values:
        return {"answer": "allow"}
    if len(chosen) > 1 or not forms:
        raise Halt(
            "values are for one call that asks for them" if values else _ONE_FORM,
            code="no_form",
            hint=f"name one call: `handrail runs show {chosen[0].run_id}` lists them",
        )
    pairs = [text.partition("=") for text in values]
    typed = {name: value for name, _, value in pairs}
    form = read_form(forms[0])
    try:
        filled = form.fill(typed)
    except ValueError as error:
        takes = " ".join(f"--set {one.name}=VALUE" for one in form.fields)
        raise Halt(
            make_printable(str(error)).text,
            code="no_value",
            hint=make_printable(f"the form takes: {takes}").text,
        ) from None
    return {"answer": "edit", "args": json.dumps(filled.args)}


_ONE_FORM = "a call that asks for values is answered alone"


def select_pending(saved: StoredRun, wanted: Sequence[str]) -> list[Pending]:
    """Return the selected approval requests, by the call's or the request's id."""
    asked = [question for question in saved.pending() if question.kind != "waiting"]
    if not asked:
        raise Halt(
            f"no call of run {saved.id} is waiting for approval",
            code="no_pending",
            hint=f"run `handrail runs show {saved.id}` to see what happened",
        )
    chosen: dict[str, Pending] = {}
    for name in wanted:
        matches = [question for question in asked if name in {question.call.id, question.id}]
        if len(matches) != 1:
            raise _unclear(asked, name, several=bool(matches))
        chosen[matches[0].id] = matches[0]
    return list(chosen.values()) or asked


def _unclear(asked: Iterable[Pending], name: str, *, several: bool) -> Halt:
    ids = ", ".join(question.id if several else question.call.id for question in asked)
    return Halt(
        f"several calls have the ID {name!r}" if several else f"no call {name!r} is waiting",
        code="no_call",
        hint=f"use one of: {ids}",
    )


def check_selection(wanted: Sequence[str], saved: StoredRun, *, every: bool) -> Sequence[str]:
    """Return the calls named on the command line; an error unless it names some or all."""
    if bool(wanted) == every:
        asked = (one.call.id for one in saved.pending() if one.kind != "waiting")
        waiting = ", ".join(asked)
        raise click.UsageError(
            f"name the calls, or pass `--all`; waiting: {make_printable(waiting).text or 'none'}"
        )
    return wanted


def _answer_document(question: Pending, given: dict[str, str]) -> dict[str, Any]:
    return {
        "pending": question.id,
        "call_id": question.call.id,
        "tool": question.call.name,
        "question": question.question,
        "answer": given["answer"],
        "reason": given.get("reason", ""),
    }


def _answer_lines(question: Pending, verdict: str) -> list[str]:
    """Return the whole request, as an approval covers exactly what was shown."""
    request = render_request(question)
    return [*(line.text for line in request.details), f"answer: {verdict}", ""]
