"""The inbox: what waits for a person, one request, and the answer to it."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response

from handrail import Allow, Deny, Result
from handrail.approvals import read_form
from handrail.console._figures import ago, duration, moment, spaced
from handrail.console._guard import Visit
from handrail.console._request import RequestPage, make_page, read_args
from handrail.console._shown import Clear, shown
from handrail.console._store import Site, go, need, query_of, visit_of
from handrail.net.cookies import sign
from handrail.permissions import Answer, Edit, Pending
from handrail.runs import request_digest
from handrail.runs.records import RequestRecord, from_path, to_path
from handrail.runs.wording import ANSWERS, describe_approvers, describe_votes

MAX_SEVERAL = 100
_MAX_REASON_CHARS = 2_000
_MAX_RESULT_CHARS = 20_000


class Inbox:
    """The inbox pages."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def show_home(self, request: Request) -> Response:
        """Go to the inbox."""
        visit_of(request)
        return go(f"{self._site.base}/inbox")

    async def show_list(self, request: Request) -> Response:
        """Show what waits."""
        visit = visit_of(request)
        return await self._page(visit, after=from_path(query_of(request, "after")))

    async def show(self, request: Request) -> Response:
        """Show what waits, and one request."""
        visit = visit_of(request)
        full = query_of(request, "full") == "1"
        record = await self._find(visit, request)
        return await self._page(visit, record=record, full=full)

    async def show_more(self, request: Request) -> Response:
        """Show the other ways to answer a request."""
        visit = visit_of(request, "approver")
        record = await self._find(visit, request)
        need(self._may_answer(visit, record) or None)
        view = await self._view(visit, record, full=True)
        return self._site.page("more.html", visit, request=view, notice=None)

    async def answer(self, request: Request) -> Response:
        """Give an answer, and go to its receipt."""
        visit = visit_of(request, "approver")
        record = await self._find(visit, request)
        full = visit.field("full") == "1"
        try:
            await self._give(visit, record, full=full)
        except _Unused as unused:
            fresh = await self._find(visit, request)
            return await self._page(
                visit, record=fresh, full=full, notice=unused.notice, status=HTTPStatus.CONFLICT
            )
        return go(f"{self._site.base}/inbox/{to_path(record.pending.id)}")

    async def deny_several(self, request: Request) -> Response:
        """Deny the ticked requests, each on its own. Nothing approves several."""
        visit = visit_of(request, "approver")
        denied, missed = 0, list[str]()
        for path in list(dict.fromkeys(visit.form.get("pending", ())))[:MAX_SEVERAL]:
            pending = from_path(path)
            record = await self._site.request(visit, "approver", pending)
            if record is None:
                missed.append("There is no such request.")
                continue
            outcome = await self._site.store.answer(pending, _make_denial(visit), visit.person)
            denied += outcome.used
            missed += [] if outcome.used else [outcome.text]
        first = Clear(f"✓ Denied {denied}." if denied else "Nothing was denied.")
        done = _AnswerNotice(Clear("warn" if missed else "ok"), first, shown(" ".join(missed)))
        return await self._page(visit, done=done)

    async def _find(self, visit: Visit, request: Request) -> RequestRecord:
        """Return a visible request. Others do not exist for this person."""
        pending = from_path(request.path_params["pending"])
        return need(await self._site.request(visit, "viewer", pending))

    async def _give(self, visit: Visit, record: RequestRecord, *, full: bool) -> None:
        """Submit a form's answer to the runs, which decide whether to use it."""
        if not self._may_answer(visit, record):
            raise _Unused(_not_used("You may not answer this request."))
        seen, view = await self._see(visit, record, full=full)
        pending_id, digest = from_path(view.path), request_digest(record.pending)
        answer = _read_answer(visit, record.pending, view, seen=seen)
        outcome = await self._site.store.answer(pending_id, answer, visit.person, seen=digest)
        if not outcome.used:
            first, _, rest = outcome.text.partition(". ")
            raise _Unused(_AnswerNotice(Clear("warn"), shown(f"{first}."), shown(rest)))

    def _may_answer(self, visit: Visit, record: RequestRecord) -> bool:
        """Return whether to offer an answer. The claim checks again when it is given."""
        asked = visit.person.is_asked(record.pending.approvers)
        return asked and visit.person.may("approver", record.run.labels)

    async def _see(
        self, visit: Visit, record: RequestRecord, *, full: bool
    ) -> tuple[str, RequestPage]:
        """Return what an approval covers, and its signature as the page shows it. May be slow."""
        may = self._may_answer(visit, record)

        def work() -> tuple[str, RequestPage]:
            view = make_page(record.pending, full=full, may_answer=may)
            return self._site.renderer.text("content.html", request=view), view

        content, view = await to_thread.run_sync(work)
        key, pending = self._site.config.key, record.pending
        return _seen_of(key, visit, pending, content, full=full), view

    async def _view(self, visit: Visit, record: RequestRecord, *, full: bool) -> dict[str, Any]:
        seen, view = await self._see(visit, record, full=full)
        pending = record.pending
        waits = record.answer is None and self._site.clock() < pending.expires_at
        return {
            **{name: getattr(view, name) for name in view.__dataclass_fields__},
            "seen": Clear(seen),
            "state": "waiting" if waits else "answered",
            "answerable": self._may_answer(visit, record),
            "reserved": describe_approvers(pending),
            "votes": describe_votes(record),
            "agent": record.run.agent,
            "pending": pending,
        }

    async def _page(  # noqa: PLR0913 each is a part on the page
        self,
        visit: Visit,
        *,
        after: str = "",
        record: RequestRecord | None = None,
        full: bool = False,
        notice: _AnswerNotice | None = None,
        done: _AnswerNotice | None = None,
        status: int = HTTPStatus.OK,
    ) -> Response:
        size = self._site.config.page_size
        seen = await self._site.read(
            visit, "viewer", lambda runs: runs.inbox(after=after, limit=size)
        )
        labels = visit.person.labels("approver")
        ids = {row.id for row in seen.rows}
        if not visit.person.may("approver"):
            ids = set[str]()
        elif labels != visit.person.labels("viewer"):
            own = await self._site.read(
                visit, "approver", lambda runs: runs.inbox(after=after, limit=size)
            )
            ids = {row.id for row in own.rows}
        ids -= {row.id for row in seen.rows if not visit.person.is_asked(row.approvers)}
        shown = None if record is None else await self._view(visit, record, full=full)
        return self._site.page(
            "inbox.html",
            visit,
            http_status=status,
            mine=[row for row in seen.rows if row.id in ids],
            others=[row for row in seen.rows if row.id not in ids],
            next=to_path(seen.next) if seen.next else "",
            request=shown,
            notice=notice or (self._receipt(record) if record else None),
            done=done,
        )

    def _receipt(self, record: RequestRecord) -> _AnswerNotice | None:
        """Return how a request was answered, or that it has expired."""
        given, now = record.answer, self._site.clock()
        if given is None or not given.by:
            return _too_late(record.pending) if now >= record.pending.expires_at else None
        who = f"By {given.by}, {spaced(ago(now - given.at))}, via {given.via or 'another way'}."
        went = (
            f"The run resumed {spaced(duration(given.resumed_after))} later."
            if given.resumed_after is not None
            else "A worker resumes the run."
            if record.app
            else f"Resume the run: handrail runs resume {record.run.id}"
        )
        look = Clear("ask" if given.answer == "deny" else "ok")
        done = Clear(f"✓ {ANSWERS[given.answer].capitalize()}.")
        return _AnswerNotice(look, done, shown(f"{who} {went}"))


def _too_late(pending: Pending) -> _AnswerNotice:
    after = duration(pending.expires_at - pending.asked_at)
    text = f"This request was denied automatically at {moment(pending.expires_at)}, after {after}."
    return _AnswerNotice(Clear("warn"), Clear("Too late."), Clear(text))


@dataclass(frozen=True, slots=True)
class _AnswerNotice:
    """A sentence about an answer: first whether it was used."""

    look: Clear
    first: Clear
    rest: Clear


class _Unused(Exception):
    """An unused answer, and why."""

    def __init__(self, notice: _AnswerNotice) -> None:
        super().__init__(notice.first)
        self.notice = notice


def _not_used(rest: str, first: str = "Your answer was not used.") -> _AnswerNotice:
    """Return the notice for an unused answer."""
    return _AnswerNotice(Clear("warn"), Clear(first), Clear(rest))


_CHANGED = _not_used(
    "Your answer was not used. Read it again.", "The request changed while you read it."
)
_SHORT = _not_used("Part of the request was not on your page. Open all of it, and answer there.")
_TOO_LONG = _not_used("The call is too long to show, so it cannot be approved.")
_NOT_TYPED = _not_used("It cannot be undone, so type yes before you approve it.")
_NOT_JSON = _not_used("The arguments are not a JSON object.")
_NO_RESULT = _not_used("The result is empty.")


def _not_filled_in(error: ValueError) -> _AnswerNotice:
    """Return the notice for a value that does not fit its field."""
    return _not_used(f"Your answer was not used. {shown(error, most=_MAX_REASON_CHARS)}.")


_NO_ANSWER = _not_used("The form did not say which answer.")


def _seen_of(key: bytes, visit: Visit, pending: Pending, content: str, *, full: bool) -> str:
    """Return the signature of what a person saw. Forms carry it, and no one else can make it."""
    digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
    view = "full" if full else "short"
    return sign(key, "seen", visit.person.session, pending.id, pending.fingerprint, digest, view)


def _read_answer(visit: Visit, pending: Pending, request: RequestPage, *, seen: str) -> Answer:
    """Return a form's answer. Raises Unused if it does not cover everything shown."""
    if not hmac.compare_digest(visit.field("seen").encode(), seen.encode()):
        raise _Unused(_CHANGED)
    word = visit.field("answer")
    if word == "deny":
        return _make_denial(visit)
    if request.too_long:
        raise _Unused(_TOO_LONG)
    if not request.complete:
        raise _Unused(_SHORT)
    if word == "result":
        return _read_result(visit, pending)
    if request.grave and visit.field("typed").strip() != "yes":
        raise _Unused(_NOT_TYPED)
    if pending.kind == "form" and word == "approve":
        return _read_values(visit, pending)
    return _read_approval(visit, word)


def _read_values(visit: Visit, pending: Pending) -> Edit:
    """Return a form's values. A choice is sent by its number."""
    form, typed = read_form(pending), dict[str, str]()
    for number, one in enumerate(form.fields):
        text = visit.field(f"value-{number}")[:_MAX_RESULT_CHARS].replace("\r\n", "\n")
        if one.kind == "choice" and text.isdecimal() and int(text) < len(one.choices):
            text = one.choices[int(text)][0]
        typed[one.name] = text
    try:
        return form.fill(typed)
    except ValueError as error:
        raise _Unused(_not_filled_in(error)) from None


def _read_approval(visit: Visit, word: str) -> Allow | Edit:
    if word == "approve":
        return Allow()
    if word != "edit":
        raise _Unused(_NO_ANSWER)
    args = read_args(visit.field("args"))
    if args is None:
        raise _Unused(_NOT_JSON)
    return Edit(args)


def _read_result(visit: Visit, pending: Pending) -> Result:
    text = visit.field("result")[:_MAX_RESULT_CHARS].replace("\r\n", "\n")
    if not text:
        raise _Unused(_NO_RESULT)
    return Result(pending.call.id, text)


def _make_denial(visit: Visit) -> Deny:
    """Return a form's denial, with its reason for the model."""
    return Deny.by_user(visit.field("reason")[:_MAX_REASON_CHARS])
