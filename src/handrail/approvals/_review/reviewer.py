"""Reviewer: an approver that asks a second model before a person, where a rule allows it."""

from __future__ import annotations

import hashlib
import time
from collections import Counter, OrderedDict
from dataclasses import replace

import anyio

from handrail import Allow
from handrail.approvals._review.question import (
    MAX_CHARS,
    ask_model,
    describe_call,
    is_reviewable,
    make_request,
    read_review,
)
from handrail.messages import Model, model_names
from handrail.permissions import Answer, Approver, Pending, Review, report_review

_MAX_RUNS = 1_000
VIA = "reviewer"


class Reviewer:
    """Asks a model, then a person unless the model allows the call: see ``reviewed_by``."""

    def __init__(self, model: Model, *, then: Approver, timeout: float, max_reviews: int) -> None:
        self._model, self._then = model, then
        self._timeout, self._max_reviews = timeout, max_reviews
        self._used: OrderedDict[str, int] = OrderedDict()
        self.counts: Counter[str] = Counter()
        """The model's answers so far: ``allow`` and ``ask``."""

    async def __call__(self, pending: Pending) -> Answer | Pending:
        """Answer a request."""
        review = await self.review(pending)
        if review is not None:
            report_review(review)
        if review is None or review.verdict != "allow":
            return await self._then(pending)
        seen = hashlib.sha256(describe_call(pending).encode("utf-8", "surrogatepass")).hexdigest()
        return Allow(by=review.model, via=VIA, seen=seen)

    async def review(self, pending: Pending) -> Review | None:
        """Return what the model says about a request; None if only a person may answer it.

        Anything that goes wrong means to ask the person.
        """
        if not is_reviewable(pending):
            return None
        question, run = describe_call(pending), pending.run_id
        name = model_names(self._model)[0] or "a model without a name"
        if len(question) > MAX_CHARS or not self._spend(run):
            why = "the question is too long" if len(question) > MAX_CHARS else "over its budget"
            return self._count(Review("ask", why, name))
        began = time.monotonic()
        review = Review("ask", f"no answer within {self._timeout:g} s", name)
        with anyio.move_on_after(self._timeout) as scope:
            try:
                review = read_review(await ask_model(self._model, make_request(question)), name)
            except Exception as error:  # noqa: BLE001  a failing model means to ask the person
                review = Review("ask", f"the model failed: {type(error).__name__}", name)
        if scope.cancel_called and review.verdict == "allow":
            review = Review("ask", "the answer was late", name)
        return self._count(replace(review, seconds=time.monotonic() - began))

    def _spend(self, run: str) -> bool:
        """Return whether the run has a review left, and use one."""
        used = self._used.pop(run, 0)
        self._used[run] = used + 1
        while len(self._used) > _MAX_RUNS:
            self._used.popitem(last=False)
        return used < self._max_reviews

    def _count(self, review: Review) -> Review:
        self.counts[review.verdict] += 1
        return review


def reviewed_by(
    model: Model, *, then: Approver, timeout: float = 20.0, max_reviews: int = 100
) -> Reviewer:
    """Return an approver that lets a second model allow calls, where a rule has ``review``.

    The model can only allow a call, or leave it to ``then``. It never sees a call that is denied,
    needs approval each time, can lose something, or is limited to some approvers. Nor one with a
    value that is not from a person or your own systems. It receives the words people wrote in the
    run, and the call, but no text a tool returned. If it is unsure, slow, failing or over budget,
    ``then`` answers.

    Args:
        model: The model to ask.
        then: Who answers everything else.
        timeout: Seconds for an answer.
        max_reviews: How often it is asked in one run.
    """
    return Reviewer(model, then=then, timeout=timeout, max_reviews=max_reviews)
