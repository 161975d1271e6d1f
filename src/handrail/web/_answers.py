"""Open requests, and answers from the people who may answer them."""

from __future__ import annotations

import json
import logging
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

import anyio
from anyio import to_thread

from handrail import Result
from handrail.approvals import Proposal, Remembers, read_form
from handrail.permissions import Answer, Edit, Pending
from handrail.runs import AnswerOutcome, Claimant, RunStore, request_digest
from handrail.runs.lines import make_diff
from handrail.web._guard import bad
from handrail.web._protocols.asked import WebAnswer
from handrail.web._visitor import Visitor

_MAX_REQUESTS = 1_000
_LOOK_SECONDS = 0.05
_LOGGER = logging.getLogger("handrail.web")
_NOT_STORED = "Its rule could not be stored: the next such call asks again."
_MAX_INT = 2**53 - 1
"""The largest integer that JavaScript reads exactly."""
_LAYOUT = str.maketrans("", "", "\n\t")
"""Characters in a rule's layout."""


class Inbox:
    """Open requests, each only for those who may answer it."""

    def __init__(self, store: RunStore, remember: Remembers | None) -> None:
        self._store = store
        self._remember = remember

    async def list_offers(self, pending: Pending) -> tuple[Proposal, ...]:
        """Return the rules that can be remembered with an approval."""
        if self._remember is None or pending.once:
            return ()
        found = await to_thread.run_sync(self._remember.propose, pending)
        return tuple([one for one in found if one.rule.translate(_LAYOUT).isprintable()])

    async def list(self, visitor: Visitor) -> tuple[Pending, ...]:
        """Return the requests a visitor may answer, the most urgent first."""
        if visitor.answers is False:
            return ()
        return tuple([one for one in await self.open() if visitor.may_answer(one)])

    async def open(self, run: str | None = None) -> tuple[Pending, ...]:
        """Return what waits for an answer, in all runs or in one."""
        read = partial(self._store.requests, run=run, limit=_MAX_REQUESTS)
        found = await to_thread.run_sync(read)
        return tuple([one.pending for one in found if one.answer is None])

    async def wait(self, run: str) -> tuple[Pending, ...]:
        """Return what a waiting run asks; nothing if it has all answers, and continues.

        Its questions can come a moment after its status.
        """
        while True:
            found = await to_thread.run_sync(partial(self._store.requests, run=run))
            if found:
                return tuple([one.pending for one in found if one.answer is None])
            head = await to_thread.run_sync(self._store.head, run)
            if head is None or head.status != "waiting":
                return ()
            await anyio.sleep(_LOOK_SECONDS)

    async def answer(
        self, visitor: Visitor, pending_id: str, given: WebAnswer, *, run: str | None = None
    ) -> AnswerOutcome:
        """Answer a request. Raises LookupError if there is none this visitor may answer.

        Args:
            visitor: Who answers.
            pending_id: The request's id.
            given: The answer.
            run: The run the request must be of; default: any.
        """
        found = await to_thread.run_sync(self._find, pending_id)
        is_other = found is not None and run is not None and found[0] != run
        if found is None or is_other or not visitor.may_answer(found[1]):
            raise LookupError(pending_id)
        answer: Answer = given.answer
        if isinstance(answer, Edit) and found[1].kind == "form":
            _check_form(found[1], answer)
        if isinstance(answer, Result):
            answer = Result(found[1].call.id, answer.text)
        who = Claimant(visitor.principal, visitor.groups, "web", given.seen)
        rule = None if given.remember is None else await self._find_offer(found[1], given.remember)
        outcome = await self._store.answer(pending_id, answer, by=who)
        return outcome if rule is None else await self._keep_rule(outcome, rule)

    async def _find_offer(self, pending: Pending, shown: str) -> Proposal:
        """Return the offered rule a person saw: rules can change between question and answer."""
        for one in await self.list_offers(pending):
            if _meaning(one.rule) == _meaning(shown):
                return one
        raise bad("`remember` is the text of an offered rule: read the inbox again.")

    async def _keep_rule(self, outcome: AnswerOutcome, rule: Proposal) -> AnswerOutcome:
        """Store a rule. The answer counts without it: its run continues."""
        if outcome.status != "used":
            return outcome
        try:
            await to_thread.run_sync(cast("Remembers", self._remember).store, rule)
        except Exception:
            _LOGGER.exception("A rule could not be stored.")
            return replace(outcome, text=f"{outcome.text} {_NOT_STORED}".strip())
        return outcome

    def _find(self, pending_id: str) -> tuple[str, Pending] | None:
        sql = "SELECT run, pending FROM handrail_question WHERE id = :id"
        rows = self._store.select(sql, {"id": pending_id})
        return (rows[0][0], Pending.from_json(rows[0][1])) if rows else None


def _meaning(rule: str) -> object:
    """Return what a rule says, without its new id and date."""
    try:
        tables = tomllib.loads(rule)["rule"]
        return [{**table, "id": "", "reason": ""} for table in tables]
    except (ValueError, LookupError, TypeError):
        return rule


def _check_form(pending: Pending, answer: Edit) -> None:
    try:
        read_form(pending).check(answer.args)
    except ValueError as error:
        raise bad(f"The values do not fit the form: {error}.") from None


def describe_request(pending: Pending) -> dict[str, Any]:
    """Return everything a person needs to answer, and its digest."""
    return {
        "pending": pending.id,
        "seen": request_digest(pending),
        "question": pending.question,
        "kind": pending.kind,
        "tool": pending.call.name,
        "args": _read_args(str(pending.call.args)),
        "changes": make_diff(pending.changes),
        "headline": pending.headline,
        "principal": pending.principal,
        "grade": pending.grade.name.lower(),
        "asked": pending.asked_at,
        "expires": expiry(pending),
    }


def _read_args(text: str) -> dict[str, Any] | str:
    """Return arguments as an object, or the text if some reader of JSON saw others."""
    try:
        args: Any = json.loads(text, parse_int=_read_int)
        json.dumps(args, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return text
    return cast("dict[str, Any]", args) if isinstance(args, dict) else text


def _read_int(digits: str) -> int:
    value = int(digits)
    if abs(value) > _MAX_INT:
        raise ValueError(digits)
    return value


def describe_waiting(pending: Pending, visitor: Visitor) -> Mapping[str, Any]:
    """Return a request for a stream. Its id is only for those who may answer it."""
    about = {"id": pending.call.id, "name": pending.call.name, "question": pending.question}
    if not visitor.may_answer(pending):
        return about
    return {**describe_request(pending), **about}


def expiry(pending: Pending) -> float | None:
    """Return when a request expires, or None for never."""
    return pending.expires_at if pending.expires_at < float("inf") else None
