"""Answers to calls that wait: which are meant, what is shown of them, how they are kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from handrail.approvals import displayed, prompt
from handrail.cli._app import App
from handrail.cli._exits import Halt
from handrail.cli._saved import Saved
from handrail.judgement import Pending


def answer(
    app: App,
    saved: Saved,
    wanted: Sequence[str],
    given: dict[str, str],
    *,
    check: Callable[[Pending], None] = lambda _pending: None,
) -> None:
    """Give some calls an answer, or all where none is named; ``check`` refuses some with a Halt."""
    with saved.held():
        pending = saved.state().pending
        chosen = _chosen(saved, pending, wanted)
        for one in chosen:
            check(one)
        saved.keep_answers({**saved.answers, **{one.id: given for one in chosen}})
    app.print(
        {"id": saved.id, "answers": [_told(one, given) for one in chosen]},
        [line for one in chosen for line in _shown(one, given["answer"])],
    )
    app.say(f"go on with `handrail runs resume {saved.id}`")


def answerable(one: Pending) -> None:
    """Refuse a yes to what nobody can have seen, or to what it would come too late for."""
    if prompt(one).too_long:
        raise Halt(
            f"call {one.call.id} is too long to be shown, and so to be approved",
            code="too_long",
            hint="deny it, with a reason that tells the model to send less at a time",
        )
    if time.time() >= one.expires_at:
        raise Halt(
            f"the question about call {one.call.id} is too old to be approved",
            code="expired",
            hint="deny it: the model may then call again",
        )


def _chosen(saved: Saved, pending: Iterable[Pending], wanted: Sequence[str]) -> list[Pending]:
    """The questions that are meant, by the call's id or by their own."""
    asked = [one for one in pending if one.question]
    if not asked:
        raise Halt(
            f"no call of run {saved.id} waits for an answer",
            code="no_pending",
            hint=f"see `handrail runs show {saved.id}`",
        )
    chosen: dict[str, Pending] = {}
    for name in wanted:
        found = [one for one in asked if name in {one.call.id, one.id}]
        if len(found) != 1:
            raise _unclear(saved, asked, name, several=bool(found))
        chosen[found[0].id] = found[0]
    return list(chosen.values()) or asked


def _unclear(saved: Saved, asked: Iterable[Pending], name: str, *, several: bool) -> Halt:
    ids = ", ".join(one.id if several else one.call.id for one in asked)
    return Halt(
        f"several calls have the id {name!r}" if several else f"no call {name!r} waits",
        code="no_call",
        hint=f"these wait in run {saved.id}: {ids}",
    )


def named(wanted: Sequence[str], saved: Saved, *, every: bool) -> Sequence[str]:
    """Which calls a command line means; it must say so."""
    if bool(wanted) == every:
        waiting = ", ".join(one.call.id for one in saved.state().pending if one.question)
        raise click.UsageError(
            f"name the calls, or say --all; these wait: {displayed(waiting).text or 'none'}"
        )
    return wanted


def _told(one: Pending, given: dict[str, str]) -> dict[str, Any]:
    return {
        "pending": one.id,
        "call_id": one.call.id,
        "tool": one.call.name,
        "question": one.question,
        "answer": given["answer"],
        "reason": given.get("reason", ""),
    }


def _shown(one: Pending, verdict: str) -> list[str]:
    """All of it: what is approved is what is shown."""
    asked = prompt(one)
    return [*(line.text for line in asked.details), f"answer: {verdict}", ""]
