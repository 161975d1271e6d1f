"""Form answers, tied to what the page showed, and every reason to reject one."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from handrail import Allow, Deny, Result
from handrail.approvals import read_form
from handrail.console._guard import Visit
from handrail.console._request import RequestPage, read_args
from handrail.console._shown import Clear, shown
from handrail.net.cookies import sign
from handrail.permissions import Answer, Edit, Pending

MAX_REASON_CHARS = 2_000
MAX_RESULT_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class AnswerNotice:
    """A sentence about an answer: first whether it was used."""

    look: Clear
    first: Clear
    rest: Clear


class Unused(Exception):
    """An unused answer, and why."""

    def __init__(self, notice: AnswerNotice) -> None:
        super().__init__(notice.first)
        self.notice = notice


def not_used(rest: str, first: str = "Your answer was not used.") -> AnswerNotice:
    """Return the notice for an unused answer."""
    return AnswerNotice(Clear("warn"), Clear(first), Clear(rest))


CHANGED = not_used(
    "Your answer was not used. Read it again.", "The request changed while you read it."
)
SHORT = not_used("Part of the request was not on your page. Open all of it, and answer there.")
TOO_LONG = not_used("The call is too long to show, so it cannot be approved.")
NOT_TYPED = not_used("It cannot be undone, so type yes before you approve it.")
NOT_JSON = not_used("The arguments are not a JSON object.")
NO_RESULT = not_used("The result is empty.")


def not_filled_in(error: ValueError) -> AnswerNotice:
    """Return the notice for a value that does not fit its field."""
    return not_used(f"Your answer was not used. {shown(error, most=MAX_REASON_CHARS)}.")


NO_ANSWER = not_used("The form did not say which answer.")


def seen_of(key: bytes, visit: Visit, pending: Pending, content: str, *, full: bool) -> str:
    """Return the signature of what a person saw. Forms carry it, and no one else can make it."""
    digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
    view = "full" if full else "short"
    return sign(key, "seen", visit.person.session, pending.id, pending.fingerprint, digest, view)


def read_answer(visit: Visit, pending: Pending, request: RequestPage, *, seen: str) -> Answer:
    """Return a form's answer. Raises Unused if it does not cover everything shown."""
    if not hmac.compare_digest(visit.field("seen").encode(), seen.encode()):
        raise Unused(CHANGED)
    word = visit.field("answer")
    if word == "deny":
        return make_denial(visit)
    if request.too_long:
        raise Unused(TOO_LONG)
    if not request.complete:
        raise Unused(SHORT)
    if word == "result":
        return _read_result(visit, pending)
    if request.grave and visit.field("typed").strip() != "yes":
        raise Unused(NOT_TYPED)
    if pending.kind == "form" and word == "approve":
        return _read_values(visit, pending)
    return _read_approval(visit, word)


def _read_values(visit: Visit, pending: Pending) -> Edit:
    """Return a form's values. A choice is sent by its number."""
    form, typed = read_form(pending), dict[str, str]()
    for number, one in enumerate(form.fields):
        text = visit.field(f"value-{number}")[:MAX_RESULT_CHARS].replace("\r\n", "\n")
        if one.kind == "choice" and text.isdecimal() and int(text) < len(one.choices):
            text = one.choices[int(text)][0]
        typed[one.name] = text
    try:
        return form.fill(typed)
    except ValueError as error:
        raise Unused(not_filled_in(error)) from None


def _read_approval(visit: Visit, word: str) -> Allow | Edit:
    if word == "approve":
        return Allow()
    if word != "edit":
        raise Unused(NO_ANSWER)
    args = read_args(visit.field("args"))
    if args is None:
        raise Unused(NOT_JSON)
    return Edit(args)


def _read_result(visit: Visit, pending: Pending) -> Result:
    text = visit.field("result")[:MAX_RESULT_CHARS].replace("\r\n", "\n")
    if not text:
        raise Unused(NO_RESULT)
    return Result(pending.call.id, text)


def make_denial(visit: Visit) -> Deny:
    """Return a form's denial, with its reason for the model."""
    return Deny.by_user(visit.field("reason")[:MAX_REASON_CHARS])
